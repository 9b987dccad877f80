//! Controllers whose directories are damaged, older than they should be, copied, exchanged or used
//! twice, on real daemons.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xce_tests::harness::patience;
use xce_tests::harness::three::{Three, free_port};

use super::word;

/// Where the log of a controller lies.
fn state(three: &Three, name: &str) -> PathBuf {
    three.home(name).join("controller")
}

/// Changes a bit of what was acknowledged; gives the file.
fn damage(state: &Path) -> PathBuf {
    let entries = fs::read_dir(state.join("log")).expect("a log");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    paths.sort();
    let path = paths.remove(0);
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .expect("a segment");
    let mut byte = [0];
    // In the fourth block: everything in it is long acknowledged.
    let offset = 3 * 4096 + 77;
    file.read_exact_at(&mut byte, offset).expect("it is there");
    file.write_all_at(&[byte[0] ^ 1], offset)
        .expect("it can be written");
    path
}

/// Waits until the state of a controller is set aside; until it was taken out, it has a vote still.
fn wait_until_aside(three: &Three, name: &str) {
    let identity = state(three, name).join("set-aside-1").join("IDENTITY");
    patience::until("the old state is set aside", || identity.exists());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

/// The words that start a controller of a home once more.
fn controller_words(three: &Three, home: &str) -> Vec<String> {
    let config = three.home(home).join("controller.toml");
    let listen = format!("listen={}", free_port());
    let words = ["controller", "--config", word(&config), "--set", &listen];
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_controller_with_a_damaged_log_gets_everything_from_the_others() {
    let mut three = Three::start("damaged");
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(three.cli().submit(&["-m", "16MiB", "--", "true"]));
    }
    let name = three.standby();
    three.kill(&name);
    let file = damage(&state(&three, &name));
    jobs.push(three.cli().submit(&["-m", "16MiB", "--", "true"]));
    three.up(&name);
    wait_until_aside(&three, &name);
    three.wait_for_vote("c1", &name);
    let said = three.log(&name);
    assert!(said.contains("was set aside"), "{said}");
    assert!(
        said.contains(word(&file)) && said.contains("offset"),
        "{said}"
    );
    // It has all of it: the others may go.
    three.cli().good(&["cluster", "transfer-leader", &name]);
    assert_eq!(three.primary(), name);
    for job in &jobs {
        patience::until(&format!("job {job} has ended"), || {
            three.cli().job(job)["state"] == "DONE"
        });
    }
    three.cli().good(&["audit"]);
}

#[test]
fn an_older_directory_is_found_out_and_begun_again() {
    let mut three = Three::start("older");
    let name = three.standby();
    three.kill(&name);
    let older = three.folder().join("older");
    copy(&state(&three, &name), &older);
    three.up(&name);
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(three.cli().submit(&["-m", "16MiB", "--", "true"]));
    }
    let behind = || {
        let members = three.cli().json(&["cluster", "members"]);
        let members = members.as_array().cloned().unwrap_or_default();
        let own = members.iter().find(|member| member["name"] == *name);
        own.and_then(|own| own["behind"].as_u64())
    };
    patience::until("it has all of it", || behind() == Some(0));
    three.kill(&name);
    fs::remove_dir_all(state(&three, &name)).expect("it can be removed");
    copy(&older, &state(&three, &name));
    three.up(&name);
    assert_ne!(three.wait_for_end(&name), Some(0));
    let said = three.log(&name);
    assert!(said.contains("has seen it up to"), "{said}");
    three.up(&name);
    wait_until_aside(&three, &name);
    three.wait_for_vote("c1", &name);
    three.cli().good(&["audit"]);
}

#[test]
fn a_directory_serves_one_process_and_its_own_controller_only() {
    let mut three = Three::start("copies");
    // A copy beside the one that runs, at another address.
    copy(&three.home("c3"), &three.home("copy"));
    let words = controller_words(&three, "copy");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = three.xced(&words, "copy").failed();
    assert!(
        said.contains("another process runs as controller 3"),
        "{said}"
    );
    // Two processes on one directory.
    let words = controller_words(&three, "c3");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = three.xced(&words, "c3").failed();
    assert!(said.contains("is in use by another process"), "{said}");
    // The directory of another controller.
    three.kill("c3");
    let own = state(&three, "c3");
    let kept = three.folder().join("own");
    fs::rename(&own, &kept).expect("it can be moved");
    copy(&state(&three, "c2"), &own);
    // Who a controller is, its certificate says, which lies there too.
    fs::remove_dir_all(own.join("identity")).expect("it can be removed");
    copy(&kept.join("identity"), &own.join("identity"));
    let said = three.xced(&words, "c3").failed();
    assert!(said.contains("belongs to node 2, not to 3"), "{said}");
    // An empty one founds no cluster.
    fs::remove_dir_all(&own).expect("it can be removed");
    copy(&kept.join("identity"), &own.join("identity"));
    let said = three.xced(&words, "c3").failed();
    assert!(said.contains("holds no state"), "{said}");
    // Its own again.
    fs::remove_dir_all(&own).expect("it can be removed");
    fs::rename(&kept, &own).expect("it can be moved");
    three.up("c3");
    three.wait_for_vote("c1", "c3");
    three.cli().submit(&["-m", "16MiB", "--", "true"]);
}
