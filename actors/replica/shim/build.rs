//! Links the program `xce-shim` without shared libraries, where the C library has a static part.
//!
//! A shim lives as long as its job and starts with each: without the dynamic loader a start costs
//! 0.26 ms of processor time, with it 0.57 ms. The target feature `crt-static` cannot be set for one
//! program of a workspace, so the names of the shared libraries that std asks for are led to their
//! static parts, by linker scripts that only this program's search path holds.
//!
//! Where something is missing nothing is changed: the shim is then linked as any other program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What std asks for, and what is given instead.
const LIBRARIES: [(&str, &str); 3] = [
    ("libgcc_s.so", "libgcc_eh.a"),
    ("libc.so", "libc.a"),
    ("libm.so", "libm.a"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=XCE_SHIM_SHARED");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_plain = variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ENV") == "gnu"
        && variable("TARGET") == variable("HOST")
        && std::env::var_os("XCE_SHIM_SHARED").is_none();
    let all_there = LIBRARIES.iter().all(|(_, archive)| has(archive));
    if !is_plain || !all_there {
        return;
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    if let Err(error) = write_scripts(&out) {
        println!("cargo:warning=the shim is linked with shared libraries: {error}");
        return;
    }
    for argument in ["-static", "-no-pie", &format!("-L{}", out.display())] {
        println!("cargo:rustc-link-arg-bin=xce-shim={argument}");
    }
}

fn write_scripts(directory: &Path) -> std::io::Result<()> {
    for (name, archive) in LIBRARIES {
        std::fs::write(directory.join(name), format!("INPUT({archive})\n"))?;
    }
    Ok(())
}

/// Whether the linker's driver finds an archive: it answers with a path, or with the name as given.
fn has(archive: &str) -> bool {
    let asked = Command::new("cc")
        .arg(format!("-print-file-name={archive}"))
        .output();
    asked.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).contains('/'))
}
