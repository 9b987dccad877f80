//! The feed of one service's endpoints: kept whole over lost connections and restarts of the controller.

use xce_model::Lsn;
use xce_service::view::EndpointSet;
use xce_session::endpoints_wire::{EndpointsPush, EndpointsUsed};
use xce_session::wire::{Ask, AskService, Reply, Request, ServiceName};

use super::{Connection, Link, READ_PATIENCE, chain, kind_of};
use crate::cli::failure::{Failure, unexpected};

/// The endpoints of one service as they are told.
pub struct EndpointsFeed {
    name: ServiceName,
    watch: bool,
    acknowledges: bool,
    set: EndpointSet,
    /// Number of the running subscription; known with its first push.
    number: Option<u64>,
    state: State,
}

/// How far the subscription is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not yet asked for.
    New,
    /// Pushes come.
    Open,
    /// The connection was lost.
    Lost,
}

/// What a feed tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The set, as of its generation.
    Set(EndpointSet),
    /// The service is gone, and its endpoints with it; nothing follows.
    Deleted,
}

impl EndpointsFeed {
    /// A feed that asks when it is first read. With `watch` sets follow as they change; with
    /// `acknowledges` the cluster counts on [`EndpointsFeed::used`].
    pub fn new(name: ServiceName, watch: bool, acknowledges: bool) -> Self {
        Self {
            name,
            watch,
            acknowledges,
            set: EndpointSet::default(),
            number: None,
            state: State::New,
        }
    }

    /// Waits for the next whole set; after a lost connection that is the present one. Connects again for
    /// as long as it takes. May be dropped and called again.
    ///
    /// # Errors
    /// When the cluster refuses, as where the service does not exist.
    pub async fn next(&mut self, connection: &mut Connection) -> Result<News, Failure> {
        loop {
            if self.state != State::Open {
                self.subscribe(connection).await?;
            }
            let frame = match &mut connection.link {
                Some(Link { pushes, .. }) => pushes.recv().await,
                None => None,
            };
            let Some(frame) = frame else {
                self.state = State::Lost;
                continue;
            };
            let push = frame.decode::<EndpointsPush>().map_err(|error| {
                Failure::Local(format!("endpoints are not understood: {}", chain(&error)))
            })?;
            self.number = Some(frame.route().request);
            let EndpointsPush { change } = push;
            let (more, deleted) = (change.more, change.deleted);
            self.set.apply(change);
            if deleted {
                return Ok(News::Deleted);
            }
            if !more {
                return Ok(News::Set(self.set.clone()));
            }
        }
    }

    async fn subscribe(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let patience = match self.state {
            State::New => connection.patience.unwrap_or(READ_PATIENCE),
            // Whoever reads stops it.
            State::Open | State::Lost => xce_model::units::DURATION_MAX,
        };
        if self.state == State::Lost {
            // What a subscription before this one still pushes would be taken for this one's.
            connection.link = None;
        }
        self.state = State::Lost;
        self.number = None;
        let mut request = Request {
            operation: None,
            made_at: 0,
            at_least: connection.written,
            ask: Ask::Service(AskService::Endpoints {
                name: self.name.clone(),
                watch: self.watch,
                acknowledges: self.acknowledges,
            }),
        };
        match connection.request(&mut request, patience).await? {
            Reply::Watching { .. } => {
                self.state = State::Open;
                Ok(())
            }
            other => Err(unexpected(kind_of(&other))),
        }
    }

    /// Says that no older set than this is used; a word that is lost is said again after the connection
    /// was made anew.
    pub fn used(&self, connection: &Connection, generation: Lsn) {
        if let (Some(link), Some(number)) = (&connection.link, self.number) {
            let word = EndpointsUsed { generation };
            // An error ends the connection, which is noticed.
            drop(link.caller.peer().push(number, &word));
        }
    }
}
