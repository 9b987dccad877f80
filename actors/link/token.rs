//! Session tokens: sealed by one controller, opened by any, useless to a thief.
//!
//! ```text
//!   | form | key | cluster | session | epoch | issued | expires | key print | incarnation | role | name | seal |
//!      1     1      16        8        8       8        8          16           16          1    1-128   32
//! ```
//! The seal is a keyed BLAKE3 hash of all before it. The token is no secret by itself: it only
//! opens for a peer that holds the private key, is the same principal, and the same incarnation.

mod file;

use xce_model::limits::NAME_BYTES_MAX;
use xce_model::{ClusterId, ClusterTime, Incarnation, SessionId};

pub use self::file::RingError;
use crate::principal::{Fingerprint, Principal, Role};

/// First byte of a token; another form gets another number.
///
/// Source: chosen.
const FORM: u8 = 1;

/// Length of a token without its name, in bytes.
///
/// Source: derived from the picture above.
const FIXED_BYTES: usize = 1 + 1 + 16 + 8 + 8 + 8 + 8 + 16 + 16 + 1 + SEAL_BYTES;

/// Length of the seal, in bytes.
///
/// Source: derived; a BLAKE3 hash.
const SEAL_BYTES: usize = 32;

/// Most keys of a ring.
///
/// Source: chosen; one is used, the one before still opens, the others are for a slow rotation.
pub const KEYS_MAX: usize = 8;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The session.
    pub session: SessionId,
    /// Epoch of the session when the token was sealed.
    pub epoch: u64,
    /// When it was sealed, in cluster time.
    pub issued: ClusterTime,
    /// From when it does not open any more, in cluster time.
    pub expires: ClusterTime,
    /// Whose it is.
    pub bearer: Bearer,
}

/// Whose a token is: who presents it must be all of this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// Cluster, role and name of the certificate.
    pub principal: Principal,
    /// Fingerprint of the certificate's key.
    pub fingerprint: Fingerprint,
    /// Incarnation of the peer.
    pub incarnation: Incarnation,
}

/// A token does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It has not the form of a token.
    #[error("not a session token")]
    Malformed,
    /// It was sealed with a key that is not in the ring.
    #[error("session token was sealed with key {key}, which is not known any more")]
    UnknownKey {
        /// Number of the key.
        key: u8,
    },
    /// It was changed, or sealed by somebody else.
    #[error("session token is not genuine")]
    BadMac,
    /// It is of another cluster.
    #[error("session token is of cluster {theirs}, not of {ours}")]
    WrongCluster {
        /// The cluster of the ring.
        ours: ClusterId,
        /// The cluster in the token.
        theirs: ClusterId,
    },
    /// It has expired.
    #[error("session token expired {ago_ms} ms ago")]
    Expired {
        /// Time since then, in milliseconds.
        ago_ms: u64,
    },
    /// It was given to somebody else.
    #[error("session token was given to another {what}")]
    NotYours {
        /// What differs: "principal", "key", "incarnation".
        what: &'static str,
    },
}

/// Keys that seal and open the tokens of one cluster. Equal on all its controllers.
#[derive(Clone)]
pub struct KeyRing {
    cluster: ClusterId,
    /// Number and key, oldest first; the last one seals.
    keys: Vec<(u8, [u8; 32])>,
}

impl KeyRing {
    /// Makes a ring with one key, number 1, from 32 random bytes.
    pub fn new(cluster: ClusterId, entropy: [u8; 32]) -> Self {
        Self {
            cluster,
            keys: vec![(1, entropy)],
        }
    }

    /// Adds a key that seals from now on; older ones still open, at most [`KEYS_MAX`] in all.
    pub fn rotate(&mut self, entropy: [u8; 32]) {
        let number = self
            .keys
            .last()
            .map_or(1, |(number, _)| number.wrapping_add(1));
        self.keys.retain(|(known, _)| *known != number);
        self.keys.push((number, entropy));
        if self.keys.len() > KEYS_MAX {
            self.keys.remove(0);
        }
    }

    /// Forgets all keys but the one that seals.
    pub fn retire_old(&mut self) {
        self.keys.drain(..self.keys.len().saturating_sub(1));
    }

    /// Seals claims. The cluster sealed is the ring's.
    pub fn seal(&self, claims: &Claims) -> Vec<u8> {
        let bearer = &claims.bearer;
        let (number, key) = self.keys.last().expect("a ring has at least one key");
        let mut token = Vec::with_capacity(FIXED_BYTES + bearer.principal.name.len());
        token.extend_from_slice(&[FORM, *number]);
        token.extend_from_slice(&self.cluster.0);
        token.extend_from_slice(&claims.session.0.to_le_bytes());
        token.extend_from_slice(&claims.epoch.to_le_bytes());
        token.extend_from_slice(&claims.issued.0.to_le_bytes());
        token.extend_from_slice(&claims.expires.0.to_le_bytes());
        token.extend_from_slice(&bearer.fingerprint.0);
        token.extend_from_slice(&bearer.incarnation.0);
        token.push(bearer.principal.role.code());
        token.extend_from_slice(bearer.principal.name.as_bytes());
        let seal = blake3::keyed_hash(key, &token);
        token.extend_from_slice(seal.as_bytes());
        token
    }

    /// Opens a token for whoever presents it, as its connection and hello say.
    ///
    /// # Errors
    /// The first that holds of: malformed, wrong cluster, unknown key, not genuine, expired, not
    /// yours. The cluster is looked at before the seal, since another cluster has other keys.
    pub fn open(
        &self,
        token: &[u8],
        presenter: &Bearer,
        now: ClusterTime,
    ) -> Result<Claims, TokenError> {
        let (body, seal) = token
            .split_last_chunk::<SEAL_BYTES>()
            .ok_or(TokenError::Malformed)?;
        let mut rest = body;
        let [form, number] = take(&mut rest)?;
        let cluster = ClusterId(take(&mut rest)?);
        if form != FORM || token.len() > FIXED_BYTES + NAME_BYTES_MAX {
            return Err(TokenError::Malformed);
        }
        if cluster != self.cluster {
            return Err(TokenError::WrongCluster {
                ours: self.cluster,
                theirs: cluster,
            });
        }
        let (_, key) = self
            .keys
            .iter()
            .find(|(known, _)| *known == number)
            .ok_or(TokenError::UnknownKey { key: number })?;
        // Comparing hashes takes the same time wherever they differ.
        if blake3::keyed_hash(key, body) != blake3::Hash::from_bytes(*seal) {
            return Err(TokenError::BadMac);
        }
        let claims = read_claims(cluster, rest)?;
        if now >= claims.expires {
            return Err(TokenError::Expired {
                ago_ms: now.0 - claims.expires.0,
            });
        }
        let not_yours = |what| Err(TokenError::NotYours { what });
        if claims.bearer.fingerprint != presenter.fingerprint {
            return not_yours("key");
        }
        if claims.bearer.principal != presenter.principal {
            return not_yours("principal");
        }
        if claims.bearer.incarnation != presenter.incarnation {
            return not_yours("incarnation");
        }
        Ok(claims)
    }
}

fn read_claims(cluster: ClusterId, mut rest: &[u8]) -> Result<Claims, TokenError> {
    let rest = &mut rest;
    let session = SessionId(u64::from_le_bytes(take(rest)?));
    let epoch = u64::from_le_bytes(take(rest)?);
    let issued = ClusterTime(u64::from_le_bytes(take(rest)?));
    let expires = ClusterTime(u64::from_le_bytes(take(rest)?));
    let fingerprint = Fingerprint(take(rest)?);
    let incarnation = Incarnation(take(rest)?);
    let [role] = take(rest)?;
    let role = Role::from_code(role).ok_or(TokenError::Malformed)?;
    let name = std::str::from_utf8(rest).map_err(|_| TokenError::Malformed)?;
    let principal = Principal::new(cluster, role, name).map_err(|_| TokenError::Malformed)?;
    let bearer = Bearer {
        principal,
        fingerprint,
        incarnation,
    };
    Ok(Claims {
        session,
        epoch,
        issued,
        expires,
        bearer,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], TokenError> {
    let (front, back) = rest.split_first_chunk::<N>().ok_or(TokenError::Malformed)?;
    *rest = back;
    Ok(*front)
}
