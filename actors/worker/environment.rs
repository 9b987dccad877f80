//! The environment of a job, and `${NAME}` in its command and working directory.
//!
//! No shell is involved. `${NAME}` is replaced by the value of a variable of the job's own
//! environment; `$${NAME}` is the text `${NAME}`. Every other `$` stays as it is, so that scripts
//! given to a shell (`$$`, `$x`, `$(…)`, `${x:-1}`) arrive untouched. A name is letters, digits
//! and `_`, and may hold `-` and `.` where such a variable exists, as for a port of that name.

use std::collections::BTreeMap;

use xce_replica::wire::RunSpec;
use xce_shim::reclaim::NONCE_VARIABLE;

/// Where programs are looked up when the job says nothing.
///
/// Source: the default of Debian's login.defs for root, which has all directories of the system.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longest text after replacement, in bytes.
///
/// Source: Linux, `MAX_ARG_STRLEN`: 32 pages for one argument.
const TEXT_BYTES_MAX: usize = 128 * 1024;

/// Why a text cannot be expanded: the job's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A variable is named that the job does not have.
    #[error("`${{{0}}}` names a variable that the job does not have")]
    Unknown(String),
    /// The result is longer than the kernel takes.
    #[error("a word of the command is longer than {TEXT_BYTES_MAX} bytes after replacement")]
    TooLong,
}

/// All variables of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of one start: the template's, what every program expects, and XCE's own,
    /// which win. `home` is set only where the job runs as the worker's own user.
    pub fn of(spec: &RunSpec, host: &str, nonce: &str, home: Option<&str>) -> Self {
        let mut all = BTreeMap::new();
        let user = &spec.template.user.name;
        all.insert("PATH".to_owned(), PATH_DEFAULT.to_owned());
        if !user.is_empty() {
            all.insert("USER".to_owned(), user.clone());
            all.insert("LOGNAME".to_owned(), user.clone());
        }
        if let Some(home) = home {
            all.insert("HOME".to_owned(), home.to_owned());
        }
        all.extend(spec.template.env.iter().cloned());
        let mut own = |name: &str, value: String| all.insert(name.to_owned(), value);
        own("XCE_JOB", spec.run.job.to_string());
        own("XCE_RUN", spec.run.run.to_string());
        own("XCE_HOST", host.to_owned());
        own(NONCE_VARIABLE, nonce.to_owned());
        if let Some(replica) = &spec.replica {
            own("XCE_SERVICE", replica.service.clone());
            own("XCE_VERSION", replica.version.to_string());
            own("XCE_REPLICA", replica.index.to_string());
        }
        for (name, port) in &spec.ports {
            own(&format!("XCE_PORT_{name}"), port.to_string());
        }
        Self(all)
    }

    /// Names and values, sorted by name.
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Replaces `${NAME}`.
    ///
    /// # Errors
    /// [`ExpandError::Unknown`] for a name that is not there, [`ExpandError::TooLong`] when the
    /// result is.
    pub fn expand(&self, text: &str) -> Result<String, ExpandError> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            let name = from[2..].split_once('}').map(|(name, _)| name);
            let known = name.and_then(|name| self.0.get(name));
            let plain = name.is_some_and(is_identifier);
            let is_ours = plain || known.is_some();
            match name.filter(|_| is_ours) {
                // Not ours: the shell's, or whoever's. Go on behind the two letters.
                None => {
                    out.push_str(before);
                    out.push_str("${");
                    rest = &from[2..];
                }
                Some(name) => {
                    let whole = name.len() + 3;
                    if let Some(before) = before.strip_suffix('$') {
                        out.push_str(before);
                        out.push_str(&from[..whole]);
                    } else {
                        out.push_str(before);
                        let value = known.ok_or_else(|| ExpandError::Unknown(name.to_owned()))?;
                        out.push_str(value);
                    }
                    rest = &from[whole..];
                }
            }
            if out.len() > TEXT_BYTES_MAX {
                return Err(ExpandError::TooLong);
            }
        }
        out.push_str(rest);
        Ok(out)
    }
}

fn is_identifier(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let pairs = [
            ("A", "1"),
            ("XCE_PORT_http", "8080"),
            ("XCE_PORT_a-b", "9"),
            ("E", ""),
        ];
        Environment(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }

    #[test]
    fn names_are_replaced_and_shell_text_is_left_alone() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("${A}", "1"),
            ("x${A}y${A}z", "x1y1z"),
            ("${XCE_PORT_http}", "8080"),
            ("${XCE_PORT_a-b}", "9"),
            ("${E}", ""),
            ("$${A}", "${A}"),
            ("$${NOT_THERE}", "${NOT_THERE}"),
            (
                "echo $$ $x $(date) ${x:-1} ${#x} ${",
                "echo $$ $x $(date) ${x:-1} ${#x} ${",
            ),
            ("${}", "${}"),
            ("${A", "${A"),
            ("${x:-${A}}", "${x:-1}"),
            ("ä${A}ö", "ä1ö"),
        ] {
            assert_eq!(
                environment().expand(text).as_deref(),
                Ok(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn an_unknown_name_is_named() {
        let error = environment().expand("a ${NOPE} b").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`${NOPE}` names a variable that the job does not have"
        );
    }

    #[test]
    fn the_result_is_bounded() {
        let big = Environment([("B".to_owned(), "x".repeat(100_000))].into());
        assert_eq!(big.expand("${B}${B}"), Err(ExpandError::TooLong));
    }
}
