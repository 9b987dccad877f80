//! What this machine offers.

use std::fs;

use xce_host::facts::Inventory;
use xce_model::{Bytes, MilliCpu, Refusal, limits};

use crate::settings::Settings;
use crate::state_dir::StateDir;

/// The kernel's range of ports for outgoing connections.
const EPHEMERAL_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Checks the settings and finds out what the machine has.
///
/// # Errors
/// A refusal that names the setting that cannot be.
pub fn take(settings: &Settings, dir: &StateDir) -> Result<Inventory, Refusal> {
    limits::check_name("host", &settings.name)?;
    let ephemeral = fs::read_to_string(EPHEMERAL_FILE).ok();
    check_ports(settings.ports, ephemeral.as_deref().and_then(parse_range))?;
    if !(100..=60_000).contains(&settings.beat.0) {
        let text = format!("a beat of {} is not within 100 ms to 60 s", settings.beat);
        return Err(Refusal::refused("bad_beat", text));
    }
    let mut labels = settings.labels.clone();
    labels.sort();
    labels.dedup();
    let has_cgroups = settings.cgroup_parent.is_some() && xce_shim::cgroup::v2_mount().is_some();
    // What a single run could not be given is in its own record.
    let not_enforced: &[&str] = if has_cgroups {
        &[]
    } else {
        &["cpu", "memory", "pids"]
    };
    Ok(Inventory {
        name: settings.name.clone(),
        incarnation: dir.incarnation,
        boot_id: dir.boot_id.clone(),
        address: settings.address.clone(),
        cpus: settings.cpus.unwrap_or_else(cpus),
        memory: settings.memory.unwrap_or_else(memory),
        port_first: settings.ports.0,
        port_last: settings.ports.1,
        labels,
        not_enforced: not_enforced.iter().map(|name| (*name).to_owned()).collect(),
    })
}

fn cpus() -> MilliCpu {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    MilliCpu(u64::try_from(count).unwrap_or(1).saturating_mul(1_000))
}

fn memory() -> Bytes {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Bytes(parse_memory(&text).unwrap_or(0))
}

// Source: proc_meminfo(5), `MemTotal: <number> kB`.
fn parse_memory(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1_024)
}

fn parse_range(text: &str) -> Option<(u16, u16)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u16>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn check_ports((first, last): (u16, u16), ephemeral: Option<(u16, u16)>) -> Result<(), Refusal> {
    if first == 0 || first > last {
        let text = format!("{first} to {last} is no range of ports");
        return Err(Refusal::refused("bad_port_range", text));
    }
    match ephemeral {
        Some((low, high)) if first <= high && low <= last => {
            let text = format!(
                "ports {first} to {last} overlap the kernel's ephemeral range {low} to {high}, \
                 from which any process may take one at any time"
            );
            Err(Refusal::refused("port_range_ephemeral", text))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_are_checked() {
        let kernel = Some((32_768, 60_999));
        for (range, good) in [
            ((20_000, 29_999), true),
            ((20_000, 32_768), false),
            ((61_000, 65_535), true),
            ((40_000, 40_001), false),
            ((1, 65_535), false),
            ((0, 10), false),
            ((10, 9), false),
        ] {
            assert_eq!(check_ports(range, kernel).is_ok(), good, "{range:?}");
        }
        assert!(check_ports((40_000, 40_001), None).is_ok());
    }

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(parse_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(parse_range("x"), None);
        assert_eq!(
            parse_memory("MemTotal:       16000 kB\nMemFree: 1 kB\n"),
            Some(16_384_000)
        );
        assert_eq!(parse_memory(""), None);
    }
}
