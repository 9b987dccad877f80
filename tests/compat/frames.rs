//! One frame of each kind of message, as sent by every version.

use std::fmt::{Debug, Write as _};
use std::path::Path;

use xce_host::facts::Inventory;
use xce_host::wire::{Beat, Join};
use xce_link::decoder::Decoder;
use xce_link::frame::encode_frame;
use xce_link::hello::VersionRange;
use xce_link::{
    FRAME_BYTES_MAX, Frame, Hello, HelloAnswer, HelloCode, HelloRefusal, Message, Opening,
    PeerKind, Route,
};
use xce_model::{
    Bytes, Cause, ClusterId, Exit, Incarnation, JobId, MilliCpu, OperationId, Refusal, WallTime,
};
use xce_replica::wire::{
    Happened, Order, Orders, Output, ReadOutput, Report, Reports, ReportsCommitted, RunId, Want,
};
use xce_session::member_wire::{AskMember, Invite, MemberView, ReplyMember};
use xce_session::peer_wire::{PeerAbout, PeerAsk, PeerCall, PeerReply};
use xce_session::wire::{
    Accepted, Ask, AskCluster, AskJob, Changes, JobFilter, Reply, Request, WatchFilter,
};
use xce_session::worker_wire::{FromWorker, ToWorker};

use super::{VERSION, folder, folders};

/// A message as this program would send it, and as it reads what others sent.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    text: String,
    read: fn(&Frame) -> Result<String, String>,
}

fn sample<T: Message + Debug>(name: &'static str, value: &T) -> Sample {
    let bytes = encode_frame(Route::request(7), value).expect("it fits");
    Sample {
        name,
        bytes: bytes.to_vec(),
        text: format!("{value:?}"),
        read: |frame| {
            let value: T = frame.decode().map_err(|error| error.to_string())?;
            Ok(format!("{value:?}"))
        },
    }
}

fn samples() -> Vec<Sample> {
    let mut all = greetings();
    all.extend(of_workers());
    all.extend(to_workers());
    all.extend(of_clients());
    all.extend(of_controllers());
    all
}

fn greetings() -> Vec<Sample> {
    let hello = |opening| Hello {
        versions: VersionRange { low: 1, high: 2 },
        cluster: ClusterId([1; 16]),
        kind: PeerKind::Worker,
        incarnation: Incarnation([2; 16]),
        opening,
    };
    let resume = Opening::Resume {
        token: vec![1, 2, 3],
        last_lsn: 4,
        last_seq: 5,
    };
    let refusal = HelloRefusal {
        code: HelloCode::NotPrimary,
        text: "this controller is a standby".into(),
        allowed: VersionRange { low: 1, high: 2 },
        primary: Some("c1.site:7477".into()),
    };
    vec![
        sample("hello-new", &hello(Opening::New)),
        sample("hello-resume", &hello(resume)),
        sample("hello-refused", &HelloAnswer::Refused(refusal)),
        sample("refusal", &Refusal::refused("a_code", "a sentence")),
    ]
}

fn run() -> RunId {
    RunId {
        job: JobId::element(17, 3),
        run: 2,
    }
}

fn of_workers() -> Vec<Sample> {
    let join = Join {
        inventory: Inventory {
            name: "h1".into(),
            incarnation: Incarnation([3; 16]),
            boot_id: "a boot".into(),
            address: "10.0.0.1".into(),
            cpus: MilliCpu(8000),
            memory: Bytes(1 << 33),
            port_first: 20_000,
            port_last: 29_999,
            labels: vec![("zone".into(), "a".into())],
            not_enforced: vec!["memory".into()],
        },
        epoch: 1,
        committed: 2,
        runs: Vec::new(),
    };
    let report = |sequence, what| Report {
        sequence,
        run: run(),
        start: 1,
        at: WallTime(6),
        what,
    };
    let ended = Happened::Ended {
        exit: Exit {
            code: Some(3),
            ..Exit::of(Cause::TermOwner)
        },
        stderr: "last words".into(),
    };
    let reports = Reports {
        epoch: 1,
        after: 2,
        reports: vec![report(3, Happened::Started { pid: 42 }), report(4, ended)],
    };
    let beat = Beat {
        number: 9,
        disk_full: true,
    };
    vec![
        sample("join", &FromWorker::Join(Box::new(join))),
        sample("beat", &FromWorker::Beat(beat)),
        sample("reports", &FromWorker::Reports(reports)),
    ]
}

fn to_workers() -> Vec<Sample> {
    let order = |want| Order { run: run(), want };
    let stop = Want::Stop {
        cause: Cause::TermOwner,
        drained: true,
    };
    let orders = Orders {
        term: 3,
        lsn: 4,
        complete: true,
        orders: vec![order(stop), order(Want::Suspend), order(Want::Leave)],
    };
    let mark = ReportsCommitted {
        epoch: 1,
        sequence: 4,
    };
    let read = ReadOutput {
        run: run(),
        stderr: true,
        offset: 5,
        bytes_max: 6,
    };
    let output = Output {
        offset: 5,
        data: vec![6, 7],
        complete: true,
        problem: "none".into(),
    };
    vec![
        sample("output", &FromWorker::Output(output)),
        sample("joined", &ToWorker::Joined(mark.clone())),
        sample("orders", &ToWorker::Orders(orders)),
        sample("committed", &ToWorker::Committed(mark)),
        sample("read-output", &ToWorker::ReadOutput(read)),
    ]
}

fn of_clients() -> Vec<Sample> {
    let request = |ask| Request {
        operation: Some(OperationId([4; 16])),
        made_at: 5,
        at_least: 6,
        ask,
    };
    let filter = JobFilter {
        all: true,
        owner: Some("ann".into()),
        after: Some(JobId::single(8)),
        limit: 9,
        ..JobFilter::default()
    };
    let watch = WatchFilter {
        services: true,
        project: Some("shop".into()),
        after: 10,
        ..WatchFilter::default()
    };
    let kill = AskJob::Kill {
        jobs: vec![JobId::single(7)],
        signal: Some(15),
    };
    let accepted = Accepted {
        lsn: 11,
        ids: vec!["17".into()],
        text: "job 17 is submitted".into(),
    };
    let changes = Changes {
        lsn: 12,
        full: true,
        more: false,
        services: Vec::new(),
        jobs: Vec::new(),
        hosts: Vec::new(),
        gone: vec!["job/17".into()],
    };
    vec![
        sample("jobs-list", &request(Ask::Job(AskJob::List(filter)))),
        sample("jobs-kill", &request(Ask::Job(kill))),
        sample("watch", &request(Ask::Cluster(AskCluster::Watch(watch)))),
        sample("accepted", &Reply::Accepted(accepted)),
        sample("findings", &Reply::Findings(vec!["a finding".into()])),
        sample("changes", &changes),
    ]
}

fn of_controllers() -> Vec<Sample> {
    let ask = |ask| Request {
        operation: None,
        made_at: 0,
        at_least: 0,
        ask: Ask::Member(ask),
    };
    let join = AskMember::Join {
        address: "c2.site:7477".into(),
        level: 2,
    };
    let member = MemberView {
        name: "c2".into(),
        node: 2,
        role: "standby".into(),
        lsn: Some(3),
        level: 2,
        ..MemberView::default()
    };
    let about = PeerAbout {
        version: "0.1.0".into(),
        level: 2,
        certificate_ends_s: 3,
        epoch: 1,
    };
    vec![
        sample(
            "invite",
            &ask(AskMember::Invite(Invite::Worker("h1".into()))),
        ),
        sample("controller-joins", &ask(join)),
        sample("members", &Reply::Member(ReplyMember::List(vec![member]))),
        sample("peer-call", &PeerCall { bytes: vec![1, 2] }),
        sample("peer-reply", &PeerReply { bytes: vec![3] }),
        sample("peer-ask", &PeerAsk { epoch: 1 }),
        sample("peer-about", &about),
    ]
}

/// Writes the frames of this program.
pub fn write(folder: &Path) {
    let mut text = String::new();
    for sample in samples() {
        let _ = write!(text, "{}\n  ", sample.name);
        for byte in &sample.bytes {
            let _ = write!(text, "{byte:02x}");
        }
        let _ = write!(text, "\n  {}\n", sample.text);
    }
    std::fs::write(folder.join("frames.txt"), text).expect("the sources can be written");
}

fn frame(digits: &str) -> Frame {
    let byte = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).expect("digits");
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    let mut rest = bytes.as_slice();
    let frame = Decoder::new(FRAME_BYTES_MAX).decode(&mut rest);
    frame.expect("a frame").expect("a whole frame")
}

#[test]
fn messages_of_every_version_are_read() {
    for (version, folder) in folders() {
        let text = std::fs::read_to_string(folder.join("frames.txt")).expect("it is there");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let samples = samples();
        let mut read = 0;
        for entry in lines.chunks(3) {
            let [name, digits, value] = entry else {
                panic!("v{version}: three lines a frame");
            };
            let sample = samples.iter().find(|sample| sample.name == *name);
            let sample = sample.unwrap_or_else(|| panic!("v{version}: {name} is not known"));
            let found = (sample.read)(&frame(digits));
            let found = found.unwrap_or_else(|error| panic!("v{version}: {name}: {error}"));
            // Later programs may know more of a message, and tell it otherwise.
            if version == VERSION {
                assert_eq!(found, *value, "{name}");
            }
            read += 1;
        }
        assert_eq!(read, lines.len() / 3);
    }
}

#[test]
fn this_program_sends_what_the_newest_folder_holds() {
    drop(folders());
    let text = std::fs::read_to_string(folder(VERSION).join("frames.txt")).expect("it is there");
    for sample in samples() {
        let digits: String = sample
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert!(
            text.contains(&digits),
            "{} is sent otherwise than before: raise its version",
            sample.name
        );
    }
}
