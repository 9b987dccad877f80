//! Every wrong service file names its line and says what is allowed.

use proptest::prelude::*;

use super::formats::read_toml;

/// A file whose third line and what follows is the tested text.
fn fault(lines: &str) -> String {
    let text = format!("name = \"web\"\ncommand = [\"sleep\", \"1\"]\n{lines}\n");
    read_toml(&text).expect_err("the file has a fault")
}

/// Lines of a wrong file, and words of what is said of it.
const FAULTS: &[(&str, &str)] = &[
    (
        "replica = 3",
        "line 3, column 1: unknown field `replica`; did you mean `replicas`? (allowed: name, replicas, ",
    ),
    (
        "[rollout]\nsurge = 1",
        "line 4, column 1: unknown field `surge` in `rollout` (allowed: max_surge, max_unavailable, min_ready, progress_deadline, on_stuck, history_limit)",
    ),
    (
        "[probes.readyness]\nexec = { command = [\"x\"] }",
        "line 3, column 9: unknown field `readyness` in `probes`; did you mean `readiness`? (allowed: startup, readiness, liveness)",
    ),
    (
        "[stop]\ngrace = \"10 parsecs\"",
        "line 4, column 9: `stop.grace`: `10 parsecs` is not a duration: a number with a unit, such as 500ms, 10s",
    ),
    (
        "[stop]\ngrace = 10",
        "line 4, column 9: `stop.grace`: `10` is not a duration: a number with a unit",
    ),
    (
        "[resources]\nmemory = \"512 bananas\"",
        "line 4, column 10: `resources.memory`: `512 bananas` is not a size: a number with a unit, such as 64KiB, 512MiB",
    ),
    (
        "[resources]\nmemory = 512",
        "line 4, column 10: `resources.memory`: `512` is not a size",
    ),
    ("[resources]\nmemory = \"1KiB\"", "the least is 2MiB"),
    (
        "[resources]\ncpus = 0",
        "line 4, column 8: `resources.cpus`: `0` is not a number of processors from 0.001",
    ),
    (
        "replicas = 1000000",
        "line 3, column 12: `replicas`: 1000000 is not a whole number from 0 to 100000",
    ),
    (
        "replicas = -1",
        "`replicas`: -1 is not a whole number from 0 to 100000",
    ),
    (
        "replicas = \"3\"",
        "`replicas`: a whole number from 0 to 100000 is wanted here, not a text",
    ),
    (
        "cwd = \"srv/www\"",
        "line 3, column 7: `cwd`: `srv/www` is relative; only an absolute path",
    ),
    (
        "[[ports]]\nname = \"http\"\nport = 65536",
        "line 5, column 8: `ports[0].port`: 65536 is not a whole number from 1 to 65535",
    ),
    (
        "[[ports]]\nname = \"http\"\nport = 0",
        "0 is not a whole number from 1 to 65535",
    ),
    ("[[ports]]\nport = 80", "`ports[0]`: `name` is missing"),
    (
        "[[ports]]\nname = \"http\"\n[[ports]]\nname = \"http\"",
        "line 6, column 8: `ports[1].name`: there are two ports `http`",
    ),
    (
        "[[ports]]\nname = \"a\"\nport = 80\n[[ports]]\nname = \"b\"\nport = 80",
        "line 8, column 8: `ports[1].port`: two ports of one replica have the same number",
    ),
    (
        "[probes.readiness]\nhttp = { path = \"/\" }",
        "line 4, column 8: `probes.readiness.http`: `port` is missing: no [[ports]] are declared",
    ),
    (
        "[[ports]]\nname = \"http\"\n[probes.readiness]\nhttp = { port = \"htpp\" }",
        "line 6, column 17: `probes.readiness.http.port`: there is no port `htpp`; did you mean `http`? (declared ports: http; or a number",
    ),
    (
        "[[ports]]\nname = \"http\"\n[probes.readiness]\nhttp = { port = \"http\", path = \"ready\" }",
        "`probes.readiness.http.path`: a path begins with `/`",
    ),
    (
        "[probes.readiness]\nperiod = \"1s\"",
        "line 3, column 1: `probes.readiness`: a probe needs one of http, tcp, exec, grpc",
    ),
    (
        "[probes.readiness]\ntcp = { port = 1 }\nexec = { command = [\"x\"] }",
        "`probes.readiness`: a probe has only one of http, tcp, exec, grpc, not 2",
    ),
    (
        "[probes.liveness]\ntcp = { port = 1 }\nsuccess_threshold = 2",
        "`probes.liveness.success_threshold`: 2 is not a whole number from 1 to 1",
    ),
    (
        "[probes.liveness]\ntcp = { port = 1 }\nperiod = \"1ms\"",
        "`probes.liveness.period`: 1ms is too short, the least is 10ms",
    ),
    (
        "[[ports]]\nname = \"80\"",
        "`ports[0].name`: a port's name has a letter, or a probe could not tell it from a number",
    ),
    (
        "[[ports]]\nname = \"80\"\n[[ports]]\nname = \"http\"\n[probes.startup]\ntcp = { port = \"80\" }",
        "`ports[0].name`",
    ),
    (
        "[probes.startup]\ntcp = { port = \"80\" }",
        "`probes.startup.tcp.port`: there is no port `80` (no [[ports]] are declared; a number",
    ),
    (
        "[probes.readiness]\ngrpc = { port = 1, service = \"a\\nb\" }",
        "`probes.readiness.grpc.service`: a service's name has at most 128 bytes",
    ),
    (
        "[probes.readiness]\nhttp = { port = 1, status_min = 400 }",
        "`probes.readiness.http`: status_min 400 is above status_max 399",
    ),
    (
        "[replacement]\ndelay = \"6m\"",
        "`replacement`: delay 6m is above delay_max 5m",
    ),
    (
        "[restart]\nmode = \"allways\"",
        "line 4, column 8: `restart.mode`: `allways` is not one of never, on_failure, always; did you mean `always`?",
    ),
    (
        "[restart]\ndelay = \"2m\"",
        "`restart`: delay 2m is above delay_max 1m",
    ),
    (
        "[stop]\nsignal = \"NOPE\"",
        "`stop.signal`: `NOPE` is not a signal, such as TERM, INT, QUIT, USR1 or 15",
    ),
    (
        "[stop]\nsignal = 65",
        "`stop.signal`: 65 is not a whole number from 1 to 64",
    ),
    (
        "[rollout]\nmax_surge = 0\nmax_unavailable = \"0%\"",
        "line 3, column 1: `rollout`: max_surge and max_unavailable are both 0",
    ),
    (
        "[rollout]\nmax_surge = \"25\"",
        "`rollout.max_surge`: `25` is neither a number of replicas nor a share from \"0%\" to \"100%\"",
    ),
    (
        "[rollout]\nmax_surge = \"101%\"",
        "`rollout.max_surge`: `101%` is neither",
    ),
    (
        "[rollout]\nmin_ready = \"10m\"",
        "`rollout`: progress_deadline 10m must be longer than min_ready 10m",
    ),
    (
        "[spread]\nmax_per_host = 0",
        "`spread.max_per_host`: 0 is not a whole number from 1 to",
    ),
    (
        "user = \"nobody-here\"",
        "`user`: there is no user `nobody-here` on this machine",
    ),
    (
        "run_limit = \"0\"",
        "`run_limit`: a limit of 0 would let nothing run",
    ),
    (
        "[env]\n\"A B\" = \"x\"",
        "line 4, column 9: `env.A B`: `A B` is not a name of a variable: letters, digits and `_`",
    ),
    (
        "[env]\nXCE_JOB = \"1\"",
        "`XCE_JOB` cannot be set: names beginning with XCE_ belong to the worker",
    ),
    (
        "[env]\nA = 1",
        "`env.A`: a text in quotes is wanted here, not a whole number",
    ),
    (
        "queue = \"Fast Lane\"",
        "`queue`: queue `Fast Lane` is not a name: allowed are a-z, 0-9",
    ),
    ("[labels]\n\"Team\" = \"x\"", "label `Team` is not a name"),
    (
        "name = \"again\"",
        "line 3, column 1: not valid TOML: duplicate key",
    ),
    ("replicas = ", "line 3, column "),
];

#[test]
fn each_fault_is_named_with_its_line_and_what_is_allowed() {
    for (lines, wanted) in FAULTS {
        let text = fault(lines);
        assert!(text.starts_with("file.toml: "), "{text}");
        assert!(
            text.contains(wanted),
            "for {lines:?}\nwanted {wanted}\ngot    {text}"
        );
    }
}

#[test]
fn a_file_must_name_the_service_and_its_command() {
    let text = read_toml("replicas = 1\n").unwrap_err();
    assert!(text.contains("`name` is missing"), "{text}");
    assert!(
        text.contains("`command` is missing: a list with the program"),
        "{text}"
    );
    for (command, wanted) in [
        ("[]", "the command is empty"),
        ("[\"\"]", "the command is empty"),
        (
            "\"sleep 1\"",
            "a list in brackets is wanted here, not a text",
        ),
        ("[\"a\\u0000\"]", "NUL"),
    ] {
        let text = read_toml(&format!("name = \"web\"\ncommand = {command}\n")).unwrap_err();
        assert!(
            text.contains("line 2, column 11: `command`") && text.contains(wanted),
            "{text}"
        );
    }
}

#[test]
fn strange_and_huge_names_are_refused_in_short_and_printable_words() {
    for name in ["a\\nb", "", "Web", "-a", &"a".repeat(10_000), "\\u001b[2J"] {
        let text = format!("name = \"{name}\"\ncommand = [\"x\"]\n");
        let message = read_toml(&text).unwrap_err();
        assert!(
            message.contains("line 1, column 8: `name`: service `"),
            "{message}"
        );
        assert!(message.len() < 300, "{} bytes", message.len());
        assert!(!message.contains(['\n', '\u{1b}']), "{message:?}");
    }
    let unknown = format!("{} = 1", "x".repeat(10_000));
    assert!(fault(&unknown).len() < 600);
}

#[test]
fn sizes_are_bounded() {
    let variable = |bytes: usize| format!("[env]\nA = \"{}\"", "x".repeat(bytes));
    let text = fault(&variable(300_000));
    assert!(text.contains("the environment has 300"), "{text}");
    assert!(text.contains("at most 262144 are allowed"), "{text}");
    let text = fault(&variable(10_000_000));
    assert!(
        text.contains("more than the 1048576 bytes that are allowed"),
        "{text}"
    );
    let text = read_toml(&format!(
        "name = \"w\"\ncommand = [\"{}\"]\n",
        "x".repeat(70_000)
    ))
    .unwrap_err();
    assert!(
        text.contains("the command has 70001 bytes, at most 65536 are allowed"),
        "{text}"
    );
    let ports: String = (0..65)
        .map(|number| format!("[[ports]]\nname = \"p{number}\"\n"))
        .collect();
    assert!(fault(&ports).contains("65 ports, at most 64 are allowed"));
}

#[test]
fn all_faults_are_reported_together_in_the_order_of_lines() {
    let text =
        fault("replicas = -1\ncwd = \"x\"\ncolour = \"red\"\n[stop]\ngrace = 1\nsignal = 99");
    let lines: Vec<&str> = text.lines().collect();
    let wanted = ["line 3,", "line 4,", "line 5,", "line 7,", "line 8,"];
    assert_eq!(lines.len(), wanted.len(), "{text}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.contains(wanted), "{text}");
    }
}

#[test]
fn many_faults_are_cut_off() {
    let many: String = (0..1000).map(|number| format!("x{number} = 1\n")).collect();
    let text = fault(&many);
    assert_eq!(text.lines().count(), 21, "{text}");
    assert!(text.ends_with("and 980 more"), "{text}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = read_toml(&text);
    }

    #[test]
    fn no_value_makes_the_reader_panic(
        field in proptest::sample::select(crate::service::FIELDS),
        value in proptest::sample::select(&[
            "1", "-1", "1.5", "nan", "\"\"", "\"é\"", "[]", "[[]]", "{}", "{ a = 1 }", "true",
            "1979-05-27", "[{}]", "\"99999999999999999999s\"", "99999999999999999999",
        ][..]),
    ) {
        let _ = read_toml(&format!("{field} = {value}\n"));
    }
}
