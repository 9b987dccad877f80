//! What is wrong with the controllers, in sentences.

use xce_ledger::View;
use xce_model::WallTime;
use xce_session::member_wire::MemberView;

use super::members::SILENT_AFTER_MS;
use crate::control::Control;

/// A certificate is warned of from this long before its end on. Source: design section 12.1, a month.
const WARN_S: i64 = 31 * 86_400;

/// Everything that an operator should know of the controllers; voters, those that answer, and how
/// many must agree.
pub fn of_controllers(
    control: &Control,
    members: &[MemberView],
    (voters, up, quorum): (usize, usize, usize),
) -> Vec<String> {
    let now_s = control.wall().0 / 1_000;
    let mut alarms: Vec<String> = members.iter().filter_map(silence).collect();
    if voters > 1 && up == quorum {
        alarms.push(format!(
            "{up} of {voters} controllers with a vote answer, and {quorum} must agree: with one more \
             loss nothing can be changed"
        ));
    }
    alarms.extend(members.iter().filter_map(|member| expiry(member, now_s)));
    alarms.extend(versions(members));
    alarms.extend(quarantine(control));
    alarms.extend(level(
        control.view().level(),
        control.settings.level_max,
        members,
    ));
    alarms
}

/// Hosts that are drained; that no other takes jobs is what an operator may not have meant.
pub fn of_drains(view: &View) -> Vec<String> {
    let hosts = || view.hosts().values();
    let mut drained: Vec<String> = hosts()
        .filter_map(|host| {
            let drain = host.drain.as_ref()?;
            let (name, reason) = (&host.inventory.name, &drain.reason);
            Some(format!("host {name} is drained: {reason}"))
        })
        .collect();
    if !drained.is_empty() && !hosts().any(|host| host.takes_jobs()) {
        drained.push("no host takes jobs, since the others are drained".to_owned());
    }
    drained
}

fn silence(member: &MemberView) -> Option<String> {
    let MemberView {
        name,
        address,
        role,
        ..
    } = member;
    if role == "primary" {
        return None;
    }
    match member.heard_ms {
        Some(ms) if ms <= SILENT_AFTER_MS => None,
        Some(ms) => Some(format!(
            "controller {name} at {address} has been silent for {} s",
            ms / 1_000
        )),
        None => Some(format!(
            "controller {name} at {address} has not been heard since this one leads"
        )),
    }
}

fn expiry(member: &MemberView, now_s: i64) -> Option<String> {
    let ends = member.certificate_ends_s;
    if ends == 0 || ends - now_s > WARN_S {
        return None;
    }
    let (name, day) = (&member.name, day(ends));
    Some(if ends <= now_s {
        format!("the certificate of controller {name} ended on {day}")
    } else {
        format!(
            "the certificate of controller {name} ends on {day}, in {} days: issue another",
            (ends - now_s) / 86_400
        )
    })
}

fn day(unix_s: i64) -> String {
    let text = crate::views::time(WallTime(unix_s.saturating_mul(1_000)));
    text.split('T').next().unwrap_or_default().to_owned()
}

fn quarantine(control: &Control) -> Option<String> {
    let view = control.view();
    let hosts = view.hosts().values();
    let counts = hosts.map(|host| host.quarantined().count());
    let (hosts, runs) = counts
        .filter(|count| *count > 0)
        .fold((0, 0), |(hosts, runs), count| (hosts + 1, runs + count));
    (runs > 0).then(|| {
        format!(
            "{runs} runs on {hosts} hosts belong to a time that the cluster lost, and are left alone: see \
             `xcecli jobs quarantine list`"
        )
    })
}

fn versions(members: &[MemberView]) -> Option<String> {
    let known = || members.iter().filter(|member| !member.version.is_empty());
    let first = known().next()?;
    if known().all(|member| member.version == first.version) {
        return None;
    }
    let all: Vec<String> = known()
        .map(|member| format!("{} is {}", member.name, member.version))
        .collect();
    Some(format!("versions differ: {}", all.join(", ")))
}

fn level(level: u16, supported: u16, members: &[MemberView]) -> Option<String> {
    if level >= supported {
        return None;
    }
    let behind: Vec<String> = members
        .iter()
        .filter(|member| member.level < supported)
        .map(|member| match member.level {
            0 => format!("{} has not said what it supports", member.name),
            other => format!("{} supports {other}", member.name),
        })
        .collect();
    Some(format!(
        "feature level {level}, while the primary supports {supported}: {}",
        if behind.is_empty() {
            "it rises in a moment".to_owned()
        } else {
            behind.join(", ")
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> MemberView {
        MemberView {
            name: name.into(),
            address: format!("{name}.site:1"),
            role: "standby".into(),
            heard_ms: Some(20),
            version: "0.1.0".into(),
            level: 2,
            ..MemberView::default()
        }
    }

    #[test]
    fn each_alarm_names_whom_it_is_about() {
        assert_eq!(silence(&member("c2")), None);
        let mut silent = member("c2");
        silent.heard_ms = Some(12_500);
        let text = silence(&silent).unwrap();
        assert!(
            text.contains("c2 at c2.site:1 has been silent for 12 s"),
            "{text}"
        );
        silent.heard_ms = None;
        assert!(silence(&silent).unwrap().contains("has not been heard"));
        let now = 1_800_000_000;
        let mut old = member("c3");
        for (ends, expected) in [
            (0, None),
            (now + WARN_S + 1, None),
            (now + 5 * 86_400, Some("in 5 days")),
            (now - 1, Some("ended on 2027-01-1")),
        ] {
            old.certificate_ends_s = ends;
            let text = expiry(&old, now);
            assert_eq!(text.is_some(), expected.is_some(), "{text:?}");
            assert!(
                text.unwrap_or_default()
                    .contains(expected.unwrap_or_default())
            );
        }
        let mut other = member("c3");
        other.version = "0.2.0".into();
        assert_eq!(versions(&[member("c1"), member("c2")]), None);
        let text = versions(&[member("c1"), other]).unwrap();
        assert_eq!(text, "versions differ: c1 is 0.1.0, c3 is 0.2.0");
    }

    #[test]
    fn a_level_that_waits_names_who_it_waits_for() {
        assert_eq!(level(2, 2, &[member("c1")]), None);
        let mut old = member("c3");
        old.level = 1;
        let mut mute = member("c4");
        mute.level = 0;
        let text = level(1, 2, &[member("c1"), old, mute]).unwrap();
        assert!(text.contains("c3 supports 1, c4 has not said"), "{text}");
        assert!(
            level(1, 2, &[member("c1")])
                .unwrap()
                .contains("in a moment")
        );
    }
}
