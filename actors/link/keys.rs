//! Keys that an endpoint keeps over a restart, so that its peers notice the restart at once.
//!
//! Both are needed (foundations section 3): with the first key the new process can make the
//! stateless reset that the old process announced; with the second it recognises the connection
//! id as its own and answers at all. With one of them peers wait for their idle time-out.

use std::path::Path;
use std::sync::Arc;

use quinn::EndpointConfig;
use quinn::crypto::{CryptoError, HmacKey};
use quinn_proto::HashedConnectionIdGenerator;

use crate::secret_file::{self, FileFault};

/// File of the keys in the directory that the caller gives, mode 0600.
const KEYS_FILE: &str = "endpoint.key";

/// Length of the secret that both keys are derived from, in bytes.
///
/// Source: derived; the key length of BLAKE3.
const SECRET_BYTES: usize = 32;

/// Keys of an endpoint. `Debug` does not exist: they are secret.
#[derive(Clone)]
pub struct EndpointKeys {
    reset: [u8; 32],
    connection_ids: u64,
}

/// The keys of an endpoint could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileFault),
    /// The file has another length.
    #[error("{} has {found} bytes, not {SECRET_BYTES}; remove it to have it made anew", path.display())]
    Length {
        /// The file.
        path: std::path::PathBuf,
        /// Its length.
        found: usize,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    Entropy(#[source] getrandom::Error),
}

impl EndpointKeys {
    /// Derives the keys from a secret.
    pub fn from_secret(secret: &[u8; SECRET_BYTES]) -> Self {
        let ids = blake3::derive_key("xce link 1 connection id key", secret);
        let mut short = [0; 8];
        short.copy_from_slice(&ids[..8]);
        Self {
            reset: blake3::derive_key("xce link 1 stateless reset key", secret),
            connection_ids: u64::from_le_bytes(short),
        }
    }

    /// Reads the secret from a directory, which must exist, or makes one there.
    ///
    /// # Errors
    /// See [`KeysError`].
    pub fn load_or_create(directory: &Path) -> Result<Self, KeysError> {
        let path = directory.join(KEYS_FILE);
        if let Some(keys) = Self::load(&path)? {
            return Ok(keys);
        }
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(KeysError::Entropy)?;
        if secret_file::create(&path, &secret)? {
            return Ok(Self::from_secret(&secret));
        }
        // Another process made it in between; what is in the file counts.
        Self::load(&path)?.ok_or(KeysError::Length { path, found: 0 })
    }

    fn load(path: &Path) -> Result<Option<Self>, KeysError> {
        let Some(bytes) = secret_file::read(path)? else {
            return Ok(None);
        };
        let found = bytes.len();
        let secret: [u8; SECRET_BYTES] = bytes.try_into().map_err(|_| KeysError::Length {
            path: path.to_path_buf(),
            found,
        })?;
        Ok(Some(Self::from_secret(&secret)))
    }

    pub(crate) fn endpoint_config(&self) -> EndpointConfig {
        let mut config = EndpointConfig::new(Arc::new(ResetKey(self.reset)));
        let key = self.connection_ids;
        config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(key)));
        config
    }
}

/// Makes and checks stateless reset tokens.
struct ResetKey([u8; 32]);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        blake3::Hasher::new_keyed(&self.0)
            .update(data)
            .finalize_xof()
            .fill(signature_out);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let Ok(signature) = <[u8; 32]>::try_from(signature) else {
            return Err(CryptoError);
        };
        // Comparing hashes takes the same time wherever they differ.
        if blake3::keyed_hash(&self.0, data) == blake3::Hash::from_bytes(signature) {
            return Ok(());
        }
        Err(CryptoError)
    }
}
