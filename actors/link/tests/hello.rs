//! Negotiation of versions, and the checks of a hello.

use xce_model::{ClusterId, Incarnation, RefusalKind};

use crate::frame::{Route, encode_frame};
use crate::hello::{
    Hello, HelloAnswer, HelloCode, HelloRefusal, Opening, PeerKind, VERSIONS, VersionRange, check,
    negotiate,
};
use crate::message;

/// Our range, theirs, and what comes of it.
type Case = ((u16, u16), (u16, u16), Result<u16, HelloCode>);

fn range(low: u16, high: u16) -> VersionRange {
    VersionRange { low, high }
}

#[test]
fn the_highest_common_version_is_chosen() {
    let table: [Case; 9] = [
        ((1, 1), (1, 1), Ok(1)),
        ((1, 3), (2, 5), Ok(3)),
        ((2, 5), (1, 3), Ok(3)),
        ((1, 9), (4, 4), Ok(4)),
        ((1, 2), (2, 9), Ok(2)),
        ((1, 1), (2, 2), Err(HelloCode::Version)),
        ((5, 6), (1, 4), Err(HelloCode::Version)),
        ((1, 6), (4, 3), Err(HelloCode::Malformed)),
        ((0, u16::MAX), (u16::MAX, u16::MAX), Ok(u16::MAX)),
    ];
    for (ours, theirs, wanted) in table {
        let outcome = negotiate(range(ours.0, ours.1), range(theirs.0, theirs.1));
        assert_eq!(
            outcome.map_err(|refusal| refusal.code),
            wanted,
            "{ours:?} and {theirs:?}"
        );
    }
}

#[test]
fn a_refused_version_names_both_ranges() {
    let refusal = negotiate(range(3, 5), range(1, 1)).unwrap_err();
    let text = "no common protocol version: the peer speaks 1, this controller 3 to 5";
    assert_eq!(
        (refusal.text.as_str(), refusal.allowed),
        (text, range(3, 5))
    );
    assert_eq!(refusal.refusal().code, "protocol_version");
}

fn hello() -> Hello {
    Hello {
        versions: VERSIONS,
        cluster: ClusterId([1; 16]),
        kind: PeerKind::Worker,
        incarnation: Incarnation([2; 16]),
        opening: Opening::Resume {
            token: vec![3; 120],
            last_lsn: 4,
            last_seq: 5,
        },
    }
}

#[test]
fn a_hello_for_another_cluster_names_both() {
    assert_eq!(
        check(&hello(), VERSIONS, ClusterId([1; 16])),
        Ok(VERSIONS.high)
    );
    let refusal = check(&hello(), VERSIONS, ClusterId([0xab; 16])).unwrap_err();
    assert_eq!(refusal.code, HelloCode::WrongCluster);
    assert!(refusal.text.contains(&"ab".repeat(16)) && refusal.text.contains(&"01".repeat(16)));
    assert_eq!(refusal.refusal().kind, RefusalKind::NotPermitted);
}

#[test]
fn hello_and_answer_survive_the_wire() {
    let bytes = message::encode(&hello()).unwrap();
    assert_eq!(message::decode::<Hello>(&bytes).unwrap(), hello());
    let answer = HelloAnswer::Refused(HelloRefusal::new(HelloCode::Busy, "come again"));
    let bytes = message::encode(&answer).unwrap();
    assert_eq!(message::decode::<HelloAnswer>(&bytes).unwrap(), answer);
    assert!(message::decode::<HelloAnswer>(&bytes[..bytes.len() - 1]).is_err());
    assert!(encode_frame(Route::request(1), &hello()).unwrap().len() < 512);
}
