//! Processor time and memory of processes: on a busy machine they say more than rates do.

use crate::client::Fault;

/// Milliseconds of processor time that one process has used itself, and those of its ended children.
pub fn of_process(pid: u32) -> Result<(u64, u64), Fault> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the name, which ends with the last parenthesis, fields 12 to 15 are user and system
    // time, own and of the children, in ticks of 10 ms (proc(5)).
    let rest = text
        .rsplit(')')
        .next()
        .ok_or("no name in a process record")?;
    let mut ticks = rest.split_whitespace().skip(11);
    let mut next = || -> Result<u64, Fault> { Ok(ticks.next().ok_or("too few fields")?.parse()?) };
    let own = next()? + next()?;
    let children = next()? + next()?;
    Ok((own * 10, children * 10))
}

/// Milliseconds of processor time that the whole machine has used, all processors together.
pub fn of_machine() -> Result<u64, Fault> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().ok_or("no processors")?;
    // user, nice, system, then idle and iowait, then irq, softirq and steal (proc(5)).
    let ticks: Result<Vec<u64>, _> = line.split_whitespace().skip(1).map(str::parse).collect();
    let ticks = ticks?;
    let busy = ticks.iter().enumerate().take(7);
    Ok(busy
        .filter(|(place, _)| !matches!(place, 3 | 4))
        .map(|(_, ticks)| ticks * 10)
        .sum())
}

/// Resident memory of a process, in bytes.
pub fn resident(pid: u32) -> Result<u64, Fault> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.ok_or("no resident memory is shown")?.parse::<u64>()? * 1024)
}
