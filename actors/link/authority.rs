//! The cluster's certificate authority: made once, signs the certificate of every daemon and user.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData,
    SanType,
};

use xce_model::ClusterId;

use crate::identity::{Identity, IdentityError, ROOTS_FILE, read_certificates};
use crate::principal::{Principal, PrincipalError, Role, parse};
use crate::secret_file::{self, FileFault};
use crate::tls;

/// File with the authority's private key, mode 0600.
const AUTHORITY_KEY_FILE: &str = "ca.key";

/// Life of the authority's certificate, in days: 30 years.
///
/// Source: chosen; longer than any cluster, since replacing it needs every host.
const AUTHORITY_DAYS: i64 = 30 * 365;

/// Life of a certificate that the authority issues, in days: 10 years.
///
/// Source: chosen; renewal is by issuing again, and a cluster that was left alone must not stop by
/// itself after a year.
const CERTIFICATE_DAYS: i64 = 10 * 365;

/// How long an invitation is good. Source: chosen; a working day, whatever the hour it is made at.
const INVITATION_DAYS: i64 = 1;

/// Certificates are valid from this long before they are issued, in days.
///
/// Source: chosen; wall clocks of hosts that have not synchronised yet are off by hours.
const BACKDATE_DAYS: i64 = 2;

/// Seconds of a day.
///
/// Source: derived; 24 * 60 * 60.
const DAY_S: i64 = 86_400;

/// Signs certificates for one cluster.
pub struct Authority {
    cluster: ClusterId,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// There is one already.
    #[error("{} already holds an authority", .0.display())]
    Exists(PathBuf),
    /// There is none.
    #[error("{} holds no authority", .0.display())]
    Missing(PathBuf),
    /// It is the authority of another cluster.
    #[error("{} holds the authority of cluster {found}, not of {wanted}", path.display())]
    WrongCluster {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found: ClusterId,
        /// Whose it should be.
        wanted: ClusterId,
    },
    /// The certificate and the key in the directory are not a pair.
    #[error("{}: the certificate is not of the key beside it", .0.display())]
    Mismatch(PathBuf),
    /// The name or its role cannot be certified.
    #[error("cannot issue a certificate")]
    Principal(#[from] PrincipalError),
    /// Only a daemon or a user gets a certificate.
    #[error("the authority does not certify another authority")]
    NotALeaf,
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileFault),
    /// The certificate or key in the directory is damaged.
    #[error("the authority's certificate is not usable")]
    Identity(#[from] IdentityError),
    /// The cryptographic library failed.
    #[error("certificate library failed")]
    Library(#[from] rcgen::Error),
}

impl Authority {
    /// Makes the authority of a new cluster in a directory, which must exist.
    ///
    /// The certificate is written first and the key last: a directory with a key is complete.
    ///
    /// # Errors
    /// [`AuthorityError::Exists`] when the directory has one, [`AuthorityError::File`] when writing
    /// fails.
    pub fn create(
        directory: &Path,
        cluster: ClusterId,
        now_unix_s: i64,
    ) -> Result<Self, AuthorityError> {
        let key_path = directory.join(AUTHORITY_KEY_FILE);
        if secret_file::read(&key_path)?.is_some() {
            return Err(AuthorityError::Exists(directory.to_path_buf()));
        }
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let key_pem = key.serialize_pem();
        let signed = CertifiedIssuer::self_signed(authority_params(cluster, now_unix_s)?, key)?;
        let certificate_pem = signed.pem();
        secret_file::replace(&directory.join(ROOTS_FILE), certificate_pem.as_bytes())?;
        if !secret_file::create(&key_path, key_pem.as_bytes())? {
            return Err(AuthorityError::Exists(directory.to_path_buf()));
        }
        Self::from_parts(cluster, certificate_pem, KeyPair::from_pem(&key_pem)?)
    }

    /// Reads the authority of a cluster from its directory.
    ///
    /// # Errors
    /// [`AuthorityError::Missing`], [`AuthorityError::WrongCluster`], [`AuthorityError::Mismatch`],
    /// or a damaged file.
    pub fn load(directory: &Path, cluster: ClusterId) -> Result<Self, AuthorityError> {
        let missing = || AuthorityError::Missing(directory.to_path_buf());
        let key = secret_file::read(&directory.join(AUTHORITY_KEY_FILE))?.ok_or_else(missing)?;
        let certificate =
            secret_file::read_public(&directory.join(ROOTS_FILE))?.ok_or_else(missing)?;
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&key))?;
        let certificate_pem = String::from_utf8_lossy(&certificate).into_owned();
        let certificates = read_certificates("authority", &certificate_pem)?;
        let found = Principal::of_certificate(&certificates[0])?.cluster;
        if found != cluster {
            let path = directory.to_path_buf();
            return Err(AuthorityError::WrongCluster {
                path,
                found,
                wanted: cluster,
            });
        }
        if parse(&certificates[0])?.public_key().raw != key.subject_public_key_info() {
            return Err(AuthorityError::Mismatch(directory.to_path_buf()));
        }
        Self::from_parts(cluster, certificate_pem, key)
    }

    /// Reads the authority if the directory has one, else makes it.
    ///
    /// # Errors
    /// As [`Authority::load`] and [`Authority::create`].
    pub fn load_or_create(
        directory: &Path,
        cluster: ClusterId,
        now_unix_s: i64,
    ) -> Result<Self, AuthorityError> {
        match Self::load(directory, cluster) {
            Err(AuthorityError::Missing(_)) => Self::create(directory, cluster, now_unix_s),
            other => other,
        }
    }

    fn from_parts(
        cluster: ClusterId,
        certificate_pem: String,
        key: KeyPair,
    ) -> Result<Self, AuthorityError> {
        // Only the subject and the key identifier of these parameters enter what is signed.
        let issuer = Issuer::new(authority_params(cluster, 0)?, key);
        Ok(Self {
            cluster,
            certificate_pem,
            issuer,
        })
    }

    /// The cluster it signs for.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its own certificate, as PEM text.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Issues a certificate with a new key for a role and a host or user name.
    ///
    /// Controllers may listen and dial; every other role may only dial.
    ///
    /// # Errors
    /// [`AuthorityError::Principal`] for a name that is not allowed, [`AuthorityError::NotALeaf`]
    /// for [`Role::Authority`].
    pub fn issue(
        &self,
        role: Role,
        name: &str,
        now_unix_s: i64,
    ) -> Result<Identity, AuthorityError> {
        if role == Role::Authority {
            return Err(AuthorityError::NotALeaf);
        }
        let principal = Principal::new(self.cluster, role, name)?;
        self.sign(&principal, now_unix_s, CERTIFICATE_DAYS)
    }

    /// Issues a certificate that is good for joining only, and for two days at most.
    pub(crate) fn issue_for_joining(
        &self,
        name: &str,
        now_unix_s: i64,
    ) -> Result<Identity, AuthorityError> {
        let principal = Principal::new(self.cluster, Role::User, name)?;
        self.sign(&principal, now_unix_s, INVITATION_DAYS)
    }

    /// The authority's own key, as PEM text: for another controller, which signs as this one does.
    ///
    /// # Errors
    /// The directory has none, or it cannot be read.
    pub fn key_pem(directory: &Path) -> Result<String, AuthorityError> {
        let key = secret_file::read(&directory.join(AUTHORITY_KEY_FILE))?;
        let key = key.ok_or_else(|| AuthorityError::Missing(directory.to_path_buf()))?;
        Ok(String::from_utf8_lossy(&key).into_owned())
    }

    /// Puts certificate and key of an authority into a directory, which must exist.
    ///
    /// # Errors
    /// [`AuthorityError::Exists`] when the directory has another one, or as [`Authority::load`].
    pub fn adopt(
        directory: &Path,
        cluster: ClusterId,
        certificate: &str,
        key: &str,
    ) -> Result<Self, AuthorityError> {
        secret_file::replace(&directory.join(ROOTS_FILE), certificate.as_bytes())?;
        if !secret_file::create(&directory.join(AUTHORITY_KEY_FILE), key.as_bytes())?
            && Self::key_pem(directory)? != key
        {
            return Err(AuthorityError::Exists(directory.to_path_buf()));
        }
        Self::load(directory, cluster)
    }

    fn sign(
        &self,
        principal: &Principal,
        now_unix_s: i64,
        days: i64,
    ) -> Result<Identity, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let certificate =
            leaf_params(principal, now_unix_s, days)?.signed_by(&key, &self.issuer)?;
        let chain = certificate.pem();
        Ok(Identity::from_pem(
            &chain,
            &key.serialize_pem(),
            &self.certificate_pem,
        )?)
    }
}

fn authority_params(
    cluster: ClusterId,
    now_unix_s: i64,
) -> Result<CertificateParams, AuthorityError> {
    let principal = Principal::new(cluster, Role::Authority, "ca")?;
    let mut params = named(&principal, now_unix_s, AUTHORITY_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn leaf_params(
    principal: &Principal,
    now_unix_s: i64,
    days: i64,
) -> Result<CertificateParams, AuthorityError> {
    let mut params = named(principal, now_unix_s, days)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
        .extended_key_usages
        .push(ExtendedKeyUsagePurpose::ClientAuth);
    if principal.role == Role::Controller {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ServerAuth);
        let name = tls::server_name_text(principal.cluster);
        params
            .subject_alt_names
            .push(SanType::DnsName(name.try_into()?));
    }
    Ok(params)
}

fn named(
    principal: &Principal,
    now_unix_s: i64,
    days: i64,
) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    let common = format!("XCE {} of {}", principal.role, principal.cluster);
    params.distinguished_name.push(DnType::CommonName, common);
    params
        .subject_alt_names
        .push(SanType::URI(principal.to_string().try_into()?));
    let today = now_unix_s.div_euclid(DAY_S);
    let (year, month, day) = civil(today - BACKDATE_DAYS);
    params.not_before = rcgen::date_time_ymd(year, month, day);
    let (year, month, day) = civil(today + days);
    params.not_after = rcgen::date_time_ymd(year, month, day);
    Ok(params)
}

/// Turns days since 1970-01-01 into year, month and day of the Gregorian calendar.
///
/// Days are clamped to the years 1970 to 9000, which certificates can express.
///
/// Source: derived; years are counted from March of year 0, so that the leap day is a year's last,
/// in eras of 400 years = 146 097 days; 719 468 days lie between that March and 1970.
pub(crate) fn civil(days_since_1970: i64) -> (i32, u8, u8) {
    let days = days_since_1970.clamp(0, 2_567_000) + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year as i32, month as u8, day as u8)
}
