//! An etcd of one member or of three on the same disk, as far as a comparison needs it: durable puts by clients
//! that wait for each answer, by gRPC as etcd's own client does, one connection a client.
//!
//! The client speaks just enough HTTP/2: one request in flight a connection, headers without
//! compression, and no look at an answer beyond that it is there.

use std::io::{BufReader, Error, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long etcd may take to answer for the first time. Source: chosen; a second on a quiet machine.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Pause between two attempts until then.
const TRY_EVERY: Duration = Duration::from_millis(100);
/// Longest wait for one answer. Source: chosen; a measurement that waits longer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Types and flags of frames. Source: RFC 9113, section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A running etcd of one or more members; ends with this value.
pub struct Etcd {
    members: Vec<Child>,
    address: String,
}

impl Etcd {
    /// Starts one in a folder; nothing where the program is not installed.
    ///
    /// # Errors
    /// It does not come to answer.
    pub fn start(dir: &Path) -> std::io::Result<Option<Self>> {
        Self::members(dir, 1)
    }

    /// Starts three members on one disk; puts go to the one that answers fastest, its leader.
    ///
    /// # Errors
    /// They do not come to answer.
    pub fn start_three(dir: &Path) -> std::io::Result<Option<Self>> {
        Self::members(dir, 3)
    }

    fn members(dir: &Path, count: usize) -> std::io::Result<Option<Self>> {
        let mut addresses = Vec::new();
        for _ in 0..count {
            addresses.push((free_address()?, free_address()?));
        }
        let peer =
            |(number, (_, peer)): (usize, &(String, String))| format!("m{number}=http://{peer}");
        let all: Vec<String> = addresses.iter().enumerate().map(peer).collect();
        let all = all.join(",");
        let mut etcd = Self {
            members: Vec::new(),
            address: addresses[0].0.clone(),
        };
        for (number, (client, peer)) in addresses.iter().enumerate() {
            match spawn(dir, number, client, peer, &all) {
                Ok(child) => etcd.members.push(child),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        for (client, _) in &addresses {
            wait_for(client)?;
        }
        let mut most = 0;
        for (client, _) in addresses {
            let before = std::mem::replace(&mut etcd.address, client);
            let puts = etcd.puts(1, PROBE, size_of::<u64>() + 1)?.len();
            if puts > most {
                most = puts;
            } else {
                etcd.address = before;
            }
        }
        Ok(Some(etcd))
    }

    /// Microseconds that each put took, of so many clients for so long, sorted.
    ///
    /// # Errors
    /// A put failed.
    pub fn puts(&self, clients: u64, span: Duration, bytes: usize) -> std::io::Result<Vec<u64>> {
        let value = vec![7; bytes - size_of::<u64>()];
        let connections: std::io::Result<Vec<_>> = (0..clients)
            .map(|_| Connection::open(&self.address))
            .collect();
        let begin = Instant::now();
        let one = |key: u64, mut to: Connection| {
            let mut waits = Vec::new();
            while begin.elapsed() < span {
                let from = Instant::now();
                to.put(&key.to_le_bytes(), &value)?;
                waits.push(from.elapsed().as_micros() as u64);
            }
            Ok(waits)
        };
        let one = &one;
        let mut all = std::thread::scope(|scope| -> std::io::Result<Vec<u64>> {
            let threads: Vec<_> = (0..)
                .zip(connections?)
                .map(|(key, to)| scope.spawn(move || one(key, to)))
                .collect();
            let mut all = Vec::new();
            for thread in threads {
                let waits: std::io::Result<Vec<u64>> = thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::other("a client of etcd panicked")));
                all.extend(waits?);
            }
            Ok(all)
        })?;
        all.sort_unstable();
        Ok(all)
    }
}

/// How long each member is tried to find the leader. Source: chosen; some hundred puts.
const PROBE: Duration = Duration::from_millis(500);

fn spawn(dir: &Path, number: usize, client: &str, peer: &str, all: &str) -> std::io::Result<Child> {
    let urls = [format!("http://{client}"), format!("http://{peer}")];
    let name = format!("m{number}");
    let mut command = Command::new("etcd");
    command
        .arg("--data-dir")
        .arg(dir.join(format!("etcd-{name}")));
    command.args(["--name", &name]);
    command.args(["--listen-client-urls", &urls[0]]);
    command.args(["--advertise-client-urls", &urls[0]]);
    command.args(["--listen-peer-urls", &urls[1]]);
    command.args(["--initial-advertise-peer-urls", &urls[1]]);
    command.args(["--initial-cluster", all]);
    command.args(["--log-level", "error"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn()
}

fn wait_for(address: &str) -> std::io::Result<()> {
    let end = Instant::now() + READY_WITHIN;
    loop {
        match Connection::open(address).and_then(|mut to| to.put(&[0], &[0])) {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_not_yet) => std::thread::sleep(TRY_EVERY),
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        for child in &mut self.members {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn free_address() -> std::io::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// A connection with one request in flight.
struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    stream: u32,
    head: Vec<u8>,
}

impl Connection {
    fn open(address: &str) -> std::io::Result<Self> {
        let mut writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(ANSWER_WITHIN))?;
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(&mut hello, SETTINGS, 0, 0, &[]);
        // So many answers fit that the window never has to be looked at again.
        let window: u32 = (1 << 31) - (1 << 16);
        frame(&mut hello, WINDOW_UPDATE, 0, 0, &window.to_be_bytes());
        writer.write_all(&hello)?;
        Ok(Self {
            reader: BufReader::new(writer.try_clone()?),
            writer,
            stream: 1,
            head: request_head(address),
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        let mut message = Vec::new();
        // Fields 1 and 2 of etcdserverpb.PutRequest.
        field(&mut message, 0x0a, key);
        field(&mut message, 0x12, value);
        let mut body = vec![0];
        body.extend((message.len() as u32).to_be_bytes());
        body.extend(message);
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS, self.stream, &self.head);
        frame(&mut bytes, DATA, END_STREAM, self.stream, &body);
        self.writer.write_all(&bytes)?;
        let answered = self.answer()?;
        self.stream += 2;
        if answered {
            Ok(())
        } else {
            Err(Error::other("etcd refused a put"))
        }
    }

    /// Reads to the end of the answer; a refusal has a head and no data.
    fn answer(&mut self) -> std::io::Result<bool> {
        let mut has_data = false;
        loop {
            let mut head = [0; 9];
            self.reader.read_exact(&mut head)?;
            let [high, middle, low, kind, flags, stream @ ..] = head;
            let length = u32::from_be_bytes([0, high, middle, low]);
            let mut payload = vec![0; length as usize];
            self.reader.read_exact(&mut payload)?;
            match kind {
                SETTINGS | PING if flags & ACK == 0 => {
                    let echo: &[u8] = if kind == PING { &payload } else { &[] };
                    let mut bytes = Vec::new();
                    frame(&mut bytes, kind, ACK, 0, echo);
                    self.writer.write_all(&bytes)?;
                }
                RESET | GOAWAY => return Err(Error::other("etcd ended the connection")),
                DATA => has_data |= length > 0,
                _ => {}
            }
            let is_ours = u32::from_be_bytes(stream) == self.stream;
            if is_ours && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                return Ok(has_data);
            }
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

fn field(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    // A base-128 number; nothing here is longer than two of its digits.
    if bytes.len() < 128 {
        out.push(bytes.len() as u8);
    } else {
        out.extend([(bytes.len() % 128) as u8 | 128, (bytes.len() / 128) as u8]);
    }
    out.extend(bytes);
}

/// The head of every request, in literals. Source: RFC 7541, sections 6.1 and 6.2.2, and the
/// numbers of its static table.
fn request_head(address: &str) -> Vec<u8> {
    let mut head = vec![0x83, 0x86];
    let mut text = |prefix: &[u8], text: &str| {
        head.extend(prefix);
        head.push(text.len() as u8);
        head.extend(text.as_bytes());
    };
    text(&[0x04], "/etcdserverpb.KV/Put");
    text(&[0x01], address);
    text(&[0x0f, 0x10], "application/grpc");
    text(&[0x00, 2, b't', b'e'], "trailers");
    head
}
