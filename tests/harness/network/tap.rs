//! Devices of hosts, whose frames this process reads and writes.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::harness::programs;

/// Most hosts of a network. Source: chosen; above those of any scenario.
const HOSTS_MAX: usize = 32;

/// Opens a TAP device in each namespace and sends all of them over its standard input. It is not
/// Rust, since that call of the system has no safe form.
/// Source: linux/if_tun.h (TUNSETIFF, IFF_TAP, IFF_NO_PI) and setns(2) (CLONE_NEWNET).
const OPENER: &str = r#"
import array, ctypes, fcntl, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
devices = []
for name in sys.argv[1:]:
    namespace = os.open("/run/netns/" + name, os.O_RDONLY)
    if libc.setns(namespace, 0x40000000) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    os.close(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", b"eth0", 0x0002 | 0x1000))
    devices.append(device)
pipe = socket.socket(fileno=0)
rights = array.array("i", devices)
pipe.sendmsg([b"t"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
"#;

/// Opens the device of each namespace, in their order.
///
/// # Errors
/// When that is not possible here.
pub fn open(namespaces: &[String]) -> Result<Vec<File>, String> {
    assert!(namespaces.len() <= HOSTS_MAX, "too many hosts");
    let fault = |error: std::io::Error| format!("the devices of hosts: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(fault)?;
    let mut command = Command::new("python3");
    command
        .env("PATH", programs::search_path())
        .args(["-c", OPENER])
        .args(namespaces)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(fault)?;
    // The command holds the other end: with it gone, an opener that fails ends the wait.
    drop(command);
    let taps = receive(&ours);
    let output = child.wait_with_output().map_err(fault)?;
    if taps.len() == namespaces.len() {
        return Ok(taps);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("the devices of hosts: {}", said.trim()))
}

fn receive(from: &UnixStream) -> Vec<File> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HOSTS_MAX))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut parts = [IoSliceMut::new(&mut byte)];
    if recvmsg(from, &mut parts, &mut rights, RecvFlags::CMSG_CLOEXEC).is_err() {
        return Vec::new();
    }
    let mut files = Vec::new();
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors.map(File::from));
        }
    }
    files
}
