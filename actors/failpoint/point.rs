//! The list of all points: who adds one adds it here, and uses it in one place.

use std::fmt;

/// The program a point is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The worker daemon.
    Worker,
    /// The process that carries one run.
    Shim,
    /// The write-ahead log, in a controller.
    Wal,
    /// The rest of a controller.
    Controller,
}

macro_rules! points {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $part:ident, $takes_error:literal;)+) => {
        /// A place at which a process can be made to die, fail or wait.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Point {
            $($(#[doc = $doc])+ $variant,)+
        }

        /// Every point, in the order of the list.
        pub const ALL: &[Point] = &[$(Point::$variant,)+];

        impl Point {
            /// Its name, as the environment gives it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The program it is in.
            pub const fn part(self) -> Part {
                match self {
                    $(Self::$variant => Part::$part,)+
                }
            }

            /// Whether it can be armed with an error.
            pub const fn takes_error(self) -> bool {
                match self {
                    $(Self::$variant => $takes_error,)+
                }
            }
        }
    };
}

points! {
    /// A fact is about to be written to the spool.
    SpoolAppendBefore = "spool.append.before", Worker, true;
    /// A fact is in the file of the spool, nobody has heard of it.
    SpoolAppendWritten = "spool.append.written", Worker, false;
    /// The spool is about to be synced before facts are sent.
    SpoolSyncBefore = "spool.sync.before", Worker, true;
    /// The spool is synced, the facts are not sent.
    SpoolSynced = "spool.sync.after", Worker, false;
    /// Facts are sent.
    SpoolSent = "spool.send.after", Worker, false;
    /// The controller's mark has come and is not noted.
    SpoolMarkBefore = "spool.mark.before", Worker, false;
    /// The controller's mark is noted.
    SpoolMarkAfter = "spool.mark.after", Worker, false;
    /// The spool is written anew under another name.
    SpoolRewriteWritten = "spool.rewrite.written", Worker, true;
    /// The new spool has its name.
    SpoolRewriteRenamed = "spool.rewrite.renamed", Worker, false;
    /// A small file of the state directory is written under another name.
    StateSmallWritten = "state.small.written", Worker, true;
    /// A small file of the state directory has its name.
    StateSmallRenamed = "state.small.renamed", Worker, false;
    /// An end is in the spool, the directory of its run is about to be put aside.
    StateAsideBefore = "state.aside.before", Worker, true;
    /// The directory of an ended run is put aside.
    StateAsideAfter = "state.aside.after", Worker, false;
    /// Directories of ended runs are about to be removed.
    StateRemoveBefore = "state.remove.before", Worker, false;
    /// One directory of an ended run is removed.
    StateRemoveAfter = "state.remove.after", Worker, false;
    /// The directory of a start is made, and empty.
    RunDirectoryMade = "run.directory.made", Worker, true;
    /// The order of a run is written into its directory.
    RunOrderWritten = "run.order.written", Worker, true;
    /// The specification for the shim is written.
    RunSpecWritten = "run.spec.written", Worker, true;
    /// The shim is started.
    RunShimSpawned = "run.shim.spawned", Worker, false;
    /// The shim has said that the job runs, nothing is told.
    RunStartHeard = "run.start.heard", Worker, false;
    /// The shim has said how the job ended, nothing is told.
    RunExitHeard = "run.exit.heard", Worker, false;
    /// The memory of a run is written under another name.
    RunMemoryWritten = "run.memory.written", Worker, true;
    /// The memory of a run has its name.
    RunMemoryRenamed = "run.memory.renamed", Worker, false;
    /// A run that an earlier worker left is about to be taken over.
    RunAdoptBefore = "run.adopt.before", Worker, false;
    /// A run that an earlier worker left has its actor.
    RunAdoptAfter = "run.adopt.after", Worker, false;
    /// The controller has taken the worker in; no facts are sent.
    WorkerJoined = "worker.joined", Worker, false;
    /// Orders have come and are not obeyed.
    WorkerOrdered = "worker.ordered", Worker, false;

    /// The shim has its run directory, and nothing runs.
    ShimClaimed = "shim.claimed", Shim, false;
    /// The job runs, its run record is not written.
    ShimLaunched = "shim.launched", Shim, false;
    /// A record of the shim is written under another name: `run` is the first hit, `exit` the second.
    ShimRecordWritten = "shim.record.written", Shim, true;
    /// A record of the shim has its name: `run` is the first hit, `exit` the second.
    ShimRecordRenamed = "shim.record.renamed", Shim, false;
    /// The first process has ended, the rest is not killed.
    ShimJobEnded = "shim.job.ended", Shim, false;
    /// Nothing of the job is left, its exit record is not written.
    ShimExitBefore = "shim.exit.before", Shim, false;
    /// The exit record is written, nobody is told.
    ShimExitAfter = "shim.exit.after", Shim, false;

    /// A batch is about to be written to the log.
    WalAppendBefore = "wal.append.before", Wal, true;
    /// A batch is written to the log, and not synced.
    WalAppendWritten = "wal.append.written", Wal, true;
    /// A batch is synced, nobody is told.
    WalAppendSynced = "wal.append.synced", Wal, false;
    /// The next segment has its header, under its old name.
    WalRollHeader = "wal.roll.header", Wal, true;
    /// The next segment has its name, the directory is not synced.
    WalRollRenamed = "wal.roll.renamed", Wal, true;
    /// The directory with the next segment is synced, the last one is not sealed.
    WalRollDirectory = "wal.roll.directory", Wal, false;
    /// The last segment is sealed, the next one is empty.
    WalRollSealed = "wal.roll.sealed", Wal, false;
    /// A vote is about to be written.
    WalVoteBefore = "wal.vote.before", Wal, false;
    /// A vote is durable, nobody is told.
    WalVoteAfter = "wal.vote.after", Wal, false;
    /// Entries of another primary are about to be cut off.
    WalTruncateBefore = "wal.truncate.before", Wal, false;
    /// Entries are cut off.
    WalTruncateAfter = "wal.truncate.after", Wal, false;
    /// The purge of old entries is about to be written.
    WalPurgeBefore = "wal.purge.before", Wal, false;
    /// The purge of old entries is durable, their segments are there.
    WalPurgeAfter = "wal.purge.after", Wal, false;
    /// An old segment is about to be removed.
    WalDiscardBefore = "wal.discard.before", Wal, false;
    /// An old segment is removed.
    WalDiscardAfter = "wal.discard.after", Wal, false;
    /// An entry is about to be applied.
    WalApplyBefore = "wal.apply.before", Wal, false;
    /// An entry is applied, nobody is answered.
    WalApplyAfter = "wal.apply.after", Wal, false;
    /// The file that marks a directory as made is written under another name.
    WalIdentityWritten = "wal.identity.written", Wal, true;
    /// The file that marks a directory as made has its name.
    WalIdentityRenamed = "wal.identity.renamed", Wal, false;
    /// A snapshot is written and synced, under another name.
    SnapshotWritten = "snapshot.written", Wal, true;
    /// A snapshot has its name, the directory is not synced.
    SnapshotRenamed = "snapshot.renamed", Wal, true;
    /// The directory with the snapshot is synced, old snapshots are there.
    SnapshotDirectory = "snapshot.directory", Wal, false;
    /// An old snapshot is removed.
    SnapshotForgotten = "snapshot.forgotten", Wal, false;
    /// A part of a snapshot of another member is written.
    SnapshotPart = "snapshot.part", Wal, true;
    /// A snapshot of another member is here whole and synced.
    SnapshotWhole = "snapshot.whole", Wal, true;
    /// The state is replaced by a snapshot of another member, which is not kept yet.
    SnapshotInstalled = "snapshot.installed", Wal, false;

    /// A worker wants to join; nothing is decided.
    ControllerJoinAsked = "controller.join.asked", Controller, false;
    /// A worker's join is committed, it is not told.
    ControllerJoinCommitted = "controller.join.committed", Controller, false;
    /// A worker's facts have come; nothing is decided.
    ControllerReportsTaken = "controller.reports.taken", Controller, false;
    /// A worker's facts are committed, it is not told.
    ControllerReportsCommitted = "controller.reports.committed", Controller, false;
    /// A worker is told that its facts are committed.
    ControllerReportsMarked = "controller.reports.marked", Controller, false;
    /// Orders are about to be sent to a worker.
    ControllerOrdersBefore = "controller.orders.before", Controller, false;
}

impl Point {
    /// The point of this name.
    pub fn find(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|point| point.name() == name)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
