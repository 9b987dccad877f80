//! Limits and time-outs of connections, and their quinn form.

use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};

/// Bytes that a peer may have under way to us on one stream.
///
/// Source: foundations section 3; with quinn's defaults one peer could park 249 MB.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// Most bulk streams that a peer may have open to us, so that they and the control stream cannot
/// use up the connection's window together.
///
/// Source: derived; (7 + 1) streams of 1 MiB = the 8 MiB of foundations section 3, where equal
/// windows of stream and connection deadlocked.
pub const BULK_STREAMS_MAX: u32 = 7;

/// Bytes that a peer may have under way to us on all streams.
///
/// Source: derived; see [`BULK_STREAMS_MAX`].
const CONNECTION_WINDOW_BYTES: u32 = (BULK_STREAMS_MAX + 1) * STREAM_WINDOW_BYTES;

/// Bytes quinn keeps for us until the peer acknowledged them.
///
/// Source: derived; as much as the peer's window lets be under way on all streams.
const SEND_WINDOW_BYTES: u64 = CONNECTION_WINDOW_BYTES as u64;

/// Bytes of handshake messages that a peer may send out of order.
///
/// Source: derived; our certificates have under 1 KiB, four of them with TLS around fit.
const HANDSHAKE_BUFFER_BYTES: usize = 16 * 1024;

/// Size asked for the receive and the send buffer of every UDP socket, in bytes.
///
/// Source: foundations section 3; a herd of 5 000 failed 42 times with the default, never with this.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Limits and time-outs of every connection of an endpoint.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A connection on which nothing came for so long is over; default 30 s.
    ///
    /// Keep it above the period of the beats that the session sends.
    pub idle_timeout: Duration,
    /// Period of keep-alive packets of the transport; default none, since beats of the session say
    /// that a worker works, and packets only that its socket lives.
    pub keep_alive: Option<Duration>,
    /// Time in which a peer must have finished the handshake and opened its control stream;
    /// default 10 s.
    pub handshake_timeout: Duration,
    /// Handshakes at once; default 64, more of them wait.
    pub handshakes_max: usize,
    /// Connections at once; default 20 000, more of them are refused.
    pub peers_max: usize,
    /// Time in which a frame that began must be whole; default 30 s.
    pub frame_deadline: Duration,
    /// Time after which a peer that takes nothing of what waits for it is cut off; default 30 s.
    pub stall_timeout: Duration,
    /// Bytes that may wait for one peer; default 4 MiB. A single larger frame is let in when
    /// nothing else waits.
    pub send_queue_bytes: usize,
    /// Largest payload accepted in a frame; default and most [`crate::FRAME_BYTES_MAX`].
    pub frame_bytes_max: u32,
}

impl Default for Settings {
    /// Source: 64 handshakes and no keep-alive: foundations section 3; 20 000 connections: derived,
    /// twice the hosts of design section 15; the others: chosen, well above what a loaded host
    /// needs.
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(30),
            keep_alive: None,
            handshake_timeout: Duration::from_secs(10),
            handshakes_max: 64,
            peers_max: 20_000,
            frame_deadline: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            send_queue_bytes: 4 * 1024 * 1024,
            frame_bytes_max: crate::FRAME_BYTES_MAX,
        }
    }
}

/// Round trip that is assumed before the first is measured; a lost first packet is sent again after
/// about three of these.
///
/// Source: derived; a cluster's hosts are some milliseconds apart at most, and with the default of
/// 333 ms a client waited a second for a controller that had started 50 ms after its first packet.
const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(30);

impl Settings {
    /// The transport's settings; a listener lets its peers open one control stream, a dialler none.
    pub(crate) fn transport(&self, control_streams: u32) -> Arc<TransportConfig> {
        let idle = IdleTimeout::try_from(self.idle_timeout).unwrap_or(VarInt::MAX.into());
        let mut transport = TransportConfig::default();
        transport
            .initial_rtt(INITIAL_ROUND_TRIP)
            .max_idle_timeout(Some(idle))
            .keep_alive_interval(self.keep_alive)
            .max_concurrent_bidi_streams(control_streams.into())
            .max_concurrent_uni_streams(BULK_STREAMS_MAX.into())
            .stream_receive_window(STREAM_WINDOW_BYTES.into())
            .receive_window(CONNECTION_WINDOW_BYTES.into())
            .send_window(SEND_WINDOW_BYTES)
            .crypto_buffer_size(HANDSHAKE_BUFFER_BYTES)
            .datagram_receive_buffer_size(None);
        Arc::new(transport)
    }
}
