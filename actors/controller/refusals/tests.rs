use std::io::Write as _;

use xce_model::JobId;
use xce_session::journal_wire::RefusalView;
use xce_session::wire::{Ask, AskCluster, AskJob, AskService, ServiceName};

use super::event;
use super::files::Files;

fn refusal(number: u64) -> RefusalView {
    RefusalView {
        lsn: number,
        text: "x".repeat(100),
        ..RefusalView::default()
    }
}

fn numbers(files: &Files, count: usize) -> Vec<u64> {
    files.last(count).iter().map(|row| row.lsn).collect()
}

#[test]
fn events_are_named_by_what_is_asked() {
    let name = ServiceName {
        project: "default".into(),
        name: "web".into(),
    };
    let scale = Ask::Service(AskService::Scale {
        name: name.clone(),
        desired: 3,
        remove: Vec::new(),
    });
    assert_eq!(event(&scale), "service scale");
    assert_eq!(
        event(&Ask::Service(AskService::Pause(name))),
        "service pause"
    );
    let kill = AskJob::Kill {
        jobs: vec![JobId::single(1)],
        signal: None,
    };
    assert_eq!(event(&Ask::Job(kill)), "job kill");
    assert_eq!(event(&Ask::Cluster(AskCluster::Status)), "cluster status");
}

#[test]
fn the_last_ones_are_kept_in_two_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = Files::new(directory.path()).with_bytes_max(1000);
    assert!(files.last(10).is_empty());
    for number in 0..100 {
        files.append(&refusal(number)).unwrap();
    }
    assert_eq!(numbers(&files, 3), [97, 98, 99]);
    assert!(numbers(&files, 1000).len() < 20, "the oldest are gone");
    let bytes: u64 = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 3000, "{bytes} bytes");
    // Another process goes on with the same files.
    let mut files = Files::new(directory.path()).with_bytes_max(1000);
    files.append(&refusal(100)).unwrap();
    assert_eq!(numbers(&files, 2), [99, 100]);
    assert!(files.last(0).is_empty());
}

#[test]
fn a_line_that_was_cut_off_costs_only_itself() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = Files::new(directory.path());
    files.append(&refusal(1)).unwrap();
    let path = directory.path().join("refusals.jsonl");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"time\":\"20").unwrap();
    let mut files = Files::new(directory.path());
    files.append(&refusal(2)).unwrap();
    assert_eq!(numbers(&files, 9), [1, 2]);
}

#[test]
fn a_directory_that_is_gone_is_an_error_and_no_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gone");
    let mut files = Files::new(&path);
    assert!(files.append(&refusal(1)).is_err());
    std::fs::create_dir(&path).unwrap();
    files.append(&refusal(2)).unwrap();
    assert_eq!(numbers(&files, 9), [2]);
}
