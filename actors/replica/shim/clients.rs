//! Those who are connected to the socket: bounded in number, in what they send and in what waits
//! for them. Whoever does not read is dropped; the job does not care.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use xce_shim::protocol::{Event, REQUEST_BYTES_MAX, Request};

/// Most clients at once; another one is told so and closed.
/// Source: derived; one worker, one lingering predecessor, operators.
const CLIENTS_MAX: usize = 16;

/// The listening socket and its clients.
pub struct Clients {
    listener: UnixListener,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    pending: Vec<u8>,
    skipping: bool,
}

/// A request and the client that waits for the answer.
pub struct Asked {
    /// Which client; valid until the next [`Clients::forget`].
    pub client: usize,
    /// What it asked, or why the line was refused.
    pub request: Result<Request, &'static str>,
}

impl Clients {
    /// Listens on a socket; the path must fit its 108 bytes.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            clients: Vec::new(),
        })
    }

    /// The descriptors to wait for: first the listener, then each client.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients)
    }

    /// Takes new clients of the shim's own user or root, and greets each; how many these are.
    pub fn accept(&mut self, greeting: &Event) -> usize {
        let before = self.clients.len();
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut client = Client {
                stream,
                pending: Vec::new(),
                skipping: false,
            };
            if !client.may_ask() {
                client.say(&Event::Error("only the shim's user may ask".to_owned()));
            } else if self.clients.len() >= CLIENTS_MAX {
                client.say(&Event::Error("too many clients".to_owned()));
            } else if client.say(greeting) {
                self.clients.push(client);
            }
        }
        self.clients.len() - before
    }

    /// Reads what a client sent; `false` when it has left.
    pub fn read(&mut self, client: usize, asked: &mut Vec<Asked>) -> bool {
        let Some(found) = self.clients.get_mut(client) else {
            return false;
        };
        let mut buffer = [0; 512];
        match found.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                found.take(&buffer[..length], client, asked);
                true
            }
            Err(error) => {
                matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                )
            }
        }
    }

    /// Answers one client; `false` when it does not read.
    pub fn say(&mut self, client: usize, event: &Event) -> bool {
        self.clients
            .get_mut(client)
            .is_some_and(|client| client.say(event))
    }

    /// Tells every client.
    pub fn say_all(&mut self, event: &Event) {
        self.clients.retain_mut(|client| client.say(event));
    }

    /// Forgets the clients that left, given by their numbers.
    pub fn forget(&mut self, left: &[usize]) {
        let mut number = 0;
        self.clients.retain(|_| {
            number += 1;
            !left.contains(&(number - 1))
        });
    }
}

impl Client {
    // The directory keeps strangers out already; this holds when it was made too open.
    fn may_ask(&self) -> bool {
        let own = rustix::process::geteuid();
        let peer = rustix::net::sockopt::socket_peercred(&self.stream);
        peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
    }

    fn take(&mut self, bytes: &[u8], client: usize, asked: &mut Vec<Asked>) {
        for byte in bytes {
            if *byte != b'\n' {
                if self.pending.len() < REQUEST_BYTES_MAX {
                    self.pending.push(*byte);
                } else {
                    self.skipping = true;
                }
                continue;
            }
            let request = match std::str::from_utf8(&self.pending) {
                _ if self.skipping => Err("the line is too long"),
                Ok(line) => Request::parse(line),
                Err(_) => Err("the line is not text"),
            };
            asked.push(Asked { client, request });
            self.pending.clear();
            self.skipping = false;
        }
    }

    // A line is far smaller than a socket's buffer, so a partial write means an idle reader.
    fn say(&mut self, event: &Event) -> bool {
        self.stream.write_all(event.line().as_bytes()).is_ok()
    }
}
