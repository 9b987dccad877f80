//! What a daemon or user holds to prove who it is: certificate, private key, and the authority.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::civil;
use crate::principal::{Fingerprint, Principal, PrincipalError, parse};
use crate::secret_file::{self, FileFault};
use crate::tls;

/// File with the certificate, in the directory of an identity.
const CERTIFICATE_FILE: &str = "identity.pem";
/// File with the private key, mode 0600.
const KEY_FILE: &str = "identity.key";
/// File with the certificates of the authorities that are trusted.
pub(crate) const ROOTS_FILE: &str = "ca.pem";

/// Most certificates read from one file.
///
/// Source: derived; a chain has one, and a rotation of the authority trusts two.
const CERTIFICATES_MAX: usize = 8;

/// Holds a certificate, its private key, and the authorities its holder trusts.
///
/// Cheap to clone. `Debug` never shows the key.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<Inner>,
}

struct Inner {
    principal: Principal,
    fingerprint: Fingerprint,
    begins_unix_s: i64,
    expires_unix_s: i64,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Vec<CertificateDer<'static>>,
    chain_pem: String,
    key_pem: String,
    roots_pem: String,
}

/// An identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file of it does not exist.
    #[error("there is no identity: {} does not exist", .0.display())]
    Missing(PathBuf),
    /// A file of it cannot be read or written.
    #[error(transparent)]
    File(#[from] FileFault),
    /// A part is no PEM text of the right kind.
    #[error("{what} is not usable: {reason}")]
    Pem {
        /// Which part.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The certificate does not say who its holder is.
    #[error("certificate does not name its holder")]
    Principal(#[from] PrincipalError),
    /// Certificate and key do not belong together, or the key is of a kind that is not supported.
    #[error("certificate and private key do not fit: {0}")]
    Key(String),
}

impl Identity {
    /// Makes an identity from PEM texts: certificate chain, private key, trusted authorities.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn from_pem(chain: &str, key: &str, roots: &str) -> Result<Self, IdentityError> {
        let certificates = read_certificates("certificate", chain)?;
        let private =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| IdentityError::Pem {
                what: "private key",
                reason: error.to_string(),
            })?;
        let authorities = read_certificates("authority", roots)?;
        tls::check_key(&certificates, &private).map_err(IdentityError::Key)?;
        let inner = Inner {
            principal: Principal::of_certificate(&certificates[0])?,
            fingerprint: Fingerprint::of_certificate(&certificates[0])?,
            begins_unix_s: parse(&certificates[0])?.validity().not_before.timestamp(),
            expires_unix_s: parse(&certificates[0])?.validity().not_after.timestamp(),
            chain: certificates,
            key: private,
            roots: authorities,
            chain_pem: chain.to_owned(),
            key_pem: key.to_owned(),
            roots_pem: roots.to_owned(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Reads an identity from the directory where [`Identity::store`] put it.
    ///
    /// # Errors
    /// [`IdentityError::Missing`] when a file does not exist, and as [`Identity::from_pem`].
    pub fn load(directory: &Path) -> Result<Self, IdentityError> {
        let chain = text(&directory.join(CERTIFICATE_FILE), secret_file::read_public)?;
        let key = text(&directory.join(KEY_FILE), secret_file::read)?;
        let roots = text(&directory.join(ROOTS_FILE), secret_file::read_public)?;
        Self::from_pem(&chain, &key, &roots)
    }

    /// Writes the identity to a directory, which must exist; every file is replaced atomically.
    ///
    /// # Errors
    /// [`IdentityError::File`] when writing fails.
    pub fn store(&self, directory: &Path) -> Result<(), IdentityError> {
        secret_file::replace(&directory.join(ROOTS_FILE), self.inner.roots_pem.as_bytes())?;
        secret_file::replace(&directory.join(KEY_FILE), self.inner.key_pem.as_bytes())?;
        secret_file::replace(
            &directory.join(CERTIFICATE_FILE),
            self.inner.chain_pem.as_bytes(),
        )?;
        Ok(())
    }

    /// Who the holder is.
    pub fn principal(&self) -> &Principal {
        &self.inner.principal
    }

    /// Certificate chain, key and trusted authorities as PEM texts, to hand over to the holder.
    pub fn pem(&self) -> (&str, &str, &str) {
        (
            &self.inner.chain_pem,
            &self.inner.key_pem,
            &self.inner.roots_pem,
        )
    }

    /// Fingerprint of the holder's key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.inner.fingerprint
    }

    /// When the certificate expires, in seconds since 1970.
    pub fn expires_unix_s(&self) -> i64 {
        self.inner.expires_unix_s
    }

    /// What is wrong with the certificate's time, if anything: it names the certificate and the day.
    pub fn out_of_time(&self, now_unix_s: i64) -> Option<String> {
        let Inner {
            principal,
            begins_unix_s,
            expires_unix_s,
            ..
        } = &*self.inner;
        let day = |unix_s: i64| {
            let (year, month, day) = civil(unix_s.div_euclid(86_400));
            format!("{year:04}-{month:02}-{day:02}")
        };
        if now_unix_s < *begins_unix_s {
            let (begins, now) = (day(*begins_unix_s), day(now_unix_s));
            return Some(format!(
                "the certificate of {principal} is not valid before {begins}, and this machine's clock \
                 says {now}"
            ));
        }
        (now_unix_s >= *expires_unix_s).then(|| {
            let ended = day(*expires_unix_s);
            format!("the certificate of {principal} ended on {ended}; it has to be issued again")
        })
    }

    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.inner.chain
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.inner.key.clone_key()
    }

    pub(crate) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.inner.roots
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Identity({}, key {})",
            self.inner.principal, self.inner.fingerprint
        )
    }
}

fn text(
    path: &Path,
    read: impl Fn(&Path) -> Result<Option<Vec<u8>>, FileFault>,
) -> Result<String, IdentityError> {
    let bytes = read(path)?.ok_or_else(|| IdentityError::Missing(path.to_path_buf()))?;
    String::from_utf8(bytes).map_err(|error| IdentityError::Pem {
        what: "file",
        reason: error.to_string(),
    })
}

/// Reads 1 to 8 certificates from PEM text.
pub(crate) fn read_certificates(
    what: &'static str,
    pem: &str,
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let fault = |reason: String| IdentityError::Pem { what, reason };
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        if certificates.len() == CERTIFICATES_MAX {
            return Err(fault(format!("more than {CERTIFICATES_MAX} certificates")));
        }
        certificates.push(certificate.map_err(|error| fault(error.to_string()))?);
    }
    if certificates.is_empty() {
        return Err(fault("it contains no certificate".to_owned()));
    }
    Ok(certificates)
}
