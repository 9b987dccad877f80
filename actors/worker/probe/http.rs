//! A GET whose answer is read up to its status line, and no further; redirects are not followed.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::attempt::{authority, resolvable};

/// Most bytes read of an answer.
///
/// Source: derived; a status line is shorter than any line that a server may send (RFC 9112
/// recommends 8 000 for a request line).
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// What is asked.
pub struct Request<'a> {
    /// Host to connect to.
    pub host: &'a str,
    /// Port to connect to.
    pub port: u16,
    /// Path with query.
    pub path: &'a str,
    /// More headers.
    pub headers: &'a [(String, String)],
}

/// Asks, and gives the status.
///
/// # Errors
/// A text for people when there is no connection or no HTTP answer.
pub async fn status(request: &Request<'_>) -> Result<u16, String> {
    let place = authority(request.host, request.port);
    let failed = |error: std::io::Error| format!("{place}: {error}");
    let mut stream = TcpStream::connect((resolvable(request.host), request.port))
        .await
        .map_err(failed)?;
    stream
        .write_all(text(request)?.as_bytes())
        .await
        .map_err(failed)?;
    let mut answer = Vec::with_capacity(512);
    while answer.len() < ANSWER_BYTES_MAX && !last_head(&answer).contains(&b'\n') {
        let room = ANSWER_BYTES_MAX - answer.len();
        let mut part = (&mut stream).take(u64::try_from(room).unwrap_or(u64::MAX));
        if part.read_buf(&mut answer).await.map_err(failed)? == 0 {
            break;
        }
    }
    parse(last_head(&answer)).ok_or_else(|| format!("{place}: the answer is not HTTP/1"))
}

fn text(request: &Request<'_>) -> Result<String, String> {
    let Request {
        host,
        port,
        path,
        headers,
    } = request;
    let broken = |text: &str| text.bytes().any(|byte| byte < b' ' || byte == 0x7f);
    if broken(path) || path.contains(' ') || !path.starts_with('/') {
        return Err("the path of the probe is not a path".to_owned());
    }
    let mut text = format!("GET {path} HTTP/1.1\r\n");
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        text.push_str(&format!("Host: {}\r\n", authority(host, *port)));
    }
    text.push_str("Connection: close\r\nUser-Agent: xce-probe\r\n");
    for (name, value) in *headers {
        if broken(name) || broken(value) || name.contains([':', ' ']) || name.is_empty() {
            return Err("a header of the probe is not a header".to_owned());
        }
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    Ok(text)
}

/// What follows the heads that only announce another one (statuses 100 to 199; RFC 9110).
fn last_head(mut answer: &[u8]) -> &[u8] {
    while parse(answer).is_some_and(|status| status < 200 && status != 101) {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            return &[];
        };
        answer = &answer[end + 4..];
    }
    answer
}

/// `HTTP/1.x NNN …`
fn parse(answer: &[u8]) -> Option<u16> {
    let rest = answer.strip_prefix(b"HTTP/1.")?;
    let [minor, b' ', digits @ ..] = rest else {
        return None;
    };
    let code = digits
        .get(..3)
        .filter(|code| code.iter().all(u8::is_ascii_digit))?;
    let ends = digits
        .get(3)
        .is_none_or(|next| matches!(next, b' ' | b'\r' | b'\n'));
    if !minor.is_ascii_digit() || !ends {
        return None;
    }
    std::str::from_utf8(code).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_are_read_and_junk_is_not() {
        for (answer, status) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], Some(200)),
            (b"HTTP/1.0 404\r\n", Some(404)),
            (b"HTTP/1.1 503 ", Some(503)),
            (b"HTTP/1.1 2000 OK", None),
            (b"HTTP/1.1 20", None),
            (b"HTTP/2 200", None),
            (b"SSH-2.0-x", None),
            (b"", None),
            (b"HTTP/1.1  200", None),
        ] {
            assert_eq!(parse(answer), status, "{}", String::from_utf8_lossy(answer));
        }
    }

    #[test]
    fn what_only_announces_an_answer_is_passed_over() {
        let answer =
            b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK\r\n";
        assert_eq!(parse(last_head(answer)), Some(200));
        for cut in 0..answer.len() {
            let status = parse(last_head(&answer[..cut]));
            assert!(matches!(status, None | Some(200)), "{cut}");
        }
        let other = b"HTTP/1.1 101 Switching Protocols\r\n";
        assert_eq!(parse(last_head(other)), Some(101));
    }

    #[test]
    fn a_header_cannot_smuggle_another_request() {
        let headers = [("X".to_owned(), "a\r\nGET / HTTP/1.1".to_owned())];
        let request = Request {
            host: "h",
            port: 1,
            path: "/",
            headers: &headers,
        };
        assert!(text(&request).is_err());
        let request = Request {
            host: "h",
            port: 1,
            path: "/\r\n",
            headers: &[],
        };
        assert!(text(&request).is_err());
        let request = Request {
            host: "h",
            port: 1,
            path: "/x?y",
            headers: &[],
        };
        assert!(
            text(&request)
                .unwrap()
                .starts_with("GET /x?y HTTP/1.1\r\nHost: h:1\r\n")
        );
    }
}
