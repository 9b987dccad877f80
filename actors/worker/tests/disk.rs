//! A full disk under a worker: it says so, ends are told all the same, and it goes on when there is
//! space.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use xce_replica::wire::{Happened, Want};

use crate::controller::Told;
use crate::world::{World, batch, run};

/// Size of the disk. Source: derived; twice what a worker wants to be free before it takes work again.
const SIZE: &str = "size=32m";

/// A file system in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount.
    fn new(path: &Path) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let kind = Some("tmpfs");
        mount(kind, path, kind, MsFlags::empty(), Some(SIZE)).ok()?;
        Some(Self(path.to_owned()))
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[1; 64 * 1024]).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _gone = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_ends_are_too() {
    let mut world = World::new().await;
    let Some(disk) = SmallDisk::new(&world.state()) else {
        // Only root may mount a small disk; the arithmetic has a test of its own.
        return;
    };
    world.start_worker().await;
    let controller = world.controller();
    controller.joined(1).await;
    let go = world.dir.path().join("go");
    let script = format!(
        "while ! test -e {}; do sleep 0.02; done; exit 3",
        go.display()
    );
    controller.want(run(1), Want::Start(Box::new(batch(1, &script))));
    let is_start = |what: &Happened| matches!(what, Happened::Started { .. });
    controller.happened(run(1), "a start", is_start).await;
    disk.fill();
    let full = |told: &Told| told.disk_full.then_some(());
    controller.until("that the disk is full", full).await;
    fs::write(&go, "").unwrap();
    let exit = controller.ended(run(1)).await;
    assert_eq!(exit.code, Some(3), "{exit:?}");
    // Nothing can be started, which is not the job's fault.
    controller.want(run(2), Want::Start(Box::new(batch(2, "true"))));
    let is_refusal = |what: &Happened| matches!(what, Happened::LaunchFailed { .. });
    controller.happened(run(2), "no start", is_refusal).await;
    disk.empty();
    let room = |told: &Told| (!told.disk_full).then_some(());
    controller.until("that it has room again", room).await;
    controller.want(run(3), Want::Start(Box::new(batch(3, "exit 4"))));
    assert_eq!(controller.ended(run(3)).await.code, Some(4));
    world.stop_worker(false).await;
    drop(world);
    drop(disk);
}
