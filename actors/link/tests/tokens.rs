//! Session tokens: every way in which one does not open.

use xce_model::{ClusterId, ClusterTime, Incarnation, SessionId};

use super::frames::Random;
use crate::principal::{Fingerprint, Principal, Role};
use crate::token::{Bearer, Claims, KEYS_MAX, KeyRing, RingError, TokenError};

const CLUSTER: ClusterId = ClusterId([1; 16]);

fn bearer(role: Role, name: &str) -> Bearer {
    Bearer {
        principal: Principal::new(CLUSTER, role, name).unwrap(),
        fingerprint: Fingerprint([2; 16]),
        incarnation: Incarnation([3; 16]),
    }
}

fn claims() -> Claims {
    Claims {
        session: SessionId(7),
        epoch: 2,
        issued: ClusterTime(1_000),
        expires: ClusterTime(5_000),
        bearer: bearer(Role::Worker, "node-0421.rack12"),
    }
}

fn ring() -> KeyRing {
    KeyRing::new(CLUSTER, [4; 32])
}

fn open(token: &[u8]) -> Result<Claims, TokenError> {
    ring().open(token, &claims().bearer, ClusterTime(2_000))
}

#[test]
fn a_token_opens_with_an_equal_ring_until_it_expires() {
    let token = ring().seal(&claims());
    assert!(token.len() < 140, "{} bytes", token.len());
    assert_eq!(open(&token), Ok(claims()));
    let last = ring().open(&token, &claims().bearer, ClusterTime(4_999));
    assert_eq!(last, Ok(claims()));
    let late = ring().open(&token, &claims().bearer, ClusterTime(5_250));
    assert_eq!(late, Err(TokenError::Expired { ago_ms: 250 }));
}

#[test]
fn each_error_is_told_apart() {
    let token = ring().seal(&claims());
    let changed = |place: usize| {
        let mut token = token.clone();
        token[place] ^= 1;
        token
    };
    let other = KeyRing::new(ClusterId([9; 16]), [4; 32]).seal(&claims());
    let theirs = ClusterId([9; 16]);
    let table: [(&str, Vec<u8>, TokenError); 9] = [
        ("nothing", Vec::new(), TokenError::Malformed),
        ("a seal only", vec![1; 32], TokenError::Malformed),
        ("another form", changed(0), TokenError::Malformed),
        (
            "too long",
            [token.as_slice(), &[b'a'; 200]].concat(),
            TokenError::Malformed,
        ),
        ("another key", changed(1), TokenError::UnknownKey { key: 0 }),
        (
            "another cluster",
            other,
            TokenError::WrongCluster {
                ours: CLUSTER,
                theirs,
            },
        ),
        ("a later expiry", changed(45), TokenError::BadMac),
        ("another seal", changed(token.len() - 1), TokenError::BadMac),
        ("cut", token[..token.len() - 1].to_vec(), TokenError::BadMac),
    ];
    for (what, token, error) in table {
        assert_eq!(open(&token), Err(error), "{what}");
    }
}

#[test]
fn a_stolen_token_is_useless() {
    let token = ring().seal(&claims());
    let owner = claims().bearer;
    let key = Bearer {
        fingerprint: Fingerprint([8; 16]),
        ..owner.clone()
    };
    let incarnation = Bearer {
        incarnation: Incarnation([8; 16]),
        ..owner.clone()
    };
    let table = [
        ("key", key),
        ("principal", bearer(Role::Worker, "node-0422.rack12")),
        ("principal", bearer(Role::User, "node-0421.rack12")),
        ("incarnation", incarnation),
    ];
    for (what, thief) in table {
        let outcome = ring().open(&token, &thief, ClusterTime(2_000));
        assert_eq!(outcome, Err(TokenError::NotYours { what }));
    }
}

#[test]
fn every_changed_bit_and_every_cut_is_refused() {
    let token = ring().seal(&claims());
    for bit in 0..token.len() * 8 {
        let mut changed = token.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&changed).is_err(), "bit {bit}");
    }
    for length in 0..token.len() {
        assert!(open(&token[..length]).is_err(), "length {length}");
    }
    let mut random = Random(1);
    for _ in 0..10_000 {
        let noise: Vec<u8> = (0..random.below(300))
            .map(|_| random.next() as u8)
            .collect();
        assert!(open(&noise).is_err());
    }
}

#[test]
fn rotated_keys_open_until_they_are_retired() {
    let mut ring = ring();
    let open =
        |ring: &KeyRing, token: &[u8]| ring.open(token, &claims().bearer, ClusterTime(2_000));
    let first = ring.seal(&claims());
    ring.rotate([5; 32]);
    let second = ring.seal(&claims());
    assert_ne!(first, second);
    assert_eq!(open(&ring, &first), Ok(claims()));
    ring.retire_old();
    assert_eq!(open(&ring, &first), Err(TokenError::UnknownKey { key: 1 }));
    assert_eq!(open(&ring, &second), Ok(claims()));
    for round in 0..KEYS_MAX as u8 {
        ring.rotate([round; 32]);
    }
    assert_eq!(open(&ring, &second), Err(TokenError::UnknownKey { key: 2 }));
    for round in 0..=u8::MAX {
        ring.rotate([round; 32]);
        assert_eq!(open(&ring, &ring.seal(&claims())), Ok(claims()));
    }
}

#[test]
fn a_ring_survives_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("session.keys");
    assert!(KeyRing::load(&path, CLUSTER).unwrap().is_none());
    let mut made = KeyRing::load_or_create(&path, CLUSTER, [4; 32]).unwrap();
    made.rotate([6; 32]);
    made.save(&path).unwrap();
    let read = KeyRing::load_or_create(&path, CLUSTER, [7; 32]).unwrap();
    for token in [ring().seal(&claims()), made.seal(&claims())] {
        assert_eq!(
            read.open(&token, &claims().bearer, ClusterTime(2_000)),
            Ok(claims())
        );
    }
}

#[test]
fn a_damaged_ring_names_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("session.keys");
    let key = "ab".repeat(32);
    let table = [
        (String::new(), 1),
        ("something else\n".to_owned(), 1),
        ("xce session keys 1\n".to_owned(), 2),
        (format!("xce session keys 1\n1 {key}\n300 {key}\n"), 3),
        (format!("xce session keys 1\n1 {key}\n1 {key}\n"), 3),
        (format!("xce session keys 1\n1 {}\n", &key[1..]), 2),
    ];
    for (text, wanted) in table {
        crate::secret_file::replace(&path, text.as_bytes()).unwrap();
        let error = KeyRing::load(&path, CLUSTER).err().unwrap();
        assert!(
            matches!(error, RingError::Damaged { line, .. } if line == wanted),
            "{text:?}"
        );
        assert!(error.to_string().contains("session.keys"));
    }
}
