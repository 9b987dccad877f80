//! What a client asks about the controllers of the cluster, and what whoever joins is given.

/// What is asked about members.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AskMember {
    /// All controllers.
    List,
    /// A token with which somebody may join once.
    Invite(Invite),
    /// Redeems a token; the certificate of the connection is the token's.
    Join {
        /// Where a controller will listen, `host:port`; empty for others.
        address: String,
        /// Highest feature level that a controller supports; 0 for others.
        level: u16,
    },
    /// Takes a controller out.
    Remove(u64),
    /// Hands the leadership to a controller.
    Transfer(u64),
    /// What a backup begins with; the journal follows it.
    Backup,
}

/// Who is invited.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Invite {
    /// Another controller; its number is given by the cluster.
    Controller,
    /// The worker of a host.
    Worker(String),
    /// A user.
    User(String),
    /// A scheduler.
    Scheduler(String),
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum ReplyMember {
    /// All controllers, by number.
    List(Vec<MemberView>),
    /// A token, as text.
    Token(String),
    /// What the one who joins needs.
    Joined(Box<Joined>),
    /// What a backup begins with.
    Backup(Box<BackupHead>),
}

/// What a backup begins with, beside the journal.
#[derive(Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct BackupHead {
    /// Wall clock of the primary, in milliseconds.
    pub taken_ms: i64,
    /// Version of its program.
    pub version: String,
    /// Numbers and addresses of the controllers.
    pub controllers: Vec<(u64, String)>,
    /// Certificate of the authority.
    pub certificate: String,
    /// Its key: a secret.
    pub key: String,
}

/// Shows no secret.
impl std::fmt::Debug for BackupHead {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BackupHead")
            .field("taken_ms", &self.taken_ms)
            .field("version", &self.version)
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

/// What the one who joins is given, over a connection that nobody else can read.
#[derive(Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Joined {
    /// Its name from now on, such as `c2`.
    pub name: String,
    /// Its certificate.
    pub certificate: String,
    /// The key of its certificate.
    pub key: String,
    /// Addresses of the controllers, `host:port`.
    pub controllers: Vec<String>,
    /// For a controller: the key of the authority, so that it can sign for whoever joins.
    pub authority_key: String,
    /// For a controller: the key of session tokens, so that it can check those of the others.
    pub session_key: Vec<u8>,
}

/// Shows no secret.
impl std::fmt::Debug for Joined {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Joined")
            .field("name", &self.name)
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

/// One controller in machine output.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct MemberView {
    /// Its name, such as `c2`.
    pub name: String,
    /// Its number.
    pub node: u64,
    /// Where it listens.
    pub address: String,
    /// `primary`, `standby` or `learner`.
    pub role: String,
    /// Up to where its log equals the primary's.
    pub lsn: Option<u64>,
    /// Entries that it is behind.
    pub behind: Option<u64>,
    /// How long ago it last answered, in milliseconds; absent for the primary itself.
    pub heard_ms: Option<u64>,
    /// Version of its program; empty while it has not said so.
    pub version: String,
    /// Highest feature level that it supports; 0 while it has not said so.
    pub level: u16,
    /// When its certificate ends, in seconds of Unix time; 0 while it has not said so.
    pub certificate_ends_s: i64,
}
