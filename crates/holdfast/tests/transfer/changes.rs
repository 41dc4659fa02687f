//! Changed parts, deletion and dry runs of the command, killed and through something that stands in for
//! ssh.

use crate::{PATIENCE, Place, bytes_below, child_of, files, kill, text, wait_for};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

/// With an old tree in the destination, of which the new one has large parts, and with more in it
/// than the source has; killed again and again, with changed parts and deletion on.
fn kill_while_it_changes(receiver: bool) {
    let place = Place::new();
    place.fill();
    let (source, destination) = (place.path("source"), place.path("destination"));
    let old = |path: &Path| {
        fs::create_dir_all(destination.join("extra/deep")).expect("directories");
        let mut bytes = fs::read(source.join("large")).expect("a file");
        // What is in front moves all that follows; the changes are all over it.
        bytes.splice(0..0, *b"in front");
        for at in (0..bytes.len()).step_by(3 << 20) {
            bytes[at] ^= 1;
        }
        fs::write(path, bytes).expect("a file");
        let long_ago = std::time::UNIX_EPOCH;
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(long_ago).expect("a time");
        fs::write(destination.join("extra/deep/gone"), "x").expect("a file");
        fs::write(destination.join("kept.o"), "x").expect("a file");
    };
    let large = destination.join("large");
    let run = || {
        let mut command = place.send(true);
        command.args([
            "--delta", "always", "--delete", "--filter", "- *.o", "--json",
        ]);
        command
    };
    let right = files(&source);
    let mut killed = 0;
    for step in 0..8u64 {
        if step % 4 == 0 {
            fs::create_dir_all(&destination).expect("a directory");
            old(&large);
        }
        let before = fs::read(&large).expect("a file");
        let mut command = run();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut sender = command.spawn().expect("a process");
        let there = bytes_below(&destination);
        if wait_for(
            &mut sender,
            &destination,
            there + 1 + (step % 4) * (20 << 20),
        ) {
            let victim = match receiver {
                true => child_of(sender.id()),
                false => Some(sender.id()),
            };
            if let Some(victim) = victim {
                kill(victim);
                killed += 1;
            }
        }
        sender.wait().expect("an end");
        let now = fs::read(&large).expect("a file");
        assert!(now == before || now == right[Path::new("large")], "{step}");
        // Nothing goes before all that comes is there.
        let extra = destination.join("extra/deep/gone").exists();
        let whole = right.keys().all(|path| destination.join(path).exists());
        assert!(extra || whole, "{step}");
        assert!(destination.join("kept.o").exists());
    }
    assert!(killed >= 3, "{killed} kills met a running transfer");
    let begun = Instant::now();
    let last = loop {
        let output = run().output().expect("a process");
        let busy = output.status.code() == Some(52) && text(&output).contains("another transfer");
        if !busy || begun.elapsed() > PATIENCE {
            break output;
        }
    };
    assert!(last.status.success(), "{}", text(&last));
    fs::remove_file(destination.join("kept.o")).expect("a file that was kept");
    assert!(files(&destination) == right);
    assert!(!destination.join("extra").exists());
    assert!(!destination.join(".holdfast-transfer").exists());
}

#[test]
fn a_sender_that_is_killed_while_parts_change_and_others_go_comes_to_its_end() {
    kill_while_it_changes(false);
}

#[test]
fn a_receiver_that_is_killed_while_parts_change_and_others_go_is_gone_on_with() {
    kill_while_it_changes(true);
}

#[test]
fn a_dry_run_through_ssh_tells_in_json_and_changes_nothing() {
    let place = Place::new();
    place.fill();
    let destination = place.path("destination");
    fs::create_dir(&destination).expect("a directory");
    fs::write(destination.join("extra"), "x").expect("a file");
    let run = |more: &[&str]| {
        let output = place.send(true).args(more).output().expect("a process");
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let told = run(&["--dry-run", "--delete", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["files"], 301);
    assert_eq!(told["dry_run"]["to_delete"], 1);
    let steps = told["dry_run"]["plan"].as_array().expect("steps");
    let of = |word: &str| steps.iter().filter(|step| step["what"] == word).count();
    assert_eq!((of("new"), of("delete")), (302, 1));
    assert_eq!(fs::read_dir(&destination).expect("entries").count(), 1);
    let words = run(&["-n", "--delete"]);
    assert!(words.contains("delete   extra\n"), "{words}");
    assert!(words.contains("nothing was changed; 301 files"), "{words}");
    let done = run(&["--delete", "--bwlimit", "1g"]);
    assert!(
        done.contains("1 object that the source does not have"),
        "{done}"
    );
    assert_eq!(place.check("at the end"), 301);
}
