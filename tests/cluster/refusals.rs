//! Wrong input: named, with what is allowed, and without a trace in the cluster.

use std::fs;

use serde_json::Value;
use xce_tests::Cluster;

use super::{idle_service, word};

/// A wrong service file: what is in it, and words that the message has.
type WrongFile<'w> = (&'w str, &'w str, &'w [&'w str]);

const GOOD: &str = "name = \"web\"\ncommand = [\"true\"]\n";

const WRONG_FILES: [WrongFile<'static>; 15] = [
    (
        "an unknown field",
        "replica = 3",
        &["line 3", "replica", "replicas"],
    ),
    (
        "an unknown unit",
        "stop = { grace = \"10 parsecs\" }",
        &["line 3", "parsecs"],
    ),
    (
        "a number without its unit",
        "stop = { grace = 10 }",
        &["line 3", "10"],
    ),
    (
        "an unknown unit of memory",
        "resources = { memory = \"5 stones\" }",
        &["line 3", "stones"],
    ),
    (
        "a million replicas",
        "replicas = 1000000",
        &["1000000", "100000"],
    ),
    ("fewer than no replicas", "replicas = -1", &["line 3", "-1"]),
    (
        "a port out of range",
        "ports = [{ name = \"http\", port = 70000 }]",
        &["70000", "65535"],
    ),
    (
        "a port twice",
        "ports = [{ name = \"a\" }, { name = \"a\" }]",
        &["`a`"],
    ),
    (
        "a probe with no port",
        "probes = { readiness = { http = { path = \"/\" } } }",
        &["port"],
    ),
    (
        "a probe of another port",
        "probes = { readiness = { tcp = { port = \"http\" } } }",
        &["http", "port"],
    ),
    (
        "a probe of two kinds",
        "ports = [{ name = \"p\" }]\nprobes = { readiness = { tcp = { port = \"p\" }, exec = { command = [\"true\"] } } }",
        &["readiness"],
    ),
    ("a relative directory", "cwd = \"here\"", &["line 3", "cwd"]),
    (
        "no such restart",
        "restart = { mode = \"sometimes\" }",
        &["sometimes", "always"],
    ),
    (
        "a variable with a wrong name",
        "env = { \"A=B\" = \"c\" }",
        &["A=B"],
    ),
    ("no TOML", "= = =", &["line 3"]),
];

#[test]
fn a_wrong_service_file_is_refused_with_its_line_and_what_is_allowed() {
    let cluster = Cluster::start("wrong-files");
    let cli = cluster.cli();
    let path = cluster.folder().join("wrong.toml");
    let create = ["services", "create", word(&path)];
    for (what, line, words) in WRONG_FILES {
        fs::write(&path, format!("{GOOD}{line}\n")).expect("the folder can be written");
        let text = cli.run(&create).refused(2);
        assert!(
            text.contains("wrong.toml"),
            "{what}: the file is named: {text}"
        );
        for word in words {
            assert!(
                text.contains(word),
                "{what}: `{word}` is missing in: {text}"
            );
        }
    }
    fs::write(&path, "").expect("the folder can be written");
    let text = cli.run(&create).refused(2);
    assert!(text.contains("`name` is missing"), "{text}");
    // A profile could give the command, so the cluster says that none does.
    fs::write(&path, "name = \"web\"\n").expect("the folder can be written");
    let answer = cli.run(&create);
    assert!(matches!(answer.code, 1 | 2), "{}", answer.code);
    assert!(answer.stderr.contains("command"), "{}", answer.stderr);
    fs::write(&path, [0xff, 0xfe, 0, 1]).expect("the folder can be written");
    cli.run(&create).refused(2);
    cli.run(&["services", "create", "/no/such/file.toml"])
        .refused(2);
    cli.run(&["services", "create", word(cluster.folder())])
        .refused(2);
    assert_eq!(cli.json(&["services", "list"]), Value::Array(Vec::new()));
    cluster.audit();
}

#[test]
fn names_that_are_none_are_refused_and_shown_in_one_short_line() {
    let cluster = Cluster::start("wrong-names");
    let cli = cluster.cli();
    let long = "n".repeat(10_000);
    let names = [
        "",
        "-a",
        "A",
        "a b",
        "a\nb",
        "a\u{1b}[31mb",
        "ä",
        "../x",
        long.as_str(),
    ];
    for name in names {
        let text = toml_string(name);
        let file = format!("name = {text}\ncommand = [\"true\"]\n");
        let said = cli
            .run_with_stdin(&["services", "create", "-"], &file)
            .refused(2);
        is_short_and_visible(&said);
        let said = cli
            .run(&["jobs", "submit", "--name", name, "--", "true"])
            .refused(2);
        is_short_and_visible(&said);
        let said = cli
            .run(&["--project", name, "jobs", "submit", "--", "true"])
            .refused(2);
        is_short_and_visible(&said);
        let answer = cli.run(&["services", "show", "--", name]);
        assert!(matches!(answer.code, 2 | 3), "{name:?}: {answer:?}");
        is_short_and_visible(&answer.stderr);
    }
    let path = idle_service(cluster.folder(), "twice", 1);
    cli.good(&["services", "create", word(&path)]);
    let text = cli.run(&["services", "create", word(&path)]).refused(1);
    assert!(text.contains("twice"), "{text}");
    cluster.audit();
}

fn toml_string(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '\n' => "\\n".to_owned(),
        letter if letter.is_control() => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("\"{}\"", letters.collect::<String>())
}

#[track_caller]
fn is_short_and_visible(said: &str) {
    assert!(said.len() < 2_000, "{} bytes", said.len());
    let hidden = said
        .chars()
        .any(|letter| letter.is_control() && letter != '\n');
    assert!(!hidden, "{said:?}");
}

#[test]
fn an_environment_of_ten_megabytes_is_refused() {
    let cluster = Cluster::start("wrong-size");
    let cli = cluster.cli();
    let value = "x".repeat(10 * 1024 * 1024);
    let list = cluster.folder().join("variables");
    fs::write(&list, format!("BIG={value}\n")).expect("the folder can be written");
    let text = cli
        .run(&["jobs", "submit", "--env-file", word(&list), "--", "true"])
        .refused(2);
    assert!(text.contains("262144"), "the limit is named: {text}");
    let file = format!("name = \"big\"\ncommand = [\"true\"]\nenv = {{ BIG = \"{value}\" }}\n");
    let text = cli
        .run_with_stdin(&["services", "create", "-"], &file)
        .refused(2);
    is_short_and_visible(&text);
    // A large one that is allowed arrives whole.
    let value = "y".repeat(200 * 1024);
    fs::write(
        &list,
        format!("A={}\nB={}\n", &value[..100 * 1024], &value[100 * 1024..]),
    )
    .expect("the folder can be written");
    let script = "printf %s \"$A$B\" | wc -c";
    let id = cli.submit(&["--env-file", word(&list), "--", "sh", "-c", script]);
    assert_eq!(cluster.ended(&id)["state"], "DONE");
    assert_eq!(cli.good(&["jobs", "logs", &id]).trim(), "204800");
    cluster.audit();
}

#[test]
fn what_does_not_exist_is_not_found_and_a_near_name_is_proposed() {
    let cluster = Cluster::start("not-found");
    let cli = cluster.cli();
    let path = idle_service(cluster.folder(), "storefront", 0);
    cli.good(&["services", "create", word(&path)]);
    let none = cluster.steady("storefront", 0);
    assert_eq!(
        none["condition"], "steady",
        "no replicas are allowed: {none}"
    );
    let text = cli
        .run(&["services", "scale", "storefrond", "3"])
        .refused(3);
    assert!(text.contains("storefront"), "{text}");
    for words in [
        &["services", "show", "x"][..],
        &["services", "delete", "x"],
        &["services", "kill", "storefront", "7"],
        &["services", "explain", "x"],
        &["jobs", "show", "99"],
        &["jobs", "show", "99[1]"],
        &["jobs", "kill", "99"],
        &["jobs", "logs", "99"],
        &["jobs", "requeue", "99"],
        &["hosts", "show", "w9"],
        &["hosts", "close", "w9"],
        &["actors", "show", "job/99"],
        &["sessions", "show", "999"],
    ] {
        let text = cli.run(words).refused(3);
        is_short_and_visible(&text);
    }
    let text = cli
        .run(&["services", "scale", "storefront", "1000000"])
        .refused(2);
    assert!(text.contains("100000"), "the limit is named: {text}");
    for words in [
        &["services", "scale", "storefront", "-1"][..],
        &["services", "scale", "storefront"],
        &["service", "explode", "storefront"],
        &["jobs", "show", "abc"],
        &["jobs", "submit"],
        &["jobs", "submit", "-c", "0", "--", "true"],
        &["jobs", "submit", "-t", "soon", "--", "true"],
        &["jobs", "submit", "-n", "a[5-1]", "--", "true"],
        &["jobs", "submit", "-n", "a[1-9999999]", "--", "true"],
        &["jobs", "submit", "-n", "a[1-5]%0", "--", "true"],
        &["-o", "xml", "jobs", "list"],
    ] {
        let text = cli.run(words).refused(2);
        is_short_and_visible(&text);
    }
    cluster.audit();
}
