//! What is started, as whom, where, with what; and why something is not started.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use xce_shim::{
    Event, HostFaultKind, JobFaultKind, LaunchFailure, Outcome, Output, RunState, Spec, User,
    inspect,
};

use crate::harness::{next_event, prepare, program, shell, start, start_in};

fn job_fault(spec: Spec) -> (JobFaultKind, String) {
    match start(spec).end().outcome {
        Outcome::NotLaunched(LaunchFailure::Job(fault)) => (fault.kind, fault.text),
        other => panic!("expected a fault of the job, got {other:?}"),
    }
}

fn host_fault(spec: Spec) -> (HostFaultKind, String) {
    match start(spec).end().outcome {
        Outcome::NotLaunched(LaunchFailure::Host(fault)) => (fault.kind, fault.text),
        other => panic!("expected a fault of the host, got {other:?}"),
    }
}

#[test]
fn codes_and_signals_come_back() {
    for code in [0, 1, 7, 126, 127, 255] {
        let exit = start(shell(&format!("exit {code}"))).end();
        assert_eq!((exit.outcome, exit.cause), (Outcome::Code(code), None));
    }
    for signal in [6, 9, 11, 15] {
        let exit = start(shell(&format!("kill -{signal} $$"))).end();
        assert_eq!((exit.outcome, exit.cause), (Outcome::Signal(signal), None));
    }
}

#[test]
fn faults_of_the_job_are_told_apart() {
    let (kind, text) = job_fault(program(&["no-such-program-here"]));
    assert_eq!(kind, JobFaultKind::CommandNotFound, "{text}");
    assert!(text.contains("no-such-program-here"), "{text}");
    assert_eq!(
        job_fault(program(&["/no/such/program"])).0,
        JobFaultKind::CommandNotFound
    );
    assert_eq!(
        job_fault(program(&["/etc/passwd"])).0,
        JobFaultKind::NotExecutable
    );
    assert_eq!(job_fault(program(&["/usr"])).0, JobFaultKind::NotExecutable);
    assert_eq!(job_fault(program(&[""])).0, JobFaultKind::Spec);
    let mut spec = shell("true");
    spec.work_dir = "/no/such/directory".to_owned();
    let (kind, text) = job_fault(spec);
    assert_eq!(kind, JobFaultKind::WorkDir);
    assert!(text.contains("/no/such/directory"), "{text}");
    let mut spec = shell("true");
    spec.stdout = Output::File("/no/such/directory/out".to_owned());
    assert_eq!(job_fault(spec).0, JobFaultKind::Output);
    let mut spec = shell("true");
    spec.argv.push("x".repeat(3_000_000));
    assert_eq!(job_fault(spec).0, JobFaultKind::TooLong);
}

#[test]
fn a_missing_interpreter_is_not_a_missing_command() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let (kind, text) = job_fault(program(&[path.to_str().unwrap()]));
    assert_eq!(kind, JobFaultKind::NotExecutable, "{text}");
}

#[test]
fn a_pipe_without_a_reader_holds_up_nobody() {
    let (_keep, dir) = prepare();
    let mut spec = shell("true");
    spec.stdout = Output::File(dir.join("up").to_str().unwrap().to_owned());
    assert_eq!(job_fault(spec).0, JobFaultKind::Output);
}

#[test]
fn faults_of_the_host_are_told_apart() {
    let mut spec = shell("true");
    spec.user = Some(User::Name("no-such-user-here".to_owned()));
    assert_eq!(host_fault(spec).0, HostFaultKind::UserUnknown);
    let mut spec = shell("true");
    spec.cgroup_required = true;
    assert_eq!(host_fault(spec).0, HostFaultKind::NoCgroup);
    let mut spec = shell("true");
    spec.stdout = Output::Spool("x".repeat(300));
    assert_eq!(host_fault(spec).0, HostFaultKind::Spool);
}

#[test]
fn a_spec_that_cannot_be_read_is_the_hosts_fault() {
    for text in [
        None,
        Some(""),
        Some("{"),
        Some("{\"version\":99}"),
        Some("\u{0}\u{0}"),
    ] {
        let (_keep, dir) = prepare();
        if let Some(text) = text {
            fs::write(dir.join("spec"), text).unwrap();
        }
        let (mut child, mut said) = start_in(&dir);
        let Some(Event::Exit(exit)) = next_event(&mut said) else {
            panic!("no exit for {text:?}");
        };
        assert!(child.wait().unwrap().success());
        let Outcome::NotLaunched(LaunchFailure::Host(fault)) = &exit.outcome else {
            panic!("{exit:?}");
        };
        assert_eq!(fault.kind, HostFaultKind::SpecUnreadable);
        assert_eq!(inspect(&dir).unwrap(), RunState::Exited(exit));
    }
}

#[test]
fn a_thousand_variables_arrive_exactly() {
    let mut spec = program(&["/usr/bin/env"]);
    spec.env.clear();
    for number in 0..1_000 {
        spec.env
            .push((format!("V{number}"), format!("value {number} ü'\"$x")));
    }
    spec.stdout = Output::Spool("out".to_owned());
    let mut expected: BTreeSet<String> = spec
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut run = start(spec);
    assert_eq!(run.end().outcome, Outcome::Code(0));
    expected.insert(format!("D={}", run.dir.display()));
    let out = fs::read_to_string(run.dir.join("out")).unwrap();
    assert_eq!(
        out.lines().map(str::to_owned).collect::<BTreeSet<_>>(),
        expected
    );
}

#[test]
fn outputs_go_where_they_were_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = shell("echo out; echo err >&2; pwd; umask; cat");
    spec.work_dir = dir.path().to_str().unwrap().to_owned();
    spec.umask = Some(0o027);
    spec.stdout = Output::File("both".to_owned());
    spec.stderr = Output::Stdout;
    assert_eq!(start(spec.clone()).end().outcome, Outcome::Code(0));
    let path = dir.path().join("both");
    let once = format!("out\nerr\n{}\n0027\n", dir.path().display());
    assert_eq!(fs::read_to_string(&path).unwrap(), once);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    start(spec).end();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{once}{once}"),
        "appended"
    );

    let mut spec = shell("echo out; echo err >&2");
    spec.stdout = Output::Spool("o".to_owned());
    spec.stderr = Output::Spool("e".to_owned());
    let mut run = start(spec);
    run.end();
    assert_eq!(fs::read_to_string(run.dir.join("o")).unwrap(), "out\n");
    assert_eq!(fs::read_to_string(run.dir.join("e")).unwrap(), "err\n");
}

#[test]
fn the_job_gets_no_file_signal_or_session_of_the_shim() {
    let script = "ls /proc/self/fd | tr '\\n' ' '; echo; \
        sed -n 's/^Sig[BI]..:.//p' /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$";
    let mut spec = shell(script);
    spec.stdout = Output::Spool("out".to_owned());
    let mut run = start(spec);
    run.end();
    let out = fs::read_to_string(run.dir.join("out")).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    // The fourth one is that of the listing itself.
    assert_eq!(lines[0], "0 1 2 3 ", "{out}");
    for mask in &lines[1..3] {
        // The signals that have names; what starts the tests may ignore others.
        assert_eq!(
            u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff,
            0,
            "{out}"
        );
    }
    assert_eq!(lines[3], lines[4], "leader of its own session");
}

#[test]
fn root_runs_a_job_as_somebody_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut spec = shell("id -u; id -g; id -G; echo x > /proc/self/cwd/not-allowed || echo no");
    spec.user = Some(User::Ids {
        uid: 12_345,
        gid: 23_456,
        groups: vec![34_567, 23_456],
    });
    spec.stdout = Output::Spool("out".to_owned());
    let mut run = start(spec);
    let exit = run.end();
    assert_eq!(exit.outcome, Outcome::Code(0));
    let out = fs::read_to_string(run.dir.join("out")).unwrap();
    assert_eq!(out, "12345\n23456\n23456 34567\nno\n");

    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut spec = shell("true");
    spec.user = Some(User::Ids {
        uid: 12_345,
        gid: 23_456,
        groups: vec![],
    });
    spec.work_dir = closed.path().to_str().unwrap().to_owned();
    assert_eq!(job_fault(spec.clone()).0, JobFaultKind::WorkDir);
    spec.work_dir = "/".to_owned();
    spec.stdout = Output::File(closed.path().join("out").to_str().unwrap().to_owned());
    assert_eq!(
        job_fault(spec).0,
        JobFaultKind::Output,
        "opened as the user"
    );
}

#[test]
fn long_paths_work() {
    let temporary = tempfile::tempdir().unwrap();
    let mut dir = temporary.path().to_path_buf();
    for _ in 0..8 {
        dir.push("a-directory-with-a-rather-long-name-to-get-far-beyond-the-bound");
    }
    fs::create_dir_all(&dir).unwrap();
    let (_pipes, pipes) = prepare();
    let script = format!("echo up > {0}/up; read x < {0}/go; exit 4", pipes.display());
    shell(&script).store(&dir).unwrap();
    let (mut child, _said) = start_in(&dir);
    fs::read_to_string(pipes.join("up")).unwrap();
    let mut control = xce_shim::Control::connect(&dir).unwrap();
    assert!(matches!(
        control.next_event().unwrap(),
        Some(Event::Started(_))
    ));
    fs::write(pipes.join("go"), "go\n").unwrap();
    let Some(Event::Exit(exit)) = control.next_event().unwrap() else {
        panic!("no exit");
    };
    assert_eq!(exit.outcome, Outcome::Code(4));
    assert!(child.wait().unwrap().success());
}

#[test]
fn two_hundred_short_jobs_at_once_all_leave_a_record() {
    let mut runs: Vec<_> = (0..200)
        .map(|number| start(shell(&format!("exit {number}"))))
        .collect();
    for (number, run) in runs.iter_mut().enumerate() {
        assert_eq!(
            run.end().outcome,
            Outcome::Code(i32::try_from(number).unwrap())
        );
    }
}
