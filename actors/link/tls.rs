//! TLS as XCE uses it: version 1.3, both sides certified, nothing resumed, one protocol name.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use xce_model::ClusterId;

use crate::identity::Identity;
use crate::principal::Principal;

/// Name of the protocol in the TLS handshake; the number changes when old peers cannot be served.
///
/// Source: foundations section 3, `xce/N`.
pub(crate) const PROTOCOL_NAME: &[u8] = b"xce/1";

/// TLS could not be set up from an identity.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// rustls does not accept a part of the identity.
    #[error("TLS does not accept this identity")]
    Identity(#[from] rustls::Error),
    /// An authority's certificate is not usable.
    #[error("TLS does not accept this authority: {0}")]
    Authority(String),
}

/// The name under which every listener of a cluster is verified.
pub(crate) fn server_name_text(cluster: ClusterId) -> String {
    format!("{cluster}.xce")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(identity: &Identity) -> Result<Arc<RootCertStore>, TlsFault> {
    let mut store = RootCertStore::empty();
    for root in identity.roots() {
        store.add(root.clone())?;
    }
    Ok(Arc::new(store))
}

/// Checks that a private key is supported and belongs to the first certificate.
pub(crate) fn check_key(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(), String> {
    rustls::sign::CertifiedKey::from_der(chain.to_vec(), key.clone_key(), &provider())
        .map(|_| ())
        .map_err(|error| error.to_string())
}

pub(crate) fn server(identity: &Identity) -> Result<rustls::ServerConfig, TlsFault> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(identity)?, provider())
        .build()
        .map_err(|error| TlsFault::Authority(error.to_string()))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain().to_vec(), identity.key())?;
    config.alpn_protocols = vec![PROTOCOL_NAME.to_vec()];
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

pub(crate) fn client(
    identity: &Identity,
    witness: Arc<Witness>,
) -> Result<rustls::ClientConfig, TlsFault> {
    let inner = WebPkiServerVerifier::builder_with_provider(roots(identity)?, provider())
        .build()
        .map_err(|error| TlsFault::Authority(error.to_string()))?;
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(WitnessedVerifier { inner, witness }))
        .with_client_auth_cert(identity.chain().to_vec(), identity.key())?;
    config.alpn_protocols = vec![PROTOCOL_NAME.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_early_data = false;
    Ok(config)
}

/// What a listener presented that we did not accept.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    /// Whom its certificate claims to be; nobody vouches for it.
    pub(crate) claimed: Option<Principal>,
    /// Why it was not accepted.
    pub(crate) reason: String,
}

/// Remembers the rejection of one handshake, for a clear error.
#[derive(Debug, Default)]
pub(crate) struct Witness(Mutex<Option<Rejection>>);

impl Witness {
    pub(crate) fn rejection(&self) -> Option<Rejection> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Verifies as webpki does, and tells the witness about every certificate it rejects.
struct WitnessedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    witness: Arc<Witness>,
}

impl fmt::Debug for WitnessedVerifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WitnessedVerifier")
    }
}

impl ServerCertVerifier for WitnessedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        if let Err(error) = &verdict {
            let claimed = Principal::of_certificate(end_entity).ok();
            let rejection = Rejection {
                claimed,
                reason: error.to_string(),
            };
            *self
                .witness
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(rejection);
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
