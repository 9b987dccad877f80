//! The network of a cluster with one voter: there is nobody to reach.

use std::future::Future;
use std::io;

use openraft::OptionalSend;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::impls::BasicNode;
use openraft::network::v2::RaftNetworkV2;
use openraft::network::{RPCOption, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;

use super::machine::SnapshotFile;
use super::types::{Types, Vote};

/// Makes connections to peers, all of them unreachable.
pub(crate) struct NoPeers;

/// A peer that does not answer.
pub(crate) struct NoPeer {
    node: u64,
}

impl NoPeer {
    fn unreachable(&self) -> Unreachable<Types> {
        Unreachable::new(&io::Error::other(format!(
            "node {} is not connected",
            self.node
        )))
    }
}

impl RaftNetworkFactory<Types> for NoPeers {
    type Network = NoPeer;

    async fn new_client(&mut self, target: u64, _node: &BasicNode) -> NoPeer {
        NoPeer { node: target }
    }
}

impl RaftNetworkV2<Types> for NoPeer {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    async fn pre_vote(
        &mut self,
        _request: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    async fn full_snapshot(
        &mut self,
        _vote: Vote,
        _snapshot: SnapshotOf<Types, SnapshotFile>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(StreamingError::Unreachable(self.unreachable()))
    }
}
