//! The command line of a cluster.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main()
}
