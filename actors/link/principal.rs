//! Who a peer is: cluster, role and name, as its certificate says.

use std::fmt;
use std::str::FromStr;

use rkyv::{Archive, Deserialize, Serialize};
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use xce_model::ClusterId;
use xce_model::limits::NAME_BYTES_MAX;

/// Scheme of the subject alternative name that carries the principal.
///
/// Source: chosen; `xce://<cluster>/<role>/<name>`.
const SCHEME: &str = "xce://";

/// What a certificate entitles its holder to be.
#[derive(
    Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
#[rkyv(derive(Debug))]
pub enum Role {
    /// The cluster's authority itself; signs, never connects.
    Authority,
    /// A controller; the only role that may listen.
    Controller,
    /// The worker of the host that the name gives.
    Worker,
    /// A scheduler.
    Scheduler,
    /// An apiserver.
    Apiserver,
    /// A person or a script; the name is the user's.
    User,
}

impl Role {
    /// Every role, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::Authority,
        Self::Controller,
        Self::Worker,
        Self::Scheduler,
        Self::Apiserver,
        Self::User,
    ];

    /// The word used in certificates and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Authority => "authority",
            Self::Controller => "controller",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
            Self::Apiserver => "apiserver",
            Self::User => "user",
        }
    }

    /// The number used in tokens; stays as it is for ever.
    pub fn code(self) -> u8 {
        match self {
            Self::Authority => 0,
            Self::Controller => 1,
            Self::Worker => 2,
            Self::Scheduler => 3,
            Self::Apiserver => 4,
            Self::User => 5,
        }
    }

    /// The role of a code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.code() == code)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// Names one holder of a certificate: `xce://<cluster>/<role>/<name>`.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// What the holder may be.
    pub role: Role,
    /// Host or user name, 1 to 128 bytes of `[A-Za-z0-9_][A-Za-z0-9._-]*`.
    pub name: String,
}

impl Principal {
    /// Makes a principal from checked parts.
    ///
    /// # Errors
    /// [`PrincipalError::Name`] when the name is empty, too long, or has other characters.
    pub fn new(cluster: ClusterId, role: Role, name: &str) -> Result<Self, PrincipalError> {
        check_name(name)?;
        Ok(Self {
            cluster,
            role,
            name: name.to_owned(),
        })
    }

    /// Reads the principal of a certificate. Does not check who signed it.
    ///
    /// # Errors
    /// [`PrincipalError::Certificate`] when the bytes are no X.509 certificate,
    /// [`PrincipalError::NotOne`] when it does not carry exactly one principal, and the errors of
    /// parsing the principal.
    pub fn of_certificate(der: &CertificateDer<'_>) -> Result<Self, PrincipalError> {
        let certificate = parse(der)?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|error| PrincipalError::Certificate(error.to_string()))?;
        let mut found = names
            .iter()
            .flat_map(|names| names.value.general_names.iter())
            .filter_map(|name| {
                if let GeneralName::URI(uri) = name {
                    Some(*uri)
                } else {
                    None
                }
            })
            .filter(|uri| uri.starts_with(SCHEME));
        match (found.next(), found.next()) {
            (Some(uri), None) => uri.parse(),
            (None, _) => Err(PrincipalError::NotOne { found: 0 }),
            (Some(_), Some(_)) => Err(PrincipalError::NotOne {
                found: 2 + found.count(),
            }),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}/{}/{}", self.cluster, self.role, self.name)
    }
}

impl FromStr for Principal {
    type Err = PrincipalError;

    fn from_str(text: &str) -> Result<Self, PrincipalError> {
        let form = || PrincipalError::Form(text.chars().take(NAME_BYTES_MAX).collect());
        let mut parts = text.strip_prefix(SCHEME).ok_or_else(form)?.splitn(3, '/');
        let (Some(cluster), Some(role), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(form());
        };
        let cluster = cluster.parse().map_err(|_| form())?;
        let role = Role::ALL
            .into_iter()
            .find(|known| known.word() == role)
            .ok_or_else(form)?;
        Self::new(cluster, role, name)
    }
}

/// A certificate or text does not name a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// The name is not allowed.
    #[error(
        "name {0:?} is not allowed: 1 to {NAME_BYTES_MAX} letters, digits, '.', '_', '-', and no '.' or '-' first"
    )]
    Name(String),
    /// The text has another form.
    #[error("{0:?} is not of the form xce://<cluster>/<role>/<name>")]
    Form(String),
    /// The certificate carries no principal, or several.
    #[error("certificate names {found} principals of XCE, not one")]
    NotOne {
        /// How many.
        found: usize,
    },
    /// The certificate is of another cluster than the authority it was checked with.
    #[error("certificate is of cluster {theirs}, not of {ours}")]
    OtherCluster {
        /// Our cluster.
        ours: ClusterId,
        /// Its cluster.
        theirs: ClusterId,
    },
    /// The bytes are no certificate.
    #[error("not a valid certificate: {0}")]
    Certificate(String),
}

fn check_name(name: &str) -> Result<(), PrincipalError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = name.bytes().next().is_some_and(plain);
    let rest = name
        .bytes()
        .all(|byte| plain(byte) || byte == b'.' || byte == b'-');
    if first && rest && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(PrincipalError::Name(
        name.chars().take(NAME_BYTES_MAX).collect(),
    ))
}

/// Identifies a key pair: the first 16 bytes of the BLAKE3 hash of the public key's DER form.
///
/// A session token is bound to it, so a stolen token is useless without the private key. It stays
/// the same when a certificate is renewed for the same key.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[rkyv(derive(Debug))]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// Computes the fingerprint of a certificate's key.
    ///
    /// # Errors
    /// [`PrincipalError::Certificate`] when the bytes are no X.509 certificate.
    pub fn of_certificate(der: &CertificateDer<'_>) -> Result<Self, PrincipalError> {
        let hash = blake3::hash(parse(der)?.public_key().raw);
        let mut short = [0; 16];
        short.copy_from_slice(&hash.as_bytes()[..16]);
        Ok(Self(short))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Fingerprint({self})")
    }
}

/// Parses a certificate that must fill the bytes.
pub(crate) fn parse<'a>(
    der: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, PrincipalError> {
    let (rest, certificate) = X509Certificate::from_der(der.as_ref())
        .map_err(|error| PrincipalError::Certificate(error.to_string()))?;
    if rest.is_empty() {
        return Ok(certificate);
    }
    Err(PrincipalError::Certificate(format!(
        "{} bytes follow it",
        rest.len()
    )))
}
