//! Single values of an update as a document.

use clap::Parser;
use xce_model::MilliCpu;
use xce_model::spec::{Amount, OnStuck};
use xce_profile::document::ServiceFile;
use xce_session::wire::AskService;

use crate::cli::arguments::{Arguments, Noun};
use crate::cli::services::{ChangeVerb, Verb};
use crate::cli::updating::{Update, words};

fn update(text: &[&str]) -> (Box<Update>, crate::cli::arguments::Global) {
    let all = ["xcecli", "services", "update"].into_iter();
    let arguments = Arguments::try_parse_from(all.chain(text.iter().copied())).unwrap();
    let Noun::Services(Verb::Change(ChangeVerb::Update(update))) = arguments.noun else {
        panic!("no update")
    };
    (update, arguments.global)
}

fn document(text: &[&str]) -> (ServiceFile, Vec<String>) {
    let (update, global) = update(text);
    let (ask, name) = update.request(&global).unwrap();
    assert_eq!(name.name, "web");
    let AskService::Patch { request, unset, .. } = ask else {
        panic!("no patch")
    };
    (serde_json::from_str(&request.document).unwrap(), unset)
}

#[test]
fn only_what_is_given_is_in_the_document() {
    let (file, unset) = document(&["web", "--cpus", "0.5"]);
    let mut expected = ServiceFile::default();
    expected.resources.get_or_insert_default().cpus = Some(MilliCpu(500));
    assert_eq!((file, unset), (expected, Vec::new()));

    let words = [
        "web",
        "--env",
        "A=b=c",
        "--unset-env",
        "B",
        "--unset-env",
        "x.y",
        "--port",
        "http",
        "--port",
        "admin=81",
        "--max-surge",
        "25%",
        "--on-stuck",
        "rollback",
        "--label",
        "a=",
        "--",
        "sleep",
        "5",
    ];
    let (file, unset) = document(&words);
    assert_eq!(file.env.unwrap()["A"], "b=c");
    assert_eq!(unset, ["env.B", "env.\"x.y\""]);
    let ports = file.ports.unwrap();
    assert_eq!((ports[0].port, ports[1].port), (None, Some(81)));
    let rollout = file.rollout.unwrap();
    assert_eq!(rollout.max_surge.unwrap().0, Amount::Percent(25));
    assert_eq!(rollout.on_stuck, Some(OnStuck::Rollback));
    assert_eq!(file.labels.unwrap()["a"], "");
    assert_eq!(file.command.unwrap(), ["sleep", "5"]);
    assert!(file.resources.is_none() && file.replicas.is_none());
}

#[test]
fn a_file_and_a_name_must_agree_and_values_win() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.toml");
    std::fs::write(
        &path,
        "name = \"web\"\ncommand = [\"a\"]\nresources = { cpus = 1 }\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let (asked, global) = update(&["other", path]);
    let text = asked.request(&global).unwrap_err().to_string();
    assert!(
        text.contains("is of service `web`, not of `other`"),
        "{text}"
    );
    for words in [&["web", path, "--cpus", "2"][..], &[path, "--cpus", "2"]] {
        let (asked, global) = update(words);
        let (ask, name) = asked.request(&global).unwrap();
        let AskService::Update { request, .. } = ask else {
            panic!("no update")
        };
        let file: ServiceFile = serde_json::from_str(&request.document).unwrap();
        assert_eq!(file.resources.unwrap().cpus, Some(MilliCpu(2000)));
        assert_eq!(name.name, "web");
    }
    let (asked, global) = update(&["web"]);
    let text = asked.request(&global).unwrap_err().to_string();
    assert!(text.starts_with("nothing is to change: "), "{text}");
}

#[test]
fn a_command_as_one_text_is_parted_as_a_shell_would() {
    let parted = |text: &str| words(text).map(|words| words.0);
    assert_eq!(parted("sleep  5").unwrap(), ["sleep", "5"]);
    assert_eq!(
        parted("a 'b c' \"d \\\" e\" '' f\\ g").unwrap(),
        ["a", "b c", "d \" e", "", "f g"]
    );
    for (wrong, why) in [
        ("", "a program"),
        ("a 'b", "quote '"),
        ("a \\", "ends behind"),
    ] {
        assert!(parted(wrong).unwrap_err().contains(why), "{wrong}");
    }
}
