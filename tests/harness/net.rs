//! What a client of a service does, without a library: one HTTP request, one redis command.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::patience::LONGEST;

/// Asks for a path; gives status and body.
///
/// # Errors
/// When nobody answers, or not in HTTP.
pub fn http_get(address: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let answer = ask(address, request.as_bytes(), &mut |_| false)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| format!("no HTTP: {answer}"))?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok((
        status.ok_or_else(|| format!("no status: {head}"))?,
        body.to_owned(),
    ))
}

/// Sends one redis command in its inline form; gives the first line of the answer.
///
/// # Errors
/// When nobody answers.
pub fn redis(address: SocketAddr, command: &str) -> Result<String, String> {
    let request = format!("{command}\r\n");
    let answer = ask(address, request.as_bytes(), &mut |bytes| {
        bytes.ends_with(b"\r\n")
    })?;
    Ok(answer.trim_end().to_owned())
}

/// Sends bytes, and reads until the peer closes or enough is there.
fn ask(
    address: SocketAddr,
    request: &[u8],
    enough: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<String, String> {
    let fault = |error: std::io::Error| format!("{address}: {error}");
    let mut stream = TcpStream::connect_timeout(&address, LONGEST).map_err(fault)?;
    stream.set_read_timeout(Some(LONGEST)).map_err(fault)?;
    stream.write_all(request).map_err(fault)?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part).map_err(fault)?;
        answer.extend_from_slice(&part[..count]);
        if count == 0 || enough(&answer) {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
    }
}
