//! Names of changes, so that a repeat has one effect.

use xce_model::OperationId;

use super::failure::Failure;

/// Separates the parts of what is hashed; no principal contains it.
/// Source: chosen, a byte that names cannot hold.
const SEPARATOR: u8 = 0;

/// The operation of a user's own token: the same token of the same user is the same operation.
pub fn of_token(principal: &str, token: &str) -> OperationId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"xce operation 1");
    hasher.update(&[SEPARATOR]);
    hasher.update(principal.as_bytes());
    hasher.update(&[SEPARATOR]);
    hasher.update(token.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    OperationId(id)
}

/// An operation that nobody else names.
///
/// # Errors
/// When the system gives no random numbers.
pub fn random() -> Result<OperationId, Failure> {
    random_bytes().map(OperationId)
}

/// Sixteen random bytes.
///
/// # Errors
/// When the system gives no random numbers.
pub fn random_bytes() -> Result<[u8; 16], Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Local(format!("no random numbers: {error}")))?;
    Ok(bytes)
}
