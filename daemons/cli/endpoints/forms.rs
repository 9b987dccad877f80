//! Forms of one set of endpoints: views of the same data.

use serde::Serialize;
use xce_service::view::{EndpointSet, EndpointState, EndpointView};
use xce_session::wire::ServiceName;

use crate::cli::arguments::Form;
use crate::cli::failure::Failure;
use crate::cli::print::{self, Look, Row, visible};

/// Domain of the cluster in names. Source: chosen; not delegated in the public tree.
const DOMAIN: &str = "xce";

/// How sets of one service are shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Which service.
    pub service: ServiceName,
    /// In which form.
    pub form: Form,
    /// Only ports of this name.
    pub port: Option<String>,
    /// Whether another set may follow.
    pub watching: bool,
}

/// A set for programs.
#[derive(Serialize)]
struct Document<'a> {
    project: &'a str,
    service: &'a str,
    generation: u64,
    endpoints: Vec<&'a EndpointView>,
}

impl Shown {
    /// A set as text.
    ///
    /// # Errors
    /// When it has no JSON.
    pub fn text(&self, set: &EndpointSet) -> Result<String, Failure> {
        let wanted = |row: &&EndpointView| self.port.as_ref().is_none_or(|port| *port == row.name);
        let rows: Vec<&EndpointView> = set.rows().filter(wanted).collect();
        Ok(match self.form {
            Form::Json | Form::Yaml => self.document(set.generation, rows)?,
            Form::Name => lines(&rows),
            Form::Plain => format!("{}{}", self.mark("#", set.generation), lines(&rows)),
            Form::Dns => format!("{}{}", self.mark(";", set.generation), self.zone(&rows)),
            Form::Table | Form::Wide => self.table(set.generation, &rows),
        })
    }

    fn mark(&self, sign: &str, generation: u64) -> String {
        if self.watching {
            format!("{sign} generation {generation}\n")
        } else {
            String::new()
        }
    }

    fn document(&self, generation: u64, endpoints: Vec<&EndpointView>) -> Result<String, Failure> {
        let document = Document {
            project: &self.service.project,
            service: &self.service.name,
            generation,
            endpoints,
        };
        if self.form == Form::Yaml {
            let start = if self.watching { "---\n" } else { "" };
            return Ok(format!("{start}{}", print::yaml(&document)?));
        }
        if !self.watching {
            return print::json(&document);
        }
        serde_json::to_string(&document)
            .map(|text| format!("{text}\n"))
            .map_err(|error| Failure::Local(format!("cannot be printed as JSON: {error}")))
    }

    fn table(&self, generation: u64, rows: &[&EndpointView]) -> String {
        let look = Look::of(self.form);
        let cells = rows.iter().map(|row| row.cells(&look)).collect();
        let table = print::table_text(&EndpointView::head(look.wide), cells, look.coloured);
        if !self.watching {
            return table;
        }
        let name = visible(&self.service.name);
        format!("{name}: generation {generation}\n{table}\n")
    }

    /// Lines of a zone: `_port._tcp.service.project.xce.` with host and port, one that is suspect behind
    /// the others; and the addresses of the hosts. Source: RFC 2782 for the fields, RFC 6763 for names.
    fn zone(&self, rows: &[&EndpointView]) -> String {
        let ServiceName { project, name } = &self.service;
        let mut text = String::new();
        let mut hosts: Vec<(String, String)> = Vec::new();
        for row in rows {
            let priority = match row.state {
                EndpointState::Ready => 0,
                EndpointState::Suspect => 1,
            };
            let target = target_of(row, &mut hosts);
            let port = row.port;
            let label = &row.name;
            text.push_str(&format!(
                "_{label}._tcp.{name}.{project}.{DOMAIN}. 0 IN SRV {priority} 1 {port} {target}\n"
            ));
        }
        hosts.sort();
        hosts.dedup();
        for (host, record) in hosts {
            text.push_str(&format!("{host} 0 IN {record}\n"));
        }
        visible_lines(&text)
    }
}

/// The name that an endpoint is at: that of its host, or the address where that is a name itself.
fn target_of(row: &EndpointView, hosts: &mut Vec<(String, String)>) -> String {
    let host = format!("{}.host.{DOMAIN}.", row.host);
    match row.address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => hosts.push((host.clone(), format!("A {address}"))),
        Ok(std::net::IpAddr::V6(address)) => hosts.push((host.clone(), format!("AAAA {address}"))),
        Err(_is_a_name) => return format!("{}.", row.address.trim_end_matches('.')),
    }
    host
}

fn lines(rows: &[&EndpointView]) -> String {
    rows.iter()
        .map(|row| format!("{}\n", visible(&row.name())))
        .collect()
}

fn visible_lines(text: &str) -> String {
    text.lines()
        .map(|line| format!("{}\n", visible(line)))
        .collect()
}
