//! From a spec to a running first process, or to the exact reason why not.

use std::ffi::CString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use xce_shim::cgroup::Cgroup;
use xce_shim::machine;
use xce_shim::record::RECORD_VERSION;
use xce_shim::{
    HostFaultKind, JobFaultKind, LaunchFailure, Output, ProcessId, RunRecord, Spec, User,
};

use crate::child::{self, ChildPlan, Credentials, Step};
use crate::outputs::{self, RotatedFile};

/// A running job.
pub struct Launched {
    /// What the run record says.
    pub run: RunRecord,
    /// Its control groups.
    pub cgroup: Option<Cgroup>,
    /// Its output files that are rotated.
    pub rotated: Vec<RotatedFile>,
}

/// Starts the job.
///
/// # Errors
/// Whose fault it is, of which kind, and a text.
pub fn launch(spec: &Spec, run_dir: &Path) -> Result<Launched, LaunchFailure> {
    let checked = spec.check();
    checked.map_err(|fault| LaunchFailure::job(JobFaultKind::Spec, &fault.to_string()))?;
    let credentials = resolve(spec.user.as_ref())?;
    let boot_id =
        machine::boot_id().map_err(|error| host(HostFaultKind::Other, "boot id", &error))?;
    let mut not_enforced = Vec::new();
    let cgroup = make_cgroup(spec, &mut not_enforced)?;
    match start(spec, run_dir, cgroup.as_ref(), credentials) {
        Ok((job, rotated)) => {
            if spec.output_bytes_max.is_some() && has_own_file(spec) {
                not_enforced.push("output_rotation".to_owned());
            }
            let run = run_record(spec, boot_id, job, cgroup.as_ref(), not_enforced);
            Ok(Launched {
                run,
                cgroup,
                rotated,
            })
        }
        Err(failure) => {
            if let Some(cgroup) = cgroup {
                cgroup.remove();
            }
            Err(failure)
        }
    }
}

fn run_record(
    spec: &Spec,
    boot_id: String,
    job: i32,
    cgroup: Option<&Cgroup>,
    not_enforced: Vec<String>,
) -> RunRecord {
    let process = |pid: i32| ProcessId {
        pid,
        start_ticks: machine::start_ticks(pid),
    };
    RunRecord {
        version: RECORD_VERSION,
        nonce: spec.nonce.clone(),
        boot_id,
        shim: process(rustix::process::getpid().as_raw_nonzero().get()),
        job: process(job),
        started_boot_ms: machine::boot_ms(),
        started_wall_ms: machine::wall_ms(),
        cgroups: cgroup.map(Cgroup::directories).unwrap_or_default(),
        not_enforced,
    }
}

fn has_own_file(spec: &Spec) -> bool {
    let own = |output: &Output| matches!(output, Output::File(_));
    own(&spec.stdout) || own(&spec.stderr)
}

fn resolve(user: Option<&User>) -> Result<Option<Credentials>, LaunchFailure> {
    let credentials = match user {
        None => return Ok(None),
        Some(User::Ids { uid, gid, groups }) => Credentials {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
        },
        Some(User::Name(name)) => look_up(name)?,
    };
    let own = rustix::process::geteuid();
    if own.is_root() {
        return Ok(Some(credentials));
    }
    if own.as_raw() == credentials.uid {
        return Ok(None);
    }
    let text = format!("only root can run a job as user {}", credentials.uid);
    Err(LaunchFailure::host(HostFaultKind::UserForbidden, &text))
}

/// Looks a user up in the machine's own files. Users that come from elsewhere are the worker's to
/// resolve: a program without shared libraries cannot ask the system's other sources.
fn look_up(name: &str) -> Result<Credentials, LaunchFailure> {
    let unknown = |text: &str| {
        LaunchFailure::host(HostFaultKind::UserUnknown, &format!("user {name:?} {text}"))
    };
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .map_err(|error| unknown(&format!("cannot be looked up in {path}: {error}")))
    };
    let (users, groups) = (read("/etc/passwd")?, read("/etc/group")?);
    let (uid, gid) = user_of(&users, name).ok_or_else(|| unknown("is not known on this host"))?;
    Ok(Credentials {
        uid,
        gid,
        groups: groups_of(&groups, name, gid),
    })
}

/// User and primary group of a name. Source: passwd(5), `name:password:uid:gid:...`.
fn user_of(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut parts = line.split(':').skip(2);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Groups that list a name, after its primary one. Source: group(5), `name:password:gid:members`.
fn groups_of(groups: &str, name: &str, primary: u32) -> Vec<u32> {
    let listed = groups.lines().filter_map(|line| {
        let mut parts = line.split(':').skip(2);
        let gid = parts.next()?.parse::<u32>().ok()?;
        let is_member = parts.next()?.split(',').any(|member| member == name);
        (is_member && gid != primary).then_some(gid)
    });
    std::iter::once(primary).chain(listed).collect()
}

fn make_cgroup(
    spec: &Spec,
    not_enforced: &mut Vec<String>,
) -> Result<Option<Cgroup>, LaunchFailure> {
    let failure = match spec
        .cgroup
        .as_deref()
        .map(|path| Cgroup::create(path, &spec.limits))
    {
        Some(Ok(cgroup)) => {
            not_enforced.extend(cgroup.not_enforced().iter().map(|name| (*name).to_owned()));
            return Ok(Some(cgroup));
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    if spec.cgroup_required {
        let text = match failure {
            Some(error) => format!("the control group cannot be made: {error}"),
            None => "a control group is required and none is named".to_owned(),
        };
        return Err(LaunchFailure::host(HostFaultKind::NoCgroup, &text));
    }
    if spec.cgroup.is_some() {
        not_enforced.push("cgroup".to_owned());
    }
    let limits = [
        (spec.limits.memory_bytes, "memory"),
        (spec.limits.pids, "pids"),
        (spec.limits.cpu_milli, "cpu"),
    ];
    let wanted = limits.into_iter().filter(|(limit, _)| limit.is_some());
    not_enforced.extend(wanted.map(|(_, name)| name.to_owned()));
    Ok(None)
}

fn start(
    spec: &Spec,
    run_dir: &Path,
    cgroup: Option<&Cgroup>,
    credentials: Option<Credentials>,
) -> Result<(i32, Vec<RotatedFile>), LaunchFailure> {
    let entries = match cgroup {
        Some(cgroup) => cgroup.entries(),
        None => Ok(Vec::new()),
    };
    let entries = entries.map_err(|error| host(HostFaultKind::NoCgroup, "its files", &error))?;
    let mut plan = ChildPlan::new(entries, credentials, c_string(&spec.work_dir)?);
    if let Some(mask) = spec.umask {
        plan.umask(mask);
    }
    let mut command = Command::new(&spec.argv[0]);
    command
        .args(&spec.argv[1..])
        .env_clear()
        .stdin(Stdio::null());
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    let mut rotated = Vec::new();
    match &spec.stdout {
        Output::Null | Output::Stdout => drop(command.stdout(Stdio::null())),
        Output::Spool(name) => drop(command.stdout(spool(spec, run_dir, name, &mut rotated)?)),
        Output::File(path) => {
            command.stdout(Stdio::null());
            plan.stdout(c_string(path)?);
        }
    }
    command.stderr(Stdio::null());
    match &spec.stderr {
        Output::Null => {}
        Output::Stdout => plan.join_stderr(),
        Output::Spool(_) if spec.stderr == spec.stdout => plan.join_stderr(),
        Output::Spool(name) => drop(command.stderr(spool(spec, run_dir, name, &mut rotated)?)),
        Output::File(path) => plan.stderr(c_string(path)?),
    }
    child::attach(&mut command, plan);
    // The worker may be protected from the memory killer; the job must not inherit that.
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    let spawned = command.spawn().map_err(|error| classify(spec, &error))?;
    let pid = i32::try_from(spawned.id()).unwrap_or(0);
    Ok((pid, rotated))
}

fn spool(
    spec: &Spec,
    run_dir: &Path,
    name: &str,
    rotated: &mut Vec<RotatedFile>,
) -> Result<Stdio, LaunchFailure> {
    let failed = |error: io::Error| host(HostFaultKind::Spool, name, &error);
    let file = outputs::open(run_dir, name).map_err(failed)?;
    if let Some(bytes_max) = spec.output_bytes_max {
        rotated.push(RotatedFile::new(run_dir, name, bytes_max).map_err(failed)?);
    }
    Ok(Stdio::from(file))
}

fn c_string(text: &str) -> Result<CString, LaunchFailure> {
    CString::new(text)
        .map_err(|_| LaunchFailure::job(JobFaultKind::Spec, "a path holds a NUL byte"))
}

fn host(kind: HostFaultKind, what: &str, error: &io::Error) -> LaunchFailure {
    LaunchFailure::host(kind, &format!("{what}: {error}"))
}

// Whose fault an error between fork and exec is: paths and programs that the job names are the
// job's, what the machine lacks is the host's.
fn classify(spec: &Spec, error: &io::Error) -> LaunchFailure {
    let (step, errno) = Step::of(error);
    let reason = io::Error::from(errno);
    match step {
        Step::Exec => classify_exec(spec, errno, &reason),
        Step::Cgroup => host(
            HostFaultKind::NoCgroup,
            "entering the control group",
            &reason,
        ),
        Step::Session => host(HostFaultKind::Other, "making the session", &reason),
        Step::User if errno == Errno::AGAIN => {
            host(HostFaultKind::NoProcess, "becoming the user", &reason)
        }
        Step::User => host(HostFaultKind::UserForbidden, "becoming the user", &reason),
        Step::WorkDir if is_about_the_path(errno) => {
            let text = format!("working directory {:?}: {reason}", spec.work_dir);
            LaunchFailure::job(JobFaultKind::WorkDir, &text)
        }
        Step::WorkDir => host(
            HostFaultKind::Other,
            "entering the working directory",
            &reason,
        ),
        Step::Stdout => classify_output(&spec.stdout, errno, &reason),
        Step::Stderr => classify_output(&spec.stderr, errno, &reason),
        Step::Death => host(HostFaultKind::Other, "binding the job to its shim", &reason),
    }
}

fn classify_output(output: &Output, errno: Errno, reason: &io::Error) -> LaunchFailure {
    let text = match output {
        Output::File(path) | Output::Spool(path) => format!("output {path:?}: {reason}"),
        Output::Null | Output::Stdout => format!("output: {reason}"),
    };
    let own = is_about_the_path(errno) || matches!(errno, Errno::NXIO | Errno::DQUOT);
    if own {
        LaunchFailure::job(JobFaultKind::Output, &text)
    } else {
        LaunchFailure::host(HostFaultKind::Spool, &text)
    }
}

fn classify_exec(spec: &Spec, errno: Errno, reason: &io::Error) -> LaunchFailure {
    let program = &spec.argv[0];
    let text = format!("{program:?}: {reason}");
    let there = program.contains('/') && Path::new(&spec.work_dir).join(program).exists();
    match errno {
        Errno::NOENT if there => {
            let text = format!("{program:?} is there, but the program that runs it is not");
            LaunchFailure::job(JobFaultKind::NotExecutable, &text)
        }
        Errno::NOENT | Errno::NOTDIR => LaunchFailure::job(JobFaultKind::CommandNotFound, &text),
        Errno::TOOBIG => LaunchFailure::job(JobFaultKind::TooLong, &text),
        Errno::NOEXEC | Errno::LIBBAD | Errno::TXTBSY | Errno::INVAL => {
            LaunchFailure::job(JobFaultKind::NotExecutable, &text)
        }
        _ if is_about_the_path(errno) => LaunchFailure::job(JobFaultKind::NotExecutable, &text),
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => {
            LaunchFailure::host(HostFaultKind::NoProcess, &text)
        }
        _ => LaunchFailure::host(HostFaultKind::Other, &text),
    }
}

fn is_about_the_path(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::ACCESS
            | Errno::PERM
            | Errno::ISDIR
            | Errno::LOOP
            | Errno::NAMETOOLONG
    )
}
