//! The way to a shim: following what it says, asking it for something, and ending it.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use xce_runtime::{Address, NotDelivered};
use xce_shim::control::EVENT_BYTES_MAX;
use xce_shim::{
    ControlPath, Event, Reclaim, Request, RunRecord, ShimState, machine, reclaim, tree,
};

use super::RunMessage;

/// How long a shim may take to answer a request.
///
/// Source: derived; it answers within a millisecond, and its own deadlines are seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long a shim may take to say what it does, before it is taken for one that hangs.
///
/// Source: derived; it answers within a millisecond.
const STATUS_WITHIN: Duration = Duration::from_secs(1);

/// Pause between two looks at a tree that is dying, and before a full mailbox is tried again.
///
/// Source: derived; a killed tree is gone within some milliseconds on a quiet machine.
const PAUSE: Duration = Duration::from_millis(20);

/// Pause from which on the dying of a tree is worth a word.
///
/// Source: derived; the pauses before it add up to the same.
const LASTS: Duration = Duration::from_millis(500);

/// Buffer of one shim's events, in bytes.
///
/// Source: derived; one event has 500 bytes, and ten thousand runs keep 10 MB.
const BUFFER_BYTES: usize = 1_024;

/// Puts a message into a run's mailbox, waiting while it is full. Where nobody lives there the
/// message is dropped: the next incarnation looks for itself.
pub async fn deliver(address: &Address<RunMessage>, message: RunMessage) {
    loop {
        match address.cast(message.clone()) {
            Ok(()) | Err(NotDelivered::Down) => return,
            Err(NotDelivered::Overloaded) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Hands each event of a shim to `tell` until there are no more; the last error text it said.
pub async fn follow<R, T, F>(reader: R, tell: T) -> Option<String>
where
    R: AsyncRead + Unpin,
    T: Fn(Event) -> F,
    F: Future<Output = ()>,
{
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    let mut error = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(EVENT_BYTES_MAX);
        match bounded.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return error,
            Ok(_) => {}
        }
        match Event::parse(String::from_utf8_lossy(&line).trim_end()) {
            Some(Event::Error(text)) => error = Some(text),
            Some(event) => tell(event).await,
            None => return error,
        }
    }
}

/// Connects to the socket of a living shim.
///
/// # Errors
/// When none listens.
pub async fn connect(start_dir: &Path) -> io::Result<UnixStream> {
    let way = ControlPath::open(start_dir)?;
    UnixStream::connect(way.path()).await
}

/// Asks a shim for something and waits until it is taken.
///
/// # Errors
/// When the shim is not there, says no, or does not answer.
pub async fn ask(start_dir: &Path, request: &Request) -> io::Result<()> {
    let asking = async {
        let stream = connect(start_dir).await?;
        let (reader, mut writer) = stream.into_split();
        writer.write_all(request.line().as_bytes()).await?;
        let mut lines =
            BufReader::with_capacity(BUFFER_BYTES, reader.take(EVENT_BYTES_MAX)).lines();
        while let Some(line) = lines.next_line().await? {
            match Event::parse(&line) {
                Some(Event::Accepted | Event::Exit(_)) => return Ok(()),
                Some(Event::Error(text)) => return Err(io::Error::other(text)),
                Some(Event::Started(_) | Event::Status(_)) | None => {}
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    };
    tokio::time::timeout(ANSWER_WITHIN, asking)
        .await
        .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Whether the shim of a start answers, and kills: then what does not end is not the shim.
pub async fn is_killing(start_dir: &Path) -> bool {
    let asking = async {
        let stream = connect(start_dir).await?;
        let (reader, mut writer) = stream.into_split();
        writer.write_all(Request::Status.line().as_bytes()).await?;
        let mut lines =
            BufReader::with_capacity(BUFFER_BYTES, reader.take(EVENT_BYTES_MAX)).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some(Event::Status(status)) = Event::parse(&line) {
                return Ok(status.state == ShimState::Killing);
            }
        }
        io::Result::Ok(false)
    };
    let answer = tokio::time::timeout(STATUS_WITHIN, asking).await;
    matches!(answer, Ok(Ok(true)))
}

/// Kills the shim of a start, if its record says which process that is. Blocking, and short.
pub fn kill_shim(start_dir: &Path) {
    let Ok(record) = RunRecord::load(start_dir) else {
        return;
    };
    let Some(stat) = machine::process_stat(record.shim.pid) else {
        return;
    };
    if stat.start_ticks == record.shim.start_ticks {
        tree::signal_one(&stat, rustix::process::Signal::KILL);
    }
}

/// Kills what a dead shim left, until nothing is left. A shim that lives is killed too, or let be.
/// `lasts` is called now and then while it does not end.
///
/// # Errors
/// When the directory cannot be read.
pub async fn reclaim_all(start_dir: &Path, kill: bool, lasts: impl Fn()) -> io::Result<()> {
    let mut pause = PAUSE;
    loop {
        let dir = start_dir.to_path_buf();
        let step = tokio::task::spawn_blocking(move || reclaim(&dir)).await;
        match step.unwrap_or_else(|error| Err(io::Error::other(error)))? {
            Reclaim::Gone => return Ok(()),
            Reclaim::ShimAlive if !kill => return Ok(()),
            Reclaim::ShimAlive => kill_shim(start_dir),
            Reclaim::Dying(_) => {}
        }
        tokio::time::sleep(pause).await;
        if pause > LASTS {
            lasts();
        }
        // Source: derived; a process that hangs in the kernel may do so for hours.
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}
