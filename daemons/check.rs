//! Says what is wrong with a machine before it joins a cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xce_config::{ControllerConfig, WorkerConfig};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A controller's file of settings to check.
    #[arg(long, value_name = "FILE")]
    controller: Option<PathBuf>,
    /// A worker's file of settings to check.
    #[arg(long, value_name = "FILE")]
    worker: Option<PathBuf>,
    /// Directory of the cluster's state [default: $XCE_HOME or ~/.xce].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    good: bool,
    text: String,
}

/// Prints a line for each thing that was looked at; fails when one is not as it must be.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let home = crate::find_home(arguments.home.as_deref())?;
    let mut findings = vec![shim(), cgroups(), writable(home.path())];
    let sources = |file: &PathBuf| xce_config::Sources::of_process(Some(file.clone()));
    if let Some(file) = &arguments.controller {
        let loaded = xce_config::load::<ControllerConfig>(&home, &sources(file)).map(drop);
        findings.push(settings("controller settings", file, loaded));
    }
    if let Some(file) = &arguments.worker {
        let loaded = xce_config::load::<WorkerConfig>(&home, &sources(file)).map(drop);
        findings.push(settings("worker settings", file, loaded));
    }
    for finding in &findings {
        let word = if finding.good { "ok  " } else { "BAD " };
        println!("{word} {}: {}", finding.what, finding.text);
    }
    let good = findings.iter().all(|finding| finding.good);
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn settings(what: &'static str, file: &Path, loaded: Result<(), xce_config::Faults>) -> Finding {
    match loaded {
        Ok(()) => Finding {
            what,
            good: true,
            text: file.display().to_string(),
        },
        Err(faults) => Finding {
            what,
            good: false,
            text: format!("\n{faults}"),
        },
    }
}

fn shim() -> Finding {
    let what = "shim";
    match crate::worker::shim_beside() {
        Ok(path) => Finding {
            what,
            good: true,
            text: path.display().to_string(),
        },
        Err(error) => Finding {
            what,
            good: false,
            text: format!("{error:#}"),
        },
    }
}

/// Without cgroups jobs still run and are killed whole; limits are then not enforced.
fn cgroups() -> Finding {
    let found = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|path| Path::new(path).join("cgroup.controllers").exists());
    let text = match found {
        None => {
            "no cgroup v2: trees are killed by walking them, limits are not enforced".to_owned()
        }
        Some(path) => {
            let list = std::fs::read_to_string(Path::new(path).join("cgroup.controllers"));
            let list = list.unwrap_or_default();
            let list = if list.trim().is_empty() {
                "no controllers"
            } else {
                list.trim()
            };
            format!("v2 at {path} with {list}")
        }
    };
    Finding {
        what: "cgroups",
        good: true,
        text,
    }
}

fn writable(home: &Path) -> Finding {
    let what = "state directory";
    match crate::prepare::directory(home).and_then(|()| Ok(tempfile_in(home)?)) {
        Ok(()) => Finding {
            what,
            good: true,
            text: format!("{} can be written", home.display()),
        },
        Err(error) => Finding {
            what,
            good: false,
            text: format!("{error:#}"),
        },
    }
}

fn tempfile_in(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!(".check-{}", std::process::id()));
    std::fs::write(&path, b"check")?;
    std::fs::remove_file(&path)
}
