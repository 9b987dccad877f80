//! The authority, certificates, and the files that hold them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use xce_model::ClusterId;

use super::quic::{Cluster, now};
use crate::authority::{Authority, AuthorityError, civil};
use crate::identity::{Identity, IdentityError};
use crate::keys::{EndpointKeys, KeysError};
use crate::principal::{Principal, PrincipalError, Role};
use crate::secret_file::{self, FileFault};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_certificate_says_cluster_role_and_name() {
    let cluster = Cluster::new(0x5a);
    for role in Role::ALL
        .into_iter()
        .filter(|role| *role != Role::Authority)
    {
        let identity = cluster.identity(role, "node-7.rack");
        let principal = identity.principal();
        assert_eq!(principal.role, role);
        let text = format!("xce://{}/{role}/node-7.rack", "5a".repeat(16));
        assert_eq!(principal.to_string(), text);
        assert_eq!(text.parse::<Principal>().as_ref(), Ok(principal));
        assert!(identity.expires_unix_s() > now() + 9 * 365 * 86_400);
        assert!(!format!("{identity:?}").contains("PRIVATE"));
    }
    let twice = [0, 1].map(|_| cluster.identity(Role::User, "alice").fingerprint());
    assert_ne!(twice[0], twice[1]);
    let error = cluster
        .authority
        .issue(Role::Authority, "ca", now())
        .unwrap_err();
    assert!(matches!(error, AuthorityError::NotALeaf));
}

#[test]
fn names_that_are_not_allowed_get_no_certificate() {
    let cluster = Cluster::new(1);
    let long = "a".repeat(129);
    for name in [
        "",
        "a b",
        "a/b",
        "../x",
        "-a",
        ".a",
        "a\n",
        "ä",
        long.as_str(),
    ] {
        let error = cluster
            .authority
            .issue(Role::Worker, name, now())
            .unwrap_err();
        let AuthorityError::Principal(PrincipalError::Name(_)) = error else {
            panic!("{name:?}: {error}")
        };
    }
    for name in ["a", "_apt", "Alice", "n1.rack-2", &long[1..]] {
        assert_eq!(cluster.identity(Role::User, name).principal().name, name);
    }
}

#[test]
fn texts_that_are_no_principal_are_refused() {
    let hex = "0".repeat(32);
    for text in [
        String::new(),
        "http://x".to_owned(),
        format!("xce://{hex}"),
        format!("xce://{hex}/worker"),
        format!("xce://{hex}/worker/"),
        format!("xce://{hex}/worker/a/b"),
        format!("xce://{hex}/king/a"),
        format!("xce://{}/worker/a", &hex[1..]),
        format!("xce://+{}/worker/a", &hex[1..]),
    ] {
        assert!(text.parse::<Principal>().is_err(), "{text}");
    }
}

#[test]
fn an_identity_survives_its_files_and_its_key_stays_private() {
    let cluster = Cluster::new(1);
    let directory = tempfile::tempdir().unwrap();
    let made = cluster.identity(Role::Worker, "w1");
    let missing = Identity::load(directory.path()).unwrap_err();
    assert!(matches!(missing, IdentityError::Missing(_)));
    made.store(directory.path()).unwrap();
    let read = Identity::load(directory.path()).unwrap();
    assert_eq!(read.principal(), made.principal());
    assert_eq!(read.fingerprint(), made.fingerprint());
    let key = directory.path().join("identity.key");
    assert_eq!(mode(&key), 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = Identity::load(directory.path()).unwrap_err();
    assert!(matches!(
        error,
        IdentityError::File(FileFault::Exposed { mode: 0o644, .. })
    ));
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 3, "no drafts are left");
}

#[test]
fn parts_of_different_identities_do_not_make_one() {
    let cluster = Cluster::new(1);
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    cluster
        .identity(Role::Worker, "w1")
        .store(one.path())
        .unwrap();
    cluster
        .identity(Role::Worker, "w2")
        .store(two.path())
        .unwrap();
    std::fs::copy(
        two.path().join("identity.key"),
        one.path().join("identity.key"),
    )
    .unwrap();
    let error = Identity::load(one.path()).unwrap_err();
    assert!(matches!(error, IdentityError::Key(_)), "{error}");
    secret_file::replace(&one.path().join("identity.pem"), b"nothing").unwrap();
    let error = Identity::load(one.path()).unwrap_err();
    assert!(
        matches!(
            error,
            IdentityError::Pem {
                what: "certificate",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn an_authority_is_made_once_and_for_one_cluster() {
    let cluster = Cluster::new(1);
    let (ours, theirs) = (ClusterId([1; 16]), ClusterId([2; 16]));
    let path = cluster.directory.path();
    assert_eq!(mode(&path.join("ca.key")), 0o600);
    let error = Authority::create(path, ours, now()).err().unwrap();
    assert!(matches!(error, AuthorityError::Exists(_)));
    let error = Authority::load(path, theirs).err().unwrap();
    assert!(matches!(&error, AuthorityError::WrongCluster { .. }));
    assert!(error.to_string().contains(&"02".repeat(16)), "{error}");
    let again = Authority::load_or_create(path, ours, now()).unwrap();
    assert_eq!(again.certificate_pem(), cluster.authority.certificate_pem());
    let empty = tempfile::tempdir().unwrap();
    let error = Authority::load(empty.path(), ours).err().unwrap();
    assert!(matches!(error, AuthorityError::Missing(_)));
    let other = Cluster::new(1);
    std::fs::copy(other.directory.path().join("ca.key"), path.join("ca.key")).unwrap();
    let error = Authority::load(path, ours).err().unwrap();
    assert!(matches!(error, AuthorityError::Mismatch(_)));
}

#[test]
fn days_become_dates() {
    let table = [
        (-5, (1970, 1, 1)),
        (0, (1970, 1, 1)),
        (58, (1970, 2, 28)),
        (59, (1970, 3, 1)),
        (789, (1972, 2, 29)),
        (11_016, (2000, 2, 29)),
        (11_017, (2000, 3, 1)),
        (20_834, (2027, 1, 16)),
        (47_540, (2100, 2, 28)),
        (47_541, (2100, 3, 1)),
    ];
    for (days, date) in table {
        assert_eq!(civil(days), date, "day {days}");
    }
}

#[test]
fn endpoint_keys_are_made_once_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    EndpointKeys::load_or_create(directory.path()).unwrap();
    let path = directory.path().join("endpoint.key");
    let secret = std::fs::read(&path).unwrap();
    EndpointKeys::load_or_create(directory.path()).unwrap();
    assert_eq!(
        (std::fs::read(&path).unwrap(), mode(&path)),
        (secret, 0o600)
    );
    secret_file::replace(&path, b"short").unwrap();
    let error = EndpointKeys::load_or_create(directory.path())
        .err()
        .unwrap();
    assert!(matches!(error, KeysError::Length { found: 5, .. }));
}

#[test]
fn secret_files_are_bounded_and_never_overwritten_by_create() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    assert_eq!(secret_file::read(&path).unwrap(), None);
    assert!(secret_file::create(&path, b"first").unwrap());
    assert!(!secret_file::create(&path, b"second").unwrap());
    assert_eq!(secret_file::read(&path).unwrap().unwrap(), b"first");
    secret_file::replace(&path, &vec![0; 70_000]).unwrap();
    assert!(matches!(
        secret_file::read(&path),
        Err(FileFault::TooLong { .. })
    ));
    let nowhere = directory.path().join("missing/secret");
    let error = secret_file::replace(&nowhere, b"x").unwrap_err();
    assert!(error.to_string().contains("missing/secret"));
}

#[test]
fn a_certificate_out_of_its_time_is_named_with_the_day() {
    let cluster = Cluster::new(1);
    let identity = cluster
        .authority
        .issue(Role::Worker, "h1", 1_800_000_000)
        .unwrap();
    assert_eq!(identity.out_of_time(1_800_000_000), None);
    let early = identity.out_of_time(1_700_000_000).unwrap();
    assert!(early.contains("is not valid before 2027-01-13"), "{early}");
    let late = identity.out_of_time(identity.expires_unix_s()).unwrap();
    assert!(
        late.contains("h1") && late.contains("ended on 2037-01-1"),
        "{late}"
    );
}
