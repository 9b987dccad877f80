//! Facts of sessions.

use std::sync::Arc;

use xce_model::SessionId;

use super::{Fit, Step};
use crate::group::Created;
use crate::sessions::{SessionFact, SessionKind, SessionRecord};
use crate::view::Key;

impl Step<'_> {
    pub(super) fn apply_session(&mut self, fact: &SessionFact) -> Fit {
        match fact {
            SessionFact::Opened {
                principal,
                kind,
                incarnation,
                fingerprint,
            } => {
                self.supersede(principal, *kind);
                self.view.last_session += 1;
                let id = SessionId(self.view.last_session);
                let record = SessionRecord {
                    id,
                    principal: principal.clone(),
                    kind: *kind,
                    incarnation: *incarnation,
                    fingerprint: *fingerprint,
                    epoch: 1,
                    opened: self.at.now,
                    seen: self.at.now,
                    changed: self.at.lsn,
                };
                self.view.sessions.insert(id, Arc::new(record));
                self.view.changes.sessions.touch(None, self.at.lsn, &id);
                self.created.push(Created::Session(id));
                self.touched.push(Key::Session(id));
                Fit::Applied
            }
            SessionFact::Resumed { session, epoch } => self.resume(*session, *epoch),
            SessionFact::Ended { session } => self.end_session(*session),
        }
    }

    /// The sessions that a principal had are over. Looked for in all, which is some 100 us with
    /// 10 000 of them: a daemon opens one once in its life.
    fn supersede(&mut self, principal: &str, kind: SessionKind) {
        let same =
            |record: &&Arc<SessionRecord>| record.kind == kind && record.principal == principal;
        let sessions = self.view.sessions.values();
        let over: Vec<SessionId> = sessions.filter(same).map(|record| record.id).collect();
        for session in over {
            self.end_session(session);
        }
    }

    fn end_session(&mut self, session: SessionId) -> Fit {
        let Some(before) = self.view.sessions.remove(&session) else {
            return Fit::Ignored;
        };
        let changes = &mut self.view.changes.sessions;
        changes.bury(before.changed, self.at.lsn, &session);
        self.touched.push(Key::Session(session));
        Fit::Applied
    }

    fn resume(&mut self, session: SessionId, epoch: u64) -> Fit {
        let Some(record) = self.view.sessions.get_mut(&session) else {
            return Fit::Ignored;
        };
        if epoch <= record.epoch {
            return Fit::Ignored;
        }
        let before = record.changed;
        let record = Arc::make_mut(record);
        record.epoch = epoch;
        record.seen = self.at.now;
        record.changed = self.at.lsn;
        self.view
            .changes
            .sessions
            .touch(Some(before), self.at.lsn, &session);
        self.touched.push(Key::Session(session));
        Fit::Applied
    }
}
