//! The three formats: the same service from each, and what each refuses.

use proptest::prelude::*;
use xce_profile::document::ServiceFile;

use crate::document::Document;
use crate::service::read_service;
use crate::syntax::Format;

/// Reads a text of a format, where only ada has an account; the file's name has its ending.
pub fn read_as(format: Format, text: &str) -> Result<ServiceFile, String> {
    let file = match format {
        Format::Toml => "file.toml",
        Format::Yaml => "file.yml",
        Format::Json => "file.json",
    };
    let document = Document::new(file, text, None);
    assert_eq!(document.format, format);
    read_service(&document, &|name| name == "ada").map_err(|faults| faults.to_string())
}

/// Reads a text as `file.toml`.
pub fn read_toml(text: &str) -> Result<ServiceFile, String> {
    read_as(Format::Toml, text)
}

const TOML: &str = r#"
name = "web"
replicas = 3
command = ["serve", "--port", "${XCE_PORT_http}"]
env = { MODE = "on", EMPTY = "" }
resources = { cpus = 0.5, memory = "64MiB" }
ports = [{ name = "http", port = 8080 }]
[probes.readiness]
http = { port = "http", path = "/up" }
[rollout]
max_surge = 1
max_unavailable = "0%"
"#;

const YAML: &str = r#"
# Words such as `on` are texts.
name: web
replicas: 3
command: [serve, --port, "${XCE_PORT_http}"]
env:
  MODE: on
  EMPTY: ""
resources: {cpus: .5, memory: 64MiB}
ports:
- name: http
  port: 8080
probes:
  readiness:
    http: {port: http, path: /up}
rollout:
  max_surge: 1
  max_unavailable: 0%
"#;

const JSON: &str = r#"{
  "name": "web", "replicas": 3,
  "command": ["serve", "--port", "$\u007bXCE_PORT_http}"],
  "env": {"MODE": "on", "EMPTY": ""},
  "resources": {"cpus": 5e-1, "memory": "64MiB"},
  "ports": [{"name": "http", "port": 8080}],
  "probes": {"readiness": {"http": {"port": "http", "path": "\/up"}}},
  "rollout": {"max_surge": 1, "max_unavailable": "0%"}
}"#;

#[test]
fn the_three_formats_mean_the_same() {
    let toml = read_toml(TOML).unwrap();
    assert_eq!(read_as(Format::Yaml, YAML), Ok(toml.clone()));
    assert_eq!(read_as(Format::Json, JSON), Ok(toml));
}

/// Texts in YAML that are refused, and words of what is said of them.
const YAML_FAULTS: &[(&str, &str)] = &[
    (
        "replica: 3",
        "line 3, column 1: unknown field `replica`; did you mean `replicas`?",
    ),
    (
        "stop:\n  grace: 10",
        "line 4, column 10: `stop.grace`: `10` is not a duration",
    ),
    (
        "env:\n  é: \"x\"\n  A: 1",
        "line 5, column 6: `env.A`: a text in quotes is wanted here, not a whole number",
    ),
    (
        "env: {A: true}",
        "`env.A`: a text in quotes is wanted here, not true or false",
    ),
    (
        "replicas: yes",
        "a whole number from 0 to 100000 is wanted here, not a text",
    ),
    (
        "replicas: 0o17777777",
        "`replicas`: 17777777 is not a whole number",
    ),
    (
        "cwd:",
        "`cwd`: a text in quotes is wanted here, not null; leave the field out",
    ),
    ("ports: x", "`ports`: a list is wanted here, not a text"),
    (
        "name: again",
        "line 3, column 1: not valid YAML: duplicate key `name`",
    ),
    (
        "'name': again",
        "line 3, column 1: not valid YAML: duplicate key `name`",
    ),
    (
        "---\nname: two",
        "line 3, column 1: a second document begins",
    ),
    (
        "user: !!str 5",
        "line 3, column 7: tags, which begin with `!`, are not allowed",
    ),
    ("env: !secret {A: b}", "line 3, column 6: tags"),
    (
        "env:\n  <<: {A: b}",
        "line 4, column 3: merge keys (`<<`) are not allowed",
    ),
    (
        "? [a, b]\n: 1",
        "the name of a field is a text, not a list or a table",
    ),
    ("user: *who", "line 3, column 7: not valid YAML: "),
    (
        "user: &a [*a]",
        "this alias names something that it is a part of",
    ),
    ("replicas: [1", "not valid YAML: "),
    ("\tuser: x", "line 3, column "),
];

#[test]
fn what_is_wrong_in_yaml_has_its_place() {
    for (lines, wanted) in YAML_FAULTS {
        let text = format!("name: web\ncommand: [sleep, '1']\n{lines}\n");
        let said = read_as(Format::Yaml, &text).expect_err(lines);
        assert!(said.starts_with("file.yml: line "), "{said}");
        assert!(
            said.contains(wanted),
            "for {lines:?}\nwanted {wanted}\ngot    {said}"
        );
    }
}

#[test]
fn aliases_stand_for_what_their_anchors_name() {
    let text = "name: web\ncommand: &c [check, &n now]\nprobes:\n  readiness: &p\n    exec:\n      \
                command: *c\n  startup: *p\nlabels:\n  when: *n\n";
    let file = read_as(Format::Yaml, text).unwrap();
    let probes = file.probes.unwrap();
    assert_eq!(probes.startup, probes.readiness);
    assert_eq!(file.labels.unwrap()["when"], "now");
}

#[test]
fn yaml_cannot_unfold_or_nest_without_end() {
    // Each line names the one before nine times.
    let mut bomb = "a0: &a0 [lol, lol]\n".to_owned();
    for level in 1..20 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    let said = read_as(Format::Yaml, &bomb).unwrap_err();
    assert!(
        said.contains("unfolds to more than 8388608 bytes here"),
        "{said}"
    );
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(500_000),
        "*a,".repeat(1000)
    );
    let said = read_as(Format::Yaml, &long).unwrap_err();
    assert!(said.contains("unfolds to more than"), "{said}");
    for deep in [
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
    ] {
        assert!(read_as(Format::Yaml, &deep).is_err());
    }
    let chain: String = (1..200)
        .map(|level| format!("a{level}: &a{level} [*a{}]\n", level - 1))
        .collect();
    let said = read_as(Format::Yaml, &format!("a0: &a0 x\n{chain}")).unwrap_err();
    assert!(said.contains("nest deeper than 64"), "{said}");
}

/// Texts in JSON that are refused, and words of what is said of them.
const JSON_FAULTS: &[(&str, &str)] = &[
    (
        "{\"name\": \"w\", \"command\": [\"x\"],\n \"replica\": 1}",
        "line 2, column 2: unknown field `replica`; did you mean `replicas`?",
    ),
    (
        "{\"name\": \"é\", \"command\": [\"x\"]}",
        "line 1, column 10: `name`: service `",
    ),
    (
        "{\"name\": \"w\", \"command\": [\"x\"], \"env\": {\"A\":  1}}",
        "line 1, column 47: `env.A`: a text in quotes is wanted here, not a whole number",
    ),
    (
        "{\"name\": \"w\", \"name\": \"w\"}",
        "line 1, column 15: not valid JSON: duplicate key `name`",
    ),
    (
        "{\"name\": \"w\",}",
        "line 1, column 14: not valid JSON: trailing comma",
    ),
    (
        "{\"name\": 'w'}",
        "line 1, column 10: not valid JSON: expected value",
    ),
    (
        "{name: \"w\"}",
        "line 1, column 2: not valid JSON: key must be a string",
    ),
    ("{\"a\": 01}", "not valid JSON: "),
    ("{} {}", "not valid JSON: trailing characters"),
    ("", "not valid JSON: EOF while parsing"),
    (
        "[1]",
        "line 1, column 1: fields with names are wanted here, not a list",
    ),
    (
        "{\"name\": \"\\ud800\"}",
        "line 1, column 17: not valid JSON: ",
    ),
];

#[test]
fn what_is_wrong_in_json_has_its_place() {
    for (text, wanted) in JSON_FAULTS {
        let said = read_as(Format::Json, text).expect_err(text);
        assert!(
            said.contains(wanted),
            "for {text:?}\nwanted {wanted}\ngot    {said}"
        );
    }
    for (depth, wanted) in [(64, "nest deeper than 64"), (100_000, "recursion limit")] {
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        let said = read_as(Format::Json, &format!("{{\"a\": {deep}}}")).unwrap_err();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn an_ending_or_the_user_says_the_format_and_else_it_is_guessed() {
    let format = |file: &str, text: &str| Document::new(file, text, None).format;
    assert_eq!(format("a.d/x.YAML", "{"), Format::Yaml);
    assert_eq!(format("x.json", ""), Format::Json);
    assert_eq!(format("stdin", " {}"), Format::Json);
    assert_eq!(format("yaml", "a: b"), Format::Toml);
    assert_eq!(format("web.conf", "a = 1"), Format::Toml);
    assert_eq!(
        Document::new("x.toml", "", Some(Format::Yaml)).format,
        Format::Yaml
    );
    let guessed = Document::new("stdin", "name: web\n", None);
    let said = read_service(&guessed, &|_| true).unwrap_err().to_string();
    assert!(
        said.starts_with("stdin: read as TOML, since neither an ending"),
        "{said}"
    );
    assert!(said.contains("--format"), "{said}");
}

#[test]
fn an_empty_text_is_an_empty_table() {
    for format in [Format::Toml, Format::Yaml] {
        for text in ["", "\n# nothing\n"] {
            let said = read_as(format, text).unwrap_err();
            assert!(said.contains("`name` is missing"), "{said}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,200}", lines in "([-a-c:&*!<>|'\"\\[\\]{},#? \n\t]|name|0x|~){0,60}") {
        for format in [Format::Yaml, Format::Json] {
            let _ = read_as(format, &text);
            let _ = read_as(format, &lines);
        }
    }

    #[test]
    fn what_serde_writes_as_json_is_read_as_it_was(names in proptest::collection::vec(("[a-z]{1,8}", "\\PC{0,20}"), 0..8)) {
        let table: serde_json::Map<String, serde_json::Value> = names
            .iter()
            .map(|(name, text)| (name.clone(), text.as_str().into()))
            .collect();
        let value = serde_json::json!({"name": "w", "command": ["x"], "env": table});
        let env = |text: &str, format| read_as(format, text).map(|file| file.env);
        let json = env(&value.to_string(), Format::Json);
        prop_assert!(json.is_ok(), "{json:?}");
        prop_assert_eq!(&json, &env(&format!("{value:#}"), Format::Json));
        // JSON is YAML, but for characters that YAML does not allow.
        if let Ok(yaml) = env(&value.to_string(), Format::Yaml) {
            prop_assert_eq!(json, Ok(yaml));
        }
        let yaml = serde_saphyr::to_string(&value).unwrap();
        prop_assert_eq!(env(&yaml, Format::Yaml), env(&value.to_string(), Format::Json));
    }
}
