//! What a daemon holds back while programs of different versions are in the cluster.

use serde::{Deserialize, Serialize};

use crate::option::{Kind, OptionDoc};

/// Held back by a controller while versions differ; 0 stands for whatever the program supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerCompatibility {
    /// Highest version of the protocol that is offered.
    pub protocol_max: u16,
    /// Highest feature level that is agreed to.
    pub level_max: u16,
}

/// The same by a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerCompatibility {
    /// Highest version of the protocol that is offered.
    pub protocol_max: u16,
}

/// The option of the protocol.
pub const PROTOCOL_MAX_DOC: OptionDoc = OptionDoc {
    key: "compatibility.protocol_max",
    kind: Kind::Number,
    range: "0 to 65535; 0 for the highest that the program speaks",
    derived: None,
    text: "Highest version of the protocol that is offered to others.",
};

/// The option of the feature level.
pub const LEVEL_MAX_DOC: OptionDoc = OptionDoc {
    key: "compatibility.level_max",
    kind: Kind::Number,
    range: "0 to 65535; 0 for the highest that the program supports",
    derived: None,
    text: "Highest feature level that this controller agrees to; held back while the way to an \
           earlier version must stay open.",
};
