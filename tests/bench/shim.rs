//! Short jobs a second: a bare start and wait of `/bin/true`, against the whole chain with a shim
//! (run directory, spec, shim, job, records, reading the exit). One JSON line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xce_shim::{Outcome, RunState, Spec, inspect, spawn};

/// Time each case is measured.
/// Source: derived; a thousand jobs and more, while the whole takes ten seconds.
const CASE_TIME: Duration = Duration::from_secs(1);

/// Cases: name, and what one job is.
type Case<'a> = (&'a str, &'a (dyn Fn(&Path, u32) + Sync));

/// Measures and prints. The shim is taken from `XCE_SHIM`, or beside this program.
///
/// # Panics
/// When a job does not end as it must: a number for broken jobs would be worthless.
pub fn run() {
    let shim = shim_path();
    let dynamic = |dir: &Path, number: u32| chain(&shim, dir, number, None);
    let group = format!("xce-bench-{}", std::process::id());
    let grouped = |dir: &Path, number: u32| {
        let name = dir
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let path = format!("{group}/{}-{number}", name.unwrap_or_default());
        chain(&shim, dir, number, Some(path));
    };
    let cases: [Case; 3] = [
        ("bare", &bare),
        ("shim", &dynamic),
        ("shim_cgroup", &grouped),
    ];
    let mut fields = Vec::new();
    for (name, job) in cases {
        for at_once in [1, 2, 4] {
            fields.push(measure(name, at_once, job));
        }
    }
    if let Some(mount) = xce_shim::cgroup::v2_mount() {
        xce_shim::cgroup::remove(&mount.join(&group));
    }
    println!("{{\"bench\":\"shim\",{}}}", fields.join(","));
}

fn shim_path() -> PathBuf {
    if let Some(path) = std::env::var_os("XCE_SHIM") {
        return PathBuf::from(path);
    }
    let own = std::env::current_exe().expect("the running program has a path");
    let near = own
        .ancestors()
        .skip(1)
        .take(3)
        .map(|dir| dir.join("xce-shim"));
    near.into_iter()
        .find(|path| path.is_file())
        .expect("xce-shim is built beside this program")
}

fn measure(name: &str, at_once: usize, job: &(dyn Fn(&Path, u32) + Sync)) -> String {
    let root = std::env::temp_dir().join(format!("xce-bench-shim-{}", std::process::id()));
    let begin = Instant::now();
    let mut times: Vec<u128> = std::thread::scope(|scope| {
        let lane = |lane: usize| {
            let dir = root.join(format!("{name}-{at_once}-{lane}"));
            std::fs::create_dir_all(&dir).expect("the temporary directory takes files");
            let mut times = Vec::new();
            while begin.elapsed() < CASE_TIME {
                let one = Instant::now();
                job(
                    &dir,
                    u32::try_from(times.len()).expect("fewer than 2^32 jobs"),
                );
                times.push(one.elapsed().as_micros());
            }
            times
        };
        let lanes: Vec<_> = (0..at_once)
            .map(|number| scope.spawn(move || lane(number)))
            .collect();
        lanes
            .into_iter()
            .flat_map(|lane| lane.join().expect("a lane does not fail"))
            .collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let _ = std::fs::remove_dir_all(&root);
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    format!(
        "\"{name}_{at_once}\":{{\"per_second\":{:.0},\"p50_us\":{},\"p99_us\":{}}}",
        times.len() as f64 / seconds,
        at(50),
        at(99)
    )
}

fn bare(_dir: &Path, _number: u32) {
    let mut command = Command::new("/bin/true");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status().expect("/bin/true starts");
    assert!(status.success(), "/bin/true ends well");
}

fn chain(shim: &Path, dir: &Path, number: u32, cgroup: Option<String>) {
    let dir = dir.join(number.to_string());
    std::fs::create_dir(&dir).expect("a fresh run directory");
    let mut spec = Spec::new("bench", vec!["/bin/true".to_owned()], "/");
    spec.cgroup = cgroup;
    spec.store(&dir).expect("the spec is written");
    let mut child = spawn(shim, &dir).expect("the shim starts");
    child.wait().expect("the shim ends");
    match inspect(&dir).expect("the run directory can be read") {
        RunState::Exited(exit) => assert_eq!(exit.outcome, Outcome::Code(0)),
        other => panic!("the job ran, but {other:?}"),
    }
}
