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
    },
    /// Takes a controller out.
    Remove(u64),
    /// Hands the leadership to a controller.
    Transfer(u64),
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
}
