//! Tables of merging, of caps and of policies.

mod caps;
mod merging;
mod policies;
mod values;

use serde::de::DeserializeOwned;
use serde_json::Value;
use xce_model::spec::{ServiceSpec, User};

use crate::document::{JobFile, ServiceFile};
use crate::layers::{self, Between};
use crate::{Purpose, RunAs, refusal, resolve};

/// A document of any kind from JSON.
fn file<T: DeserializeOwned>(json: &Value) -> T {
    serde_json::from_value(json.clone()).expect("the document is good")
}

fn ada() -> RunAs {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    RunAs {
        user: User {
            name: "ada".to_owned(),
            uid: 1000,
            gid: 1001,
        },
        env: vec![pair("HOME", "/home/ada"), pair("PATH", "/bin")],
        cwd: None,
    }
}

/// The layers of a service `web` that runs `serve`, with these defaults and this request.
fn layered(profile: &Value, project: &Value, request: &Value) -> crate::Leaves {
    let profile: ServiceFile = file(profile);
    let project: ServiceFile = file(project);
    let mut request: ServiceFile = file(request);
    request.name.get_or_insert("web".to_owned());
    if profile.command.is_none() && project.command.is_none() {
        request.command.get_or_insert(vec!["serve".to_owned()]);
    }
    let between = Between {
        profile: Some(("p", &profile)),
        project: Some(("shop", &project)),
    };
    layers::service(&ada(), between, &request)
}

fn resolved(profile: &Value, project: &Value, request: &Value) -> Result<ServiceSpec, String> {
    let leaves = layered(profile, project, request);
    resolve::service(&leaves, &ada().user, Purpose::Create)
        .map_err(|problems| refusal(&problems).text)
}

fn job(request: &Value) -> xce_model::spec::JobSpec {
    let mut request: JobFile = file(request);
    request.name.get_or_insert("sim".to_owned());
    request.command.get_or_insert(vec!["run".to_owned()]);
    let leaves = layers::job(&ada(), Between::default(), &request);
    resolve::job(&leaves, &ada().user, Purpose::Create).expect("the job is good")
}
