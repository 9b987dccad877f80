//! Frames, identity and peers: how the daemons of one cluster talk to each other.
//!
//! This is the only crate that knows quinn and rustls. It carries typed messages that other crates
//! define, over one control stream per connection, between peers that proved with a certificate of
//! the cluster's authority who they are. It never reads the wall clock, decides nothing about
//! sessions, and remembers nothing of a peer after its connection.
//!
//! ```text
//!   Dialer ──QUIC, mutual TLS, ALPN xce/1──► Listener
//!     │                                        │
//!   (Peer, Inbox)                         (Peer, Inbox)        one pair per connection
//!     │ send: bounded queue, batched writes    │
//!     ├── control stream: frames, both ways ───┤               requests, replies, refusals, pushes
//!     └── bulk streams: frames, one way ───────┘               logs, snapshots, feeds
//! ```
//!
//! Invariants:
//! * A frame is delivered whole or not at all; the end of a stream is never the end of a message.
//! * A length is checked before memory is given to it; memory for a frame follows the bytes that
//!   really came.
//! * Nothing is sent to, or accepted from, a peer whose certificate our authority did not sign.
//! * No TLS resumption and no 0-RTT: a peer whose authority was removed cannot come back through a
//!   ticket.
//! * A full send queue is a refusal to the sender, never growth.

pub mod secret_file;

pub mod principal;

pub mod authority;
pub mod identity;
mod tls;

pub mod decoder;
pub mod frame;
pub mod message;

pub mod close;
mod outbox;
mod reader;

pub mod bulk;
pub mod inbox;
pub mod peer;

pub mod caller;
pub mod dial;
pub mod endpoint;
pub mod keys;
pub mod settings;

pub mod hello;
pub mod invitation;
pub mod token;

pub use authority::{Authority, AuthorityError};
pub use bulk::{BulkError, BulkReceiver, BulkSender};
pub use caller::{CallError, Caller};
pub use close::{CloseCode, Closed};
pub use dial::{DialError, Dialer, Order, dial};
pub use endpoint::{ListenError, Listener, listen};
pub use frame::{FRAME_BYTES_MAX, Frame, FrameError, Head, Route, RouteRole};
pub use hello::{
    Hello, HelloAnswer, HelloCode, HelloRefusal, Opening, PeerKind, VersionRange, Welcome,
};
pub use identity::{Identity, IdentityError};
pub use inbox::{Inbox, ReceiveError};
pub use invitation::{Invitation, InvitationError, Invited};
pub use keys::EndpointKeys;
pub use message::{DecodeError, EncodeError, KIND_FIRST, Message};
pub use peer::{Connected, Peer, SendError};
pub use principal::{Fingerprint, Principal, PrincipalError, Role};
pub use settings::Settings;
pub use token::{Bearer, Claims, KeyRing, TokenError};

#[cfg(test)]
mod tests;
