//! A device that forgets: what was not synced may be lost, torn or reordered at a power cut, and any
//! operation can be made to fail.
//!
//! ```text
//!  operation ─► the real folder (what a running process sees)
//!            └► the model: bytes not yet synced, names not yet synced ─► after a power cut: an image
//! ```
//!
//! Names of one directory become durable in order, bytes of a file in sectors in any order.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Device, Disk, DiskMode};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// What happens at an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The process dies: from here on nothing reaches the disk, what did stays.
    Kill,
    /// The power goes: from here on nothing reaches the disk, and what was not synced may be lost.
    PowerCut,
    /// The operation fails with EIO, and those after it work.
    Eio,
    /// The operation finds no space, and those after it do.
    NoSpace,
}

/// What a device says that it did and did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Syncs of files.
    Files,
    /// Syncs of directories.
    Names,
}

#[derive(Default)]
struct Content {
    durable: Vec<u8>,
    pending: Vec<(u64, Vec<u8>)>,
}

enum Naming {
    Named(PathBuf, u64),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

#[derive(Default)]
struct State {
    steps: u64,
    /// At which step what happens.
    harm: Option<(u64, Harm)>,
    /// What the harmed step was.
    harmed: Option<String>,
    is_off: bool,
    files: BTreeMap<u64, Content>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    pending_names: Vec<Naming>,
    dice: u64,
    lie: Option<Lie>,
}

/// The device; clones share it.
#[derive(Clone)]
pub(crate) struct ModelDisk {
    roots: Vec<PathBuf>,
    state: Arc<Mutex<State>>,
}

impl ModelDisk {
    /// A device that holds what the `log` and `snapshots` of a state directory hold.
    pub(crate) fn over(directory: &Path, seed: u64) -> Self {
        let roots = vec![directory.join("log"), directory.join("snapshots")];
        let mut state = State {
            dice: seed.wrapping_mul(2) | 1,
            ..State::default()
        };
        for root in &roots {
            let Ok(entries) = std::fs::read_dir(root) else {
                continue;
            };
            for entry in entries {
                let path = entry.unwrap().path();
                let durable = std::fs::read(&path).unwrap();
                let content = Content {
                    durable,
                    pending: Vec::new(),
                };
                let inode = state.add(content);
                state.names.insert(path, inode);
            }
        }
        state.durable_names = state.names.clone();
        Self {
            roots,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// What happens so many operations from now.
    pub(crate) fn harm_after(&self, operations: u64, harm: Harm) {
        let mut state = self.state();
        state.harm = Some((state.steps + operations, harm));
        state.harmed = None;
    }

    /// What the harmed operation was, once it has come.
    pub(crate) fn harmed(&self) -> Option<String> {
        self.state().harmed.clone()
    }

    /// From now on it lies.
    pub(crate) fn lies(&self, lie: Lie) {
        self.state().lie = Some(lie);
    }

    /// Leaves in the folder what a power cut leaves. Nobody may use it meanwhile.
    pub(crate) fn leave_image(&self) {
        let mut state = self.state();
        let names = state.names_after_cut();
        let mut image = BTreeMap::new();
        for (path, inode) in names {
            let bytes = state.bytes_after_cut(inode);
            image.insert(path, bytes);
        }
        for root in &self.roots {
            for entry in std::fs::read_dir(root).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
        for (path, bytes) in image {
            std::fs::write(path, bytes).unwrap();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn device(&self, path: &Path, file: File) -> io::Result<Box<dyn Device>> {
        let inode = *self.state().names.get(path).ok_or_else(absent)?;
        Ok(Box::new(ModelDevice {
            disk: self.clone(),
            inode,
            file,
            path: path.to_path_buf(),
        }))
    }

    fn make(&self, path: &Path) {
        let mut state = self.state();
        let inode = state.add(Content::default());
        state.names.insert(path.to_path_buf(), inode);
        let naming = Naming::Named(path.to_path_buf(), inode);
        state.pending_names.push(naming);
    }
}

fn absent() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl State {
    fn add(&mut self, content: Content) -> u64 {
        let inode = self.files.len() as u64 + 1;
        self.files.insert(inode, content);
        inode
    }

    fn roll(&mut self, bound: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % bound.max(1)
    }

    /// One operation; an error when it is the harmed one, or nothing works any more.
    fn step(&mut self, what: &str, path: &Path) -> io::Result<()> {
        if self.is_off {
            return Err(io::Error::other("the power is off"));
        }
        let number = self.steps;
        self.steps += 1;
        let Some((_, harm)) = self.harm.filter(|(at, _)| *at == number) else {
            return Ok(());
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.harmed = Some(format!("{what} of {name}"));
        match harm {
            Harm::Kill | Harm::PowerCut => {
                self.is_off = true;
                Err(io::Error::other("the power went off"))
            }
            // EIO and ENOSPC by number, as the system gives them.
            Harm::Eio => Err(io::Error::from_raw_os_error(5)),
            Harm::NoSpace => Err(io::Error::from_raw_os_error(28)),
        }
    }

    /// Names of each directory up to some point.
    fn names_after_cut(&mut self) -> BTreeMap<PathBuf, u64> {
        let mut names = self.durable_names.clone();
        let keep = self.roll(self.pending_names.len() as u64 + 1);
        for naming in self.pending_names.iter().take(keep as usize) {
            apply(&mut names, naming);
        }
        names
    }

    /// Some sectors of what was not synced.
    fn bytes_after_cut(&mut self, inode: u64) -> Vec<u8> {
        let content = self.files.get_mut(&inode).unwrap();
        let mut bytes = content.durable.clone();
        let pending = std::mem::take(&mut content.pending);
        for (offset, data) in &pending {
            let mut at = 0;
            while at < data.len() {
                let start = *offset as usize + at;
                // Up to the next boundary of a sector of the file.
                let end = (at + SECTOR - start % SECTOR).min(data.len());
                if self.roll(2) == 0 {
                    let upto = *offset as usize + end;
                    if bytes.len() < upto {
                        bytes.resize(upto, 0);
                    }
                    bytes[start..upto].copy_from_slice(&data[at..end]);
                }
                at = end;
            }
        }
        bytes
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, naming: &Naming) {
    match naming {
        Naming::Named(path, inode) => drop(names.insert(path.clone(), *inode)),
        Naming::Renamed(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        Naming::Removed(path) => drop(names.remove(path)),
    }
}

impl Naming {
    fn is_in(&self, directory: &Path) -> bool {
        match self {
            Self::Named(path, _) | Self::Renamed(path, _) | Self::Removed(path) => {
                path.parent() == Some(directory)
            }
        }
    }
}

impl Disk for ModelDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Device>> {
        self.state().step("opening", path)?;
        let file = OpenOptions::new().write(true).open(path)?;
        self.device(path, file)
    }

    fn preallocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let stepped = self.state().step("preallocation", path);
        if stepped.is_err() && !self.state().is_off {
            // What a full disk leaves behind: the file, but not all of it.
            std::fs::write(path, [0; 100])?;
            self.make(path);
        }
        stepped?;
        let zeros = vec![0; usize::try_from(bytes).unwrap()];
        std::fs::write(path, &zeros)?;
        self.make(path);
        let mut state = self.state();
        let inode = state.names[path];
        state.files.get_mut(&inode).unwrap().durable = zeros;
        Ok(())
    }

    fn create(&self, path: &Path, keep: bool) -> io::Result<Box<dyn Device>> {
        self.state().step("creation", path)?;
        let known = self.state().names.contains_key(path);
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(!keep)
            .open(path)?;
        if !(keep && known) {
            self.make(path);
        }
        self.device(path, file)
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.state().step("reading", path)?;
        Ok(Box::new(File::open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("renaming", to)?;
        std::fs::rename(from, to)?;
        let naming = Naming::Renamed(from.to_path_buf(), to.to_path_buf());
        apply(&mut state.names, &naming);
        state.pending_names.push(naming);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("removal", path)?;
        std::fs::remove_file(path)?;
        let naming = Naming::Removed(path.to_path_buf());
        apply(&mut state.names, &naming);
        state.pending_names.push(naming);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("sync of the directory", path)?;
        if state.lie == Some(Lie::Names) {
            return Ok(());
        }
        let pending = std::mem::take(&mut state.pending_names);
        for naming in pending {
            if naming.is_in(path) {
                apply(&mut state.durable_names, &naming);
            } else {
                state.pending_names.push(naming);
            }
        }
        Ok(())
    }

    fn mode(&self) -> DiskMode {
        DiskMode::Synced
    }
}

struct ModelDevice {
    disk: ModelDisk,
    inode: u64,
    file: File,
    path: PathBuf,
}

impl Device for ModelDevice {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let was_off = state.is_off;
        let stepped = state.step("write", &self.path);
        if stepped.is_ok() || !was_off {
            // Of a write that fails or is cut off, any part may arrive.
            let content = state.files.get_mut(&self.inode).unwrap();
            content.pending.push((offset, bytes.to_vec()));
        }
        stepped?;
        self.file.write_all_at(bytes, offset)?;
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step("sync", &self.path)?;
        if state.lie == Some(Lie::Files) {
            return Ok(());
        }
        let content = state.files.get_mut(&self.inode).unwrap();
        for (offset, data) in content.pending.drain(..) {
            let upto = offset as usize + data.len();
            if content.durable.len() < upto {
                content.durable.resize(upto, 0);
            }
            content.durable[offset as usize..upto].copy_from_slice(&data);
        }
        Ok(())
    }
}
