//! The side that reads: a process of its own that holds a mirror.

use std::io::BufRead;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xce_ledger::{Mirror, Portion, RowReader};
use xce_link::{Connected, Dialer, Identity, Route, Settings};
use xce_session::feed_wire::{FromReader, ToReader};

use super::server::{cpu_ns, forget_peak, memory};
use crate::client::Fault;

/// Connects and catches up each time it is told to; prints what it cost.
pub fn run(words: &str) -> Result<(), Fault> {
    let (address, folder) = words.split_once(' ').ok_or("no address and folder")?;
    let identity = Identity::load(std::path::Path::new(folder))?;
    let dialer = Dialer::new(identity, Settings::default());
    let address = address.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut mirror = Mirror::new();
    for line in std::io::stdin().lock().lines() {
        line?;
        let cost = runtime.block_on(catch_up(&dialer, address, &mut mirror))?;
        println!("{cost}");
    }
    Ok(())
}

async fn catch_up(
    dialer: &Dialer,
    address: std::net::SocketAddr,
    mirror: &mut Mirror,
) -> Result<Value, Fault> {
    forget_peak()?;
    let (cpu, rss) = (cpu_ns()?, memory("VmRSS:")?);
    let dialled = Instant::now();
    let Connected { peer, mut inbox } = dialer.dial(&[address], Duration::from_secs(10)).await?;
    let opened = Instant::now();
    let after = mirror.lsn();
    peer.send(Route::request(2), &FromReader::Open { after })?;
    let mut rows = RowReader::new();
    let (mut messages, mut objects, mut full) = (0_u64, 0_u64, false);
    loop {
        let frame = inbox.receive().await?;
        let ToReader::Portion(portion) = frame.decode::<ToReader>()? else {
            return Err("no portion".into());
        };
        drop(frame);
        let changes = rows.read(&portion.rows)?;
        messages += 1;
        objects += changes.len() as u64;
        full |= portion.full;
        let head = Portion {
            full: portion.full,
            first: portion.first,
            more: portion.more,
            lsn: portion.lsn,
            of: portion.lsn,
        };
        mirror.take(&head, changes);
        if !portion.more {
            break;
        }
        let number = portion.number;
        peer.send(Route::request(2), &FromReader::Taken { number })?;
    }
    let done = opened.elapsed();
    let view = mirror.view().ok_or("the state is not whole")?;
    let cost = json!({
        "kind": if full { "full" } else { "delta" },
        "lsn": view.lsn(),
        "rows": objects,
        "messages": messages,
        "us": u64::try_from(done.as_micros())?,
        "connect_us": u64::try_from((opened - dialled).as_micros())?,
        "reader_cpu_us": (cpu_ns()? - cpu) / 1000,
        "reader_extra_kib": memory("VmHWM:")?.saturating_sub(rss) / 1024,
    });
    peer.finish().await;
    Ok(cost)
}
