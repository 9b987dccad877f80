//! Options of a job to its specification.

use clap::Parser;
use xce_model::spec::{
    ArraySpec, JobSpec, Probes, Resources, RestartMode, StopPolicy, Template, User,
};
use xce_model::{Bytes, MilliCpu, Millis};
use xce_profile::defaults::{self, Account};
use xce_profile::layers::{self, Between};
use xce_profile::{Purpose, resolve};

use crate::cli::arguments::{Arguments, Noun};
use crate::cli::jobs::Verb;
use crate::cli::submit::{Caller, array, job_file};

fn account() -> Account {
    Account {
        user: User {
            name: "ada".to_owned(),
            uid: 1000,
            gid: 1001,
        },
        home: "/home/ada".to_owned(),
        shell: "/bin/bash".to_owned(),
    }
}

fn spec_with_file(words: &[&str], file: &str) -> Result<JobSpec, String> {
    let all = ["xcecli", "jobs", "submit"].iter().chain(words);
    let arguments = Arguments::try_parse_from(all).map_err(|error| error.to_string())?;
    let Noun::Jobs(Verb::Submit(options)) = arguments.noun else {
        panic!("no submit")
    };
    let variable = |name: &str| match name {
        "PATH" => Some("/bin".to_owned()),
        "LANG" => Some("C.UTF-8".to_owned()),
        "SECRET" => Some("s".to_owned()),
        _ => None,
    };
    let caller = Caller {
        account: account(),
        directory: Some("/work".to_owned()),
        variable: &variable,
    };
    let (mut file, run_as) = job_file(&options, &arguments.global, &caller, file)?;
    file.project = Some(arguments.global.project().to_owned());
    let leaves = layers::job(&run_as, Between::default(), &file);
    resolve::job(&leaves, &run_as.user, Purpose::Create)
        .map_err(|problems| xce_profile::refusal(&problems).text)
}

fn spec(words: &[&str]) -> Result<JobSpec, String> {
    spec_with_file(words, "")
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_command_alone_gets_every_default() {
    let wanted = JobSpec {
        name: "sleep".to_owned(),
        project: "default".to_owned(),
        queue: "default".to_owned(),
        template: Template {
            command: vec!["/bin/sleep".to_owned(), "5".to_owned()],
            env: pairs(&[
                ("HOME", "/home/ada"),
                ("LANG", "C.UTF-8"),
                ("LOGNAME", "ada"),
                ("PATH", "/bin"),
                ("SHELL", "/bin/bash"),
                ("USER", "ada"),
            ]),
            cwd: Some("/work".to_owned()),
            user: account().user,
            resources: Resources {
                cpus: MilliCpu(1000),
                memory: Bytes(256 << 20),
            },
            ports: Vec::new(),
            probes: Probes::default(),
            restart: defaults::restart(RestartMode::Never),
            stop: StopPolicy {
                drain: Millis(0),
                signal: 15,
                grace: Millis(30_000),
            },
            run_limit: None,
            constraints: Vec::new(),
            single_copy: xce_model::spec::SingleCopy::None,
        },
        array: None,
        held: false,
        rerunnable: false,
    };
    assert_eq!(spec(&["--", "/bin/sleep", "5"]), Ok(wanted));
}

#[test]
fn every_option_arrives() {
    let words = [
        "-n",
        "sim[1-100]%10",
        "-c",
        "0.5",
        "-m",
        "64MiB",
        "-e",
        "A=b=c",
        "-e",
        "SECRET",
        "--cwd",
        "/data",
        "-t",
        "90s",
        "-q",
        "fast",
        "--project",
        "lab",
        "--constraint",
        "zone=a",
        "--hold",
        "--rerunnable",
        "--",
        "run",
    ];
    let spec = spec_with_file(&words, "# comment\n\nA=file\nB=x \n").unwrap();
    assert_eq!(
        (
            spec.name.as_str(),
            spec.project.as_str(),
            spec.queue.as_str()
        ),
        ("sim", "lab", "fast")
    );
    assert_eq!(
        spec.array,
        Some(ArraySpec {
            ranges: vec![(1, 100)],
            slot_limit: Some(10)
        })
    );
    assert!(spec.held && spec.rerunnable);
    let template = spec.template;
    assert_eq!(
        template.resources,
        Resources {
            cpus: MilliCpu(500),
            memory: Bytes(64 << 20)
        }
    );
    assert_eq!(template.cwd.as_deref(), Some("/data"));
    assert_eq!(template.run_limit, Some(Millis(90_000)));
    assert_eq!(template.constraints, pairs(&[("zone", "a")]));
    let value = |name: &str| {
        template
            .env
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(
        (value("A"), value("B"), value("SECRET")),
        (Some("b=c"), Some("x"), Some("s"))
    );
}

#[test]
fn a_program_gives_its_job_a_name() {
    for (program, name) in [
        ("/usr/bin/Python3.11", "python3.11"),
        ("./my job.sh", "my-job.sh"),
        ("../..", "job"),
        ("été", "t-"),
        ("-x", "x"),
        ("/", "job"),
    ] {
        assert_eq!(
            spec(&["--", program]).map(|spec| spec.name),
            Ok(name.to_owned()),
            "{program}"
        );
    }
}

#[test]
fn wrong_options_are_named() {
    let long = "x".repeat(70_000);
    let huge = format!("A={}", "x".repeat(300_000));
    for (words, wanted) in [
        (&["--", ""][..], "the command is empty"),
        (&["--", &long][..], "at most 65536 are allowed"),
        (&["-n", "A B", "x"][..], "job `A B` is not a name"),
        (&["-n", "a\nb", "x"][..], "job `a\\nb` is not a name"),
        (&["-n", "a[1-3", "x"][..], "`a[1-3` has no `]`"),
        (&["-n", "a[1-3]x", "x"][..], "goes on after `]`"),
        (
            &["-n", "a[1-3]", "--array", "1-3", "x"][..],
            "both in the name and by --array",
        ),
        (&["-q", "Q", "x"][..], "queue `Q` is not a name"),
        (&["--project", "P", "x"][..], "project `P` is not a name"),
        (&["-m", "1MiB", "x"][..], "the least is 2MiB"),
        (&["--cwd", "here", "x"][..], "`here` is relative"),
        (&["-t", "0", "x"][..], "a time limit of 0"),
        (&["-e", "1A=x", "x"][..], "`1A` is not a name of a variable"),
        (
            &["-e", "NOT_SET", "x"][..],
            "there is no such variable here",
        ),
        (&["-e", "XCE_RUN=1", "x"][..], "names beginning with XCE_"),
        (&["-e", &huge, "x"][..], "at most 262144 are allowed"),
        (&["--constraint", "zone", "x"][..], "NAME=VALUE"),
    ] {
        let error = spec(words).expect_err(wanted);
        assert!(error.contains(wanted), "wanted {wanted}, got {error}");
    }
    let error = spec_with_file(&["x"], "A=1\nB\n").unwrap_err();
    assert_eq!(error, "environment file, line 2: no `=` in it");
}

#[test]
fn elements_of_arrays() {
    let good = |text: &str, ranges: &[(u32, u32)], slot_limit| {
        assert_eq!(
            array(text),
            Ok(ArraySpec {
                ranges: ranges.to_vec(),
                slot_limit
            }),
            "{text}"
        );
    };
    good("1-100%10", &[(1, 100)], Some(10));
    good("7", &[(7, 7)], None);
    good("9,1-5, 3-6", &[(1, 6), (9, 9)], None);
    good("1-2,3-4", &[(1, 4)], None);
    good("0-99999", &[(0, 99_999)], None);
    for text in [
        "",
        "a",
        "5-1",
        "1-",
        "-1",
        "1--2",
        "1-2%",
        "1-2%0",
        "1-2%x",
        "1,,2",
        "4294967295",
        "1-4294967295",
        "0-100000",
        "99999999999",
    ] {
        assert!(array(text).is_err(), "{text}");
    }
}
