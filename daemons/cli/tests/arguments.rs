//! Words that are understood, and words that are not.

use clap::{CommandFactory, Parser};
use xce_model::JobId;

use crate::cli::arguments::{Arguments, Form, Noun};
use crate::cli::{jobs, operation, services, watch};

fn parsed(words: &str) -> Result<Arguments, String> {
    Arguments::try_parse_from(["xcecli"].into_iter().chain(words.split_whitespace()))
        .map_err(|error| error.to_string())
}

#[test]
fn the_definition_of_all_words_is_sound() {
    Arguments::command().debug_assert();
}

/// Commands as the documents have them.
const DOCUMENTED: &[&str] = &[
    "services create web.toml --wait --timeout 10s",
    "svc create -",
    "svc create - --format yaml",
    "services validate web.toml other.yaml",
    "services validate - --format json",
    "services validate web.toml --online",
    "schema service",
    "services list -A --watch",
    "s ls -o json",
    "services show web",
    "services scale web 5 --remove 12 --remove 13 --wait",
    "services kill web 0",
    "services delete web --token t1",
    "services explain web",
    "services update web.toml --take-count",
    "services pause web",
    "services resume web",
    "services rollback web --to 3",
    "services rollback web",
    "services restart web",
    "services endpoints web -o name",
    "services events web -f",
    "services events web --watch",
    "services history web",
    "services history web --version 3 -o json",
    "services plan web.toml --take-count",
    "services plan - --format yaml",
    "services scale web 9 --plan",
    "services rollback web --to 2 --plan",
    "services rollback web --resume --wait",
    "services restart web --plan -o json",
    "services update web.toml --plan",
    "services update web --env A=b --env C=d --unset-env E --cpus 0.5 --memory 64MiB",
    "services update web --port http --port admin=8080 --cwd /srv --label a=b --queue normal",
    "services update web --max-surge 1 --max-unavailable 25% --min-ready 5s --replicas 3",
    "services update web --progress-deadline 2m --on-stuck rollback --take-count --wait",
    "services update web web.toml --cpus 1",
    "services update web -- sleep 5",
    "services update web --command sleep",
    "services delete web --plan",
    "rollout status web",
    "rollout status web --watch --timeout 10s",
    "rollout pause web",
    "rollout resume web",
    "rollout history web",
    "rollout undo web --to 3",
    "rollout restart web --wait",
    "jobs submit -o name -- sleep 5",
    "jobs submit -n name[1-100]%10 -c 0.5 -m 64MiB -e A=b --cwd /tmp -t 1h -q fast --hold true",
    "jobs submit --array 1-100%10 --rerunnable --token t --wait -- sh -c x",
    "jobs list -a --owner ada --service web --name n --host w1 --limit 3",
    "j show 17[3]",
    "jobs kill 1 2[3] -s USR1",
    "jobs hold 1",
    "jobs release 1",
    "jobs requeue 1 --wait",
    "jobs suspend 1",
    "jobs resume 1",
    "jobs logs 1 -f --stderr --run 2",
    "hosts list -o wide",
    "h show w1",
    "hosts close w1 --reason broken",
    "hosts reopen w1",
    "hosts remove w1",
    "actors tree --kind service --state running --no-fold",
    "actors show service/3",
    "actors kill service/3",
    "actors retry service/3",
    "sessions list",
    "sessions show 3",
    "cluster status -o yaml",
    "audit",
    "watch",
    "watch services jobs hosts -A",
    "completions bash",
    "--home /tmp --project p services list",
    "cluster members",
    "cluster invite --controller",
    "cluster invite --worker h1",
    "cluster invite --user ada",
    "cluster remove c3",
    "cluster transfer-leader c2",
    "profiles list",
    "journal export --out j",
    "journal refusals --last 5",
];

#[test]
fn every_documented_command_is_understood() {
    for words in DOCUMENTED {
        if let Err(error) = parsed(words) {
            panic!("{words}: {error}");
        }
    }
}

#[test]
fn wrong_words_are_refused_and_named() {
    for (words, wanted) in [
        ("services", "Usage: xcecli services"),
        ("servcies list", "'services'"),
        ("services creat x", "'create'"),
        ("services list -o jsn", "'json'"),
        ("services scale web -1", "'-1'"),
        ("services scale web 100001", "100001 is not in 0..=100000"),
        ("services scale web many", "invalid digit"),
        ("jobs show 1x", "`1x` is not a job id"),
        ("jobs kill", "<ID>..."),
        ("jobs submit", "<COMMAND>..."),
        ("jobs submit -m 64 x", "`64` is not a size"),
        ("jobs submit -c 0 x", "`0` is not a number of processors"),
        ("jobs submit -t 5 x", "`5` is not a duration"),
        ("jobs submit --array 5-1 x", "elements are given as 1-100"),
        ("jobs kill 1 -s NOPE", "`NOPE` is not a signal"),
        ("jobs list --limit 0", "0 is not in 1.."),
        ("jobs list --watch --wait", "'--wait'"),
        ("services delete web --timeout 1s", "--wait"),
        ("services list -A --project p", "cannot be used with"),
        ("watch everything", "possible values: services, jobs, hosts"),
        ("--retry-for soon audit", "`soon` is not a duration"),
    ] {
        let error = parsed(words).map(|_| ()).expect_err(words);
        assert!(
            error.contains(wanted),
            "{words}: wanted {wanted}, got {error}"
        );
    }
}

#[test]
fn words_behind_the_command_of_a_job_belong_to_it() {
    let arguments = parsed("jobs submit -n n ls -o x --help").unwrap();
    assert_eq!(arguments.global.output, Form::Table);
    let Noun::Jobs(jobs::Verb::Submit(options)) = arguments.noun else {
        panic!("no submit")
    };
    assert_eq!(options.command, ["ls", "-o", "x", "--help"]);
    assert_eq!(options.name.as_deref(), Some("n"));
}

#[test]
fn options_arrive_where_they_belong() {
    let arguments = parsed("services scale web 5 --remove 12 --remove 13[2] -o name").unwrap();
    assert_eq!(arguments.global.output, Form::Name);
    assert_eq!(arguments.global.project(), "default");
    let Noun::Services(services::Verb::Change(services::ChangeVerb::Scale {
        name,
        replicas,
        remove,
        plan,
        change,
    })) = arguments.noun
    else {
        panic!("no scale")
    };
    assert_eq!((name.as_str(), replicas), ("web", 5));
    assert_eq!(remove, [JobId::single(12), JobId::element(13, 2)]);
    assert!(!plan.plan && !change.wait.wait && change.token.is_none());
}

#[test]
fn a_watch_without_kinds_is_about_all_of_one_project() {
    let arguments = parsed("watch --project p").unwrap();
    let global = arguments.global.clone();
    let Noun::Watch(what) = arguments.noun else {
        panic!("no watch")
    };
    let filter = what.filter(&global);
    assert!(filter.services && filter.jobs && filter.hosts);
    assert_eq!(filter.project.as_deref(), Some("p"));
    let what = watch::What {
        kinds: vec![watch::Kind::Hosts],
        all_projects: true,
        after: 7,
    };
    let filter = what.filter(&global);
    assert!(!filter.services && !filter.jobs && filter.hosts);
    assert_eq!((filter.project, filter.after), (None, 7));
}

#[test]
fn a_token_names_the_same_operation_of_the_same_user_only() {
    let ours = operation::of_token("xce://c/user/ada", "t");
    assert_eq!(ours, operation::of_token("xce://c/user/ada", "t"));
    assert_ne!(ours, operation::of_token("xce://c/user/ada", "u"));
    assert_ne!(ours, operation::of_token("xce://c/user/bob", "t"));
    // The parts are kept apart, so that a token cannot pass for a piece of a name.
    assert_ne!(
        operation::of_token("ab", "c"),
        operation::of_token("a", "bc")
    );
    // Tokens must name the same operation for ever.
    assert_eq!(ours.to_string(), "6d692b9b156a6908b8c7795ed0465a7b");
    assert_ne!(operation::random().unwrap(), operation::random().unwrap());
}
