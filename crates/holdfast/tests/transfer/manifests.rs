//! Manifests of whole trees, through the command line.

use crate::trees::tree;
use crate::{PATIENCE, Place, text, text_of};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Most memory of a process so far, in KiB, while it is there (proc(5)).
fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_manifest_of_a_million_objects_is_verified_in_bounded_memory() {
    let place = Place::new();
    fs::write(place.path("one"), "x").expect("a file");
    fs::hard_link(place.path("one"), place.path("two")).expect("a link");
    let (manifest, dir) = (text_of(&place.path("manifest")), text_of(&place.path(".")));
    let made = tree(&["manifest", &manifest, "1000000"]);
    assert!(made.status.success(), "{}", text(&made));
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["verify", &manifest, &dir, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    // What it says is longer than a pipe.
    let mut said = child.stdout.take().expect("a pipe");
    let reading = std::thread::spawn(move || std::io::read_to_string(&mut said));
    let (begun, mut peak) = (Instant::now(), 0);
    let status = loop {
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    };
    let said = reading.join().expect("a thread").expect("text");
    assert_eq!(status.code(), Some(3), "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let count = |name: &str| said[name].as_u64().expect("a number");
    assert_eq!(
        (count("others"), count("others_listed")),
        (500_000, 1_000_000)
    );
    let named = said["differences"].as_array().expect("a list").len() as u64;
    assert_eq!(named + count("differences_more"), 500_000);
    assert!(peak > 1 << 10, "it was seen");
    assert!(peak < 100 << 10, "{peak} KiB");
}
