//! Measures calls over the loopback address: `cargo bench -p xce-link`; prints one JSON line each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rkyv::{Archive, Deserialize, Serialize};
use xce_link::{
    Authority, Bearer, Caller, Claims, Dialer, EndpointKeys, Fingerprint, KeyRing, Listener,
    Principal, Role, Settings, listen,
};
use xce_model::{ClusterId, ClusterTime, Incarnation, SessionId};

/// Calls that wait for their answer at any time.
const IN_FLIGHT: usize = 64;
/// Calls of one measurement.
const CALLS: usize = 400_000;
/// Tokens of one measurement.
const TOKENS: u32 = 200_000;

#[derive(Archive, Serialize, Deserialize)]
struct Fact {
    sequence: u64,
    job: u64,
    host: String,
    text: String,
}

#[derive(Archive, Serialize, Deserialize)]
struct Recorded {
    sequence: u64,
    lsn: u64,
}

xce_link::messages! {
    Fact = 200 v 1;
    Recorded = 201 v 1;
}

fn main() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(calls());
    tokens();
}

async fn answer(mut listener: Listener) {
    while let Some(mut connected) = listener.accept().await {
        tokio::spawn(async move {
            while let Ok(frame) = connected.inbox.receive().await {
                let fact = frame.access::<Fact>().expect("a whole fact");
                let recorded = Recorded {
                    sequence: fact.sequence.to_native(),
                    lsn: 1,
                };
                let sent = connected.peer.reply(frame.route().request, &recorded);
                sent.expect("the answer is taken");
            }
        });
    }
}

async fn calls() {
    let directory = tempfile::tempdir().expect("a directory");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("a clock after 1970").as_secs() as i64;
    let authority = Authority::create(directory.path(), ClusterId([1; 16]), now).expect("made");
    let controller = authority
        .issue(Role::Controller, "c1", now)
        .expect("issued");
    let worker = authority.issue(Role::Worker, "w1", now).expect("issued");
    let keys = EndpointKeys::load_or_create(directory.path()).expect("keys");
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = listen(address, &controller, &Settings::default(), &keys).expect("listens");
    let address = listener.address();
    tokio::spawn(answer(listener));
    let dialer = Dialer::new(worker, Settings::default());
    let connected = dialer
        .dial(&[address], Duration::from_secs(10))
        .await
        .expect("connects");
    let (caller, _pushes) = Caller::new(connected, 64);
    let caller = Arc::new(caller);
    for round in 0..3 {
        let begin = Instant::now();
        let lanes: Vec<_> = (0..IN_FLIGHT)
            .map(|_| tokio::spawn(lane(Arc::clone(&caller))))
            .collect();
        let mut waits = Vec::with_capacity(CALLS);
        for lane in lanes {
            waits.extend(lane.await.expect("a lane ends"));
        }
        let rate = waits.len() as f64 / begin.elapsed().as_secs_f64();
        waits.sort_unstable();
        let (p50, p99) = (waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
        println!(
            r#"{{"bench":"link_calls","round":{round},"in_flight":{IN_FLIGHT},"per_s":{rate:.0},"p50_us":{},"p99_us":{}}}"#,
            p50.as_micros(),
            p99.as_micros()
        );
    }
}

async fn lane(caller: Arc<Caller>) -> Vec<Duration> {
    let mut waits = Vec::with_capacity(CALLS / IN_FLIGHT);
    for sequence in 0..(CALLS / IN_FLIGHT) as u64 {
        let fact = Fact {
            sequence,
            job: 1_000_000 + sequence,
            host: "node-0421.rack12".to_owned(),
            text: "finished: exit 0, most memory 12.4 GiB, 3 checkpoints written".to_owned(),
        };
        let begin = Instant::now();
        let recorded: Recorded = caller
            .call(&fact, Duration::from_secs(30))
            .await
            .expect("an answer");
        assert_eq!(recorded.sequence, sequence);
        waits.push(begin.elapsed());
    }
    waits
}

fn tokens() {
    let cluster = ClusterId([1; 16]);
    let ring = KeyRing::new(cluster, [2; 32]);
    let principal = Principal::new(cluster, Role::Worker, "node-0421").expect("a good name");
    let fingerprint = Fingerprint([3; 16]);
    let bearer = Bearer {
        principal,
        fingerprint,
        incarnation: Incarnation([4; 16]),
    };
    let (issued, expires) = (ClusterTime(0), ClusterTime(u64::MAX));
    let claims = Claims {
        session: SessionId(7),
        epoch: 1,
        issued,
        expires,
        bearer: bearer.clone(),
    };
    let token = ring.seal(&claims);
    let begin = Instant::now();
    for now in 0..TOKENS {
        let opened = ring.open(
            std::hint::black_box(&token),
            &bearer,
            ClusterTime(now.into()),
        );
        assert!(opened.is_ok());
    }
    let each = begin.elapsed().as_nanos() / u128::from(TOKENS);
    println!(
        r#"{{"bench":"link_token_open","bytes":{},"ns":{each}}}"#,
        token.len()
    );
}
