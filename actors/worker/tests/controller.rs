//! A controller that remembers what it was told, counts every fact once, and gives orders.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use xce_host::wire::{BeatAck, Join};
use xce_link::{
    CloseCode, Connected, Hello, HelloAnswer, Identity, Listener, Peer, Route, RouteRole, Welcome,
};
use xce_model::SessionId;
use xce_replica::wire::{
    Happened, Order, Orders, Output, ReadOutput, Report, ReportsCommitted, RunId, Want,
};
use xce_session::worker_wire::{FromWorker, ToWorker};

/// Longest wait of a test for something that must happen. Only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Told {
    pub joins: Vec<Join>,
    pub hellos: Vec<Hello>,
    pub reports: Vec<Report>,
    /// Facts that came again after they had been counted.
    pub repeated: usize,
    pub beats: u64,
    pub disk_full: bool,
    /// What each acknowledgement of a beat says of the lease, in milliseconds.
    pub lease_ms: u64,
    pub leaving: Option<bool>,
    pub outputs: HashMap<u64, Output>,
    pub mark: (u64, u64),
    peer: Option<Peer>,
    wants: BTreeMap<RunId, Want>,
    asked: u64,
}

impl Told {
    /// Does not want a run any more, without saying so.
    pub fn forget(&mut self, run: RunId) {
        self.wants.remove(&run);
    }
}

pub struct Controller {
    told: Arc<Mutex<Told>>,
    changed: Arc<Notify>,
    accepting: tokio::task::JoinHandle<()>,
    term: u64,
}

/// How the controller of a test differs from an obliging one.
#[derive(Clone, Copy, Default)]
pub struct Manners {
    /// Facts are counted and never acknowledged.
    pub silent_about_facts: bool,
}

impl Controller {
    pub fn start(mut listener: Listener, told: Arc<Mutex<Told>>, term: u64, how: Manners) -> Self {
        let changed = Arc::new(Notify::new());
        let (all, wake) = (told.clone(), changed.clone());
        let accepting = tokio::spawn(async move {
            while let Some(connected) = listener.accept().await {
                tokio::spawn(serve(connected, all.clone(), wake.clone(), term, how));
            }
        });
        Self {
            told,
            changed,
            accepting,
            term,
        }
    }

    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    /// Waits until `found` finds something.
    pub async fn until<T>(&self, what: &str, found: impl Fn(&Told) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = found(&self.told()) {
                    return found;
                }
                changed.await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("never came: {what}; facts: {:#?}", self.told().reports),
        }
    }

    pub async fn joined(&self, count: usize) {
        self.until("a join", |told| {
            (told.joins.len() >= count && told.peer.is_some()).then_some(())
        })
        .await;
    }

    /// Wants something of a run, from now on and after every join.
    pub fn want(&self, run: RunId, want: Want) {
        let mut told = self.told();
        told.wants.insert(run, want.clone());
        self.send(&told, vec![Order { run, want }], false);
    }

    pub fn order(&self, run: RunId, want: Want) {
        self.send(&self.told(), vec![Order { run, want }], false);
    }

    pub fn order_with_term(&self, term: u64, run: RunId, want: Want) {
        let told = self.told();
        let orders = Orders {
            term,
            lsn: 1,
            complete: false,
            orders: vec![Order { run, want }],
        };
        told.peer
            .as_ref()
            .unwrap()
            .push(0, &ToWorker::Orders(orders))
            .unwrap();
    }

    pub fn resync(&self) {
        let told = self.told();
        let all = wanted(&told);
        self.send(&told, all, true);
    }

    fn send(&self, told: &Told, orders: Vec<Order>, complete: bool) {
        let orders = Orders {
            term: self.term,
            lsn: 1,
            complete,
            orders,
        };
        if let Some(peer) = &told.peer {
            let _ = peer.push(0, &ToWorker::Orders(orders));
        }
    }

    pub async fn happened(&self, run: RunId, what: &str, is: impl Fn(&Happened) -> bool) -> Report {
        self.until(what, |told| {
            told.reports
                .iter()
                .find(|report| report.run == run && is(&report.what))
                .cloned()
        })
        .await
    }

    pub async fn ended(&self, run: RunId) -> xce_model::Exit {
        let report = self
            .happened(run, "an end", |what| matches!(what, Happened::Ended { .. }))
            .await;
        match report.what {
            Happened::Ended { exit, .. } => exit,
            other => unreachable!("{other:?}"),
        }
    }

    pub fn count(&self, run: RunId, is: impl Fn(&Happened) -> bool) -> usize {
        let told = self.told();
        told.reports
            .iter()
            .filter(|report| report.run == run && is(&report.what))
            .count()
    }

    pub async fn output(&self, run: RunId, stderr: bool, offset: u64, bytes_max: u32) -> Output {
        let number = {
            let mut told = self.told();
            told.asked += 1;
            let question = ReadOutput {
                run,
                stderr,
                offset,
                bytes_max,
            };
            let peer = told.peer.clone().unwrap();
            peer.send(Route::request(told.asked), &ToWorker::ReadOutput(question))
                .unwrap();
            told.asked
        };
        self.until("output", |told| told.outputs.get(&number).cloned())
            .await
    }

    /// Ends without a word, as a kill does.
    pub async fn kill(self) -> Arc<Mutex<Told>> {
        self.accepting.abort();
        let _ = self.accepting.await;
        if let Some(peer) = self.told.lock().unwrap().peer.take() {
            peer.close(CloseCode::Shutdown, "test");
        }
        self.told
    }
}

fn wanted(told: &Told) -> Vec<Order> {
    told.wants
        .iter()
        .map(|(run, want)| Order {
            run: *run,
            want: want.clone(),
        })
        .collect()
}

async fn serve(
    connected: Connected,
    told: Arc<Mutex<Told>>,
    changed: Arc<Notify>,
    term: u64,
    how: Manners,
) {
    let Connected { peer, mut inbox } = connected;
    while let Ok(frame) = inbox.receive().await {
        if frame.route().role == RouteRole::Request {
            let hello: Hello = frame.decode().unwrap();
            told.lock().unwrap().hellos.push(hello);
            let welcome = Welcome {
                version: 1,
                session: SessionId(1),
                epoch: 1,
                token: b"token".to_vec(),
                term,
                lsn: 1,
                resumed: false,
                spread_ms: 0,
            };
            peer.reply(frame.route().request, &HelloAnswer::Welcome(welcome))
                .unwrap();
            continue;
        }
        let request = frame.route().request;
        let message = frame.decode::<FromWorker>().unwrap();
        heard(
            &peer,
            request,
            message,
            &mut told.lock().unwrap(),
            term,
            how,
        );
        changed.notify_waiters();
    }
}

fn heard(peer: &Peer, request: u64, message: FromWorker, told: &mut Told, term: u64, how: Manners) {
    let say = |message: ToWorker| drop(peer.push(0, &message));
    match message {
        FromWorker::Join(join) => {
            told.joins.push(*join);
            let (epoch, sequence) = told.mark;
            say(ToWorker::Joined(ReportsCommitted { epoch, sequence }));
            let orders = wanted(told);
            say(ToWorker::Orders(Orders {
                term,
                lsn: 1,
                complete: true,
                orders,
            }));
            told.peer = Some(peer.clone());
        }
        FromWorker::Beat(beat) => {
            told.beats += 1;
            told.disk_full = beat.disk_full;
            say(ToWorker::BeatAck(BeatAck {
                number: beat.number,
                term,
                lsn: 1,
                lease: xce_model::Millis(told.lease_ms),
            }));
        }
        FromWorker::Reports(reports) => {
            if reports.epoch > told.mark.0 {
                told.mark = (reports.epoch, 0);
            }
            for report in reports.reports {
                if report.sequence <= told.mark.1 {
                    told.repeated += 1;
                    continue;
                }
                told.mark.1 = report.sequence;
                if let Happened::Ended { .. } | Happened::LaunchFailed { .. } = report.what {
                    told.wants.remove(&report.run);
                }
                told.reports.push(report);
            }
            if !how.silent_about_facts {
                let (epoch, sequence) = told.mark;
                say(ToWorker::Committed(ReportsCommitted { epoch, sequence }));
            }
        }
        FromWorker::Output(output) => {
            told.outputs.insert(request, output);
        }
        FromWorker::Leaving(leaving) => told.leaving = Some(leaving.keeps_jobs),
    }
}

/// Identity and address of a controller that can be started again.
pub struct Seat {
    pub identity: Identity,
    pub keys: xce_link::EndpointKeys,
    pub address: std::net::SocketAddr,
}

impl Seat {
    pub fn listen(&mut self) -> Listener {
        let settings = xce_link::Settings::default();
        let listener =
            xce_link::listen(self.address, &self.identity, &settings, &self.keys).unwrap();
        self.address = listener.address();
        listener
    }

    /// Listens at the same address as before, as soon as the predecessor has let go of it.
    pub async fn listen_again(&mut self) -> Listener {
        let settings = xce_link::Settings::default();
        let listening = async {
            loop {
                match xce_link::listen(self.address, &self.identity, &settings, &self.keys) {
                    Ok(listener) => return listener,
                    Err(xce_link::ListenError::AddressInUse { .. }) => {
                        tokio::task::yield_now().await
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.unwrap()
    }
}
