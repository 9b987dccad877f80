//! The doors of a cluster: ports, directories, strangers, garbage.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use xce_tests::harness::binaries;
use xce_tests::harness::cli::{self, Answer};
use xce_tests::{Cli, Cluster, Setup};

/// `xced dev` that is expected to fail at once.
fn dev(home: &Path, words: &[&str]) -> Answer {
    let mut command = Command::new(binaries::path("xced"));
    command
        .args(["dev", "--workers", "1", "--home"])
        .arg(home)
        .args(words);
    cli::run(command, None)
}

#[test]
fn a_port_in_use_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = taken
        .local_addr()
        .expect("it has an address")
        .port()
        .to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let text = dev(folder.path(), &["--port", &port]).failed();
    assert!(text.contains(&port) && text.contains("in use"), "{text}");
}

#[test]
fn a_second_cluster_in_the_same_home_is_refused() {
    let cluster = Cluster::start("same-home");
    let text = dev(cluster.home(), &["--port", "0"]).failed();
    assert!(
        text.contains("in use") && text.contains(cluster.home().to_str().expect("a plain name")),
        "{text}"
    );
    cluster.audit();
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("the folder can be written");
    let text = dev(&file, &["--port", "0"]).failed();
    assert!(text.contains("/file"), "{text}");
    let text = dev(&file.join("below"), &["--port", "0"]).failed();
    assert!(text.contains("/file"), "{text}");
    let text = as_nobody(folder.path());
    assert!(
        text.contains("closed") && text.to_lowercase().contains("permission denied"),
        "{text}"
    );
}

/// The same as a user who may not write there: the caller, or nobody where that is root.
fn as_nobody(folder: &Path) -> String {
    let closed = folder.join("closed");
    fs::create_dir(&closed).expect("the folder can be written");
    let mut program = binaries::path("xced");
    if nix::unistd::Uid::effective().is_root() {
        // The build may lie where only its owner may read.
        let copy = folder.join("xced");
        if fs::hard_link(&program, &copy).is_err() {
            fs::copy(&program, &copy).expect("the program can be copied");
        }
        program = copy;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let mode =
        |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).expect("it is ours");
    mode(0o500);
    let mut command = Command::new(program);
    command
        .args(["dev", "--port", "0", "--home"])
        .arg(closed.join("home"))
        .current_dir("/");
    if nix::unistd::Uid::effective().is_root() {
        // Source: Debian base-passwd, nobody.
        command.uid(65_534).gid(65_534);
    }
    let text = cli::run(command, None).failed();
    mode(0o700);
    text
}

#[test]
fn a_directory_of_another_cluster_is_refused_by_name() {
    let mut cluster = Setup::new("other-state").workers(1).start();
    let mut other = Setup::new("other-home").workers(1).start();
    cluster.stop();
    other.stop();
    let (ours, theirs) = (
        cluster.home().join("controller"),
        other.home().join("controller"),
    );
    let identity = |path: &Path| path.join("identity");
    fs::rename(identity(&ours), cluster.folder().join("identity")).expect("it is ours");
    fs::remove_dir_all(&ours).expect("it is ours");
    copy(&theirs, &ours);
    fs::remove_dir_all(identity(&ours)).expect("it is ours");
    fs::rename(cluster.folder().join("identity"), identity(&ours)).expect("it is ours");
    let text = dev(cluster.home(), &["--port", "0"]).failed();
    assert!(
        text.contains("cluster") && text.contains("controller"),
        "{text}"
    );
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it is ours");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

#[test]
fn a_client_of_another_cluster_is_turned_away() {
    let cluster = Setup::new("host-cluster").workers(1).start();
    let mut other = Setup::new("guest-cluster").workers(1).start();
    other.stop();
    let file = other.home().join("client/client.toml");
    let text = fs::read_to_string(&file).expect("a client file");
    let old = text
        .lines()
        .find(|line| line.starts_with("controllers"))
        .expect("it names addresses");
    let new = format!("controllers = [\"{}\"]", cluster.address());
    fs::write(&file, text.replace(old, &new)).expect("it is ours");
    let answer = Cli::new(other.home()).run(&["--retry-for", "3s", "jobs", "list"]);
    let text = answer.refused(4);
    assert!(text.contains("cluster"), "{text}");
    cluster.cli().good(&["jobs", "list"]);
    cluster.audit();
}

#[test]
fn without_a_cluster_the_next_step_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = Cli::new(folder.path()).run(&["jobs", "list"]).refused(5);
    assert!(text.contains("xced dev"), "{text}");
}

#[test]
fn garbage_on_the_port_harms_nobody() {
    let cluster = Setup::new("garbage").start();
    let cli = cluster.cli();
    let pid = cluster.controller_pid();
    let stop = AtomicBool::new(false);
    let ids = thread::scope(|scope| {
        scope.spawn(|| throw_garbage(&cluster, &stop));
        let submit = |_| cli.submit(&["-c", "0.1", "-m", "16MiB", "--", "true"]);
        let ids: Vec<String> = (0..20).map(submit).collect();
        ids.iter()
            .for_each(|id| assert_eq!(cluster.ended(id)["state"], "DONE"));
        stop.store(true, Ordering::Relaxed);
        ids
    });
    assert_eq!(ids.len(), 20);
    assert_eq!(
        cluster.controller_pid(),
        pid,
        "the controller is still the same process"
    );
    assert_eq!(cli.json(&["cluster", "status"])["hosts_up"], 2);
    cluster.audit();
}

/// Datagrams of all sizes: random ones, and such that begin like QUIC.
fn throw_garbage(cluster: &Cluster, stop: &AtomicBool) {
    // Source: RFC 9000 section 17.2; long header, version 1, connection ids of 8 bytes.
    const INITIAL: [u8; 15] = [0xc3, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 8];
    let mut random = fastrand::Rng::with_seed(7);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut bytes = vec![0; 65_507];
    while !stop.load(Ordering::Relaxed) {
        let size = match random.u8(..4) {
            0 => random.usize(1..64),
            1 => random.usize(1_200..1_500),
            2 => bytes.len(),
            _ => random.usize(1..bytes.len()),
        };
        random.fill(&mut bytes[..size]);
        if size > INITIAL.len() && random.bool() {
            bytes[..INITIAL.len()].copy_from_slice(&INITIAL);
        }
        // A full socket buffer drops it, as the network may.
        drop(socket.send_to(&bytes[..size], cluster.address()));
        thread::yield_now();
    }
}
