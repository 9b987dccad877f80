//! The health protocol of gRPC as a probe: one `Check` on a connection of its own, without TLS.
//!
//! | the server says | outcome |
//! |---|---|
//! | `SERVING` | good |
//! | `NOT_SERVING`, `UNKNOWN`, service not known to it, any other error | bad |
//! | it has no health protocol (`UNIMPLEMENTED`) | could not be run: nobody can tell how it is |

use std::error::Error;

use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::Outcome;
use super::attempt::authority;

/// Largest answer taken, in bytes.
///
/// Source: derived; the answer is one number, and the rest is for fields of later versions.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Asks once.
pub async fn check(host: &str, port: u16, service: &str) -> Outcome {
    let place = authority(host, port);
    let endpoint = match Endpoint::from_shared(format!("http://{place}")) {
        Ok(endpoint) => endpoint,
        Err(error) => return Outcome::Unrunnable(format!("{place} is no address: {error}")),
    };
    let channel = match endpoint.connect().await {
        Ok(channel) => channel,
        Err(error) => return Outcome::Failure(format!("{place}: {}", innermost(&error))),
    };
    let mut client = HealthClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let question = HealthCheckRequest {
        service: service.to_owned(),
    };
    match client.check(question).await {
        Ok(answer) => judge(answer.into_inner().status(), service),
        Err(status) if status.code() == Code::Unimplemented => Outcome::Unrunnable(format!(
            "{place} does not know grpc.health.v1.Health: UNIMPLEMENTED"
        )),
        Err(status) if status.code() == Code::NotFound => {
            Outcome::Failure(format!("{place} does not know service `{service}`"))
        }
        Err(status) => Outcome::Failure(format!("{place}: {}", status.message())),
    }
}

fn judge(status: ServingStatus, service: &str) -> Outcome {
    match status {
        ServingStatus::Serving => Outcome::Success,
        ServingStatus::NotServing | ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            let name = status.as_str_name();
            Outcome::Failure(if service.is_empty() {
                format!("the server says {name}")
            } else {
                format!("the server says {name} of service `{service}`")
            })
        }
    }
}

/// The text that names the cause; those above it only say that there was one.
fn innermost(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
