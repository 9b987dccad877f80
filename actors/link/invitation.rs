//! An invitation: a text with which somebody may join a cluster once.
//!
//! It carries an identity that is good for two days at most and for nothing but joining, the
//! authority that the cluster is known by, and where its controllers listen. Whoever holds it may
//! join: it is a secret.

use data_encoding::BASE64URL_NOPAD;
use xce_model::ClusterId;

use crate::authority::{Authority, AuthorityError};
use crate::identity::{Identity, IdentityError};
use crate::principal::Role;

/// Begins every invitation. Source: chosen; names the program, what it is, and its version.
const MARK: &str = "xce-join-1.";
/// Begins the name in the certificate of an invitation, and no name of a user.
const NAME_MARK: &str = "join.";
/// Longest invitation in bytes. Source: derived; four times the largest that is made.
const INVITATION_BYTES_MAX: usize = 16 * 1024;

/// Who is invited, as the certificate of the invitation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invited {
    /// What it will be.
    pub role: Role,
    /// Its name then.
    pub name: String,
}

impl Invited {
    /// The name in the certificate of the invitation.
    fn certificate_name(&self) -> String {
        format!("{NAME_MARK}{}.{}", self.role.word(), self.name)
    }

    /// Who is invited by a certificate of this name; nobody by any other.
    pub fn of_name(name: &str) -> Option<Self> {
        let (role, name) = name.strip_prefix(NAME_MARK)?.split_once('.')?;
        let role = Role::ALL.into_iter().find(|known| known.word() == role)?;
        Some(Self {
            role,
            name: name.to_owned(),
        })
    }
}

/// Whether a name is kept for invitations.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(NAME_MARK)
}

/// An invitation, opened.
#[derive(Clone)]
pub struct Invitation {
    /// Where the controllers listen, each `host:port`.
    pub controllers: Vec<String>,
    /// The identity to join with.
    pub identity: Identity,
}

/// A text is no invitation.
#[derive(Debug, thiserror::Error)]
pub enum InvitationError {
    /// It does not begin as one.
    #[error("this is no invitation: one begins with {MARK}")]
    Mark,
    /// It is longer than any.
    #[error("an invitation has at most {INVITATION_BYTES_MAX} bytes")]
    Long,
    /// It was not copied whole.
    #[error("the invitation is damaged; copy it whole, in one line")]
    Damaged,
    /// What is in it cannot be used.
    #[error("the invitation cannot be used")]
    Identity(#[from] IdentityError),
    /// It is not made for joining.
    #[error("the certificate in it is of {0}, not of an invitation")]
    Foreign(String),
}

impl Invitation {
    /// Makes an invitation.
    ///
    /// # Errors
    /// The name cannot be certified.
    pub fn issue(
        authority: &Authority,
        invited: &Invited,
        controllers: Vec<String>,
        now_unix_s: i64,
    ) -> Result<Self, AuthorityError> {
        let name = invited.certificate_name();
        let identity = authority.issue_for_joining(&name, now_unix_s)?;
        Ok(Self {
            controllers,
            identity,
        })
    }

    /// The cluster that invites.
    pub fn cluster(&self) -> ClusterId {
        self.identity.principal().cluster
    }

    /// Who is invited.
    pub fn invited(&self) -> Option<Invited> {
        Invited::of_name(&self.identity.principal().name)
    }

    /// The text to hand over.
    pub fn to_text(&self) -> String {
        let (chain, key, roots) = self.identity.pem();
        let plain = format!("{}\0{chain}\0{key}\0{roots}", self.controllers.join(","));
        let sum = &blake3::hash(plain.as_bytes()).to_hex()[..16];
        let text = format!("{sum}{plain}");
        format!("{MARK}{}", BASE64URL_NOPAD.encode(text.as_bytes()))
    }

    /// Opens a text.
    ///
    /// # Errors
    /// See [`InvitationError`].
    pub fn from_text(text: &str) -> Result<Self, InvitationError> {
        let text = text.trim();
        if text.len() > INVITATION_BYTES_MAX {
            return Err(InvitationError::Long);
        }
        let coded = text.strip_prefix(MARK).ok_or(InvitationError::Mark)?;
        let damaged = || InvitationError::Damaged;
        let bytes = BASE64URL_NOPAD
            .decode(coded.as_bytes())
            .map_err(|_| damaged())?;
        let text = String::from_utf8(bytes).map_err(|_| damaged())?;
        let (sum, plain) = text.split_at_checked(16).ok_or_else(damaged)?;
        if blake3::hash(plain.as_bytes()).to_hex()[..16] != *sum {
            return Err(damaged());
        }
        let parts: Vec<&str> = plain.split('\0').collect();
        let [controllers, chain, key, roots] = parts[..] else {
            return Err(damaged());
        };
        let identity = Identity::from_pem(chain, key, roots)?;
        let invitation = Self {
            controllers: controllers.split(',').map(str::to_owned).collect(),
            identity,
        };
        if invitation.invited().is_none() {
            let who = invitation.identity.principal().to_string();
            return Err(InvitationError::Foreign(who));
        }
        Ok(invitation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> (tempfile::TempDir, Authority) {
        let dir = tempfile::TempDir::new().unwrap();
        let authority = Authority::create(dir.path(), ClusterId([7; 16]), 1_790_000_000).unwrap();
        (dir, authority)
    }

    fn invitation() -> Invitation {
        let (_dir, authority) = authority();
        let invited = Invited {
            role: Role::Controller,
            name: "c2".to_owned(),
        };
        let controllers = vec!["10.0.0.1:7477".to_owned(), "c3.site:7477".to_owned()];
        Invitation::issue(&authority, &invited, controllers, 1_790_000_000).unwrap()
    }

    #[test]
    fn a_text_opens_to_what_was_issued() {
        let made = invitation();
        let text = made.to_text();
        assert!(text.starts_with(MARK) && !text.contains(char::is_whitespace));
        let opened = Invitation::from_text(&format!(" {text}\n")).unwrap();
        assert_eq!(opened.controllers, made.controllers);
        assert_eq!(opened.identity.fingerprint(), made.identity.fingerprint());
        let invited = opened.invited().unwrap();
        assert_eq!(
            (invited.role, invited.name.as_str()),
            (Role::Controller, "c2")
        );
        assert!(made.identity.expires_unix_s() - 1_790_000_000 <= 2 * 86_400);
    }

    #[test]
    fn a_damaged_text_is_refused_in_words() {
        let text = invitation().to_text();
        let cut = &text[..text.len() - 7];
        let mut other = text.clone().into_bytes();
        other[40] ^= 1;
        let other = String::from_utf8(other).unwrap();
        for (text, said) in [
            ("", "begins with"),
            ("hello", "begins with"),
            (cut, "damaged"),
            (other.as_str(), "damaged"),
            (&"x".repeat(20_000), "at most"),
        ] {
            let error = Invitation::from_text(text)
                .map(drop)
                .unwrap_err()
                .to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn names_of_invitations_are_kept_apart() {
        assert!(is_reserved("join.user.alice") && !is_reserved("joiner"));
        assert_eq!(Invited::of_name("join.worker.h.1").unwrap().name, "h.1");
        assert!(Invited::of_name("join.gardener.h1").is_none());
        assert!(Invited::of_name("alice").is_none());
    }
}
