//! ext4: what fsync(2) returned for is there, and the file system is sound.

use crate::points::{self, Point};
use crate::processes::Mounted;
use crate::recording::{Marks, Recording};
use crate::shown::Shown;
use env::Rng;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Command;
use volume::trace::Cut;

const FILES: i64 = 120;

/// The content of a file.
fn content(number: i64) -> Vec<u8> {
    let mut rng = Rng::new(number as u64);
    let mut bytes = vec![0; 1 + rng.index(60_000)];
    rng.fill(&mut bytes);
    bytes
}

/// Writes files, each under another name first, and says of each that it is done.
fn work(mounted: &Mounted, marks: &Marks, flushes: bool) {
    let directory = File::open(mounted.at("")).unwrap();
    for number in 1..=FILES {
        let draft = mounted.at("draft");
        let mut file = File::create(&draft).unwrap();
        file.write_all(&content(number)).unwrap();
        if flushes {
            file.sync_all().unwrap();
        }
        fs::rename(&draft, mounted.at(&number.to_string())).unwrap();
        if flushes {
            directory.sync_all().unwrap();
        }
        // Others come and go without being waited for.
        let passing = mounted.at(&format!("passing{}", number % 7));
        fs::write(&passing, content(number + 1)).unwrap();
        if number % 3 == 0 {
            fs::remove_file(&passing).unwrap();
        }
        marks.mark(&number.to_string());
    }
}

fn record(flushes: bool) -> Recording {
    let recording = Recording::new(64);
    recording.prepare_ext4(|_| {});
    let recorder = recording.start(&["--loop"]);
    let mounted = Mounted::new(&[recorder.device()], &recording.point());
    work(&mounted, &recorder.marks(), flushes);
    mounted.unmount();
    recorder.stop();
    recording
}

/// What is wrong on a cut.
fn problem(recording: &Recording, shown: &Shown, done: i64) -> Option<String> {
    let mounted = Mounted::new(&[&shown.device], &recording.tree());
    let lost = (1..=done).find_map(|number| {
        let mut found = Vec::new();
        let read = File::open(mounted.at(&number.to_string()))
            .and_then(|mut file| file.read_to_end(&mut found));
        match read {
            Ok(_) if found == content(number) => None,
            Ok(_) => Some(format!("file {number} is not what it was")),
            Err(error) => Some(format!("file {number}: {error}")),
        }
    });
    mounted.unmount();
    let fsck = Command::new("e2fsck").args(["-fn", &shown.device]).output();
    let fsck = fsck.expect("e2fsck runs");
    lost.or_else(|| {
        let said = String::from_utf8_lossy(&fsck.stdout).into_owned();
        (!fsck.status.success()).then_some(said)
    })
}

/// The same, of a cut.
fn problem_of(recording: &Recording, point: &Point, cut: Cut) -> Option<String> {
    let shown = Shown::new(cut.image, &recording.cut());
    problem(recording, &shown, point.done)
}

#[test]
fn what_was_synced_is_there_after_every_cut() {
    let recording = record(true);
    points::each(&recording, points::wanted(200), |point, cut| {
        if let Some(problem) = problem_of(&recording, point, cut) {
            panic!("{}: {problem}", point.name());
        }
    });
}

#[test]
fn a_program_that_does_not_sync_is_found() {
    let recording = record(false);
    points::need_found(&recording, |point, cut| {
        problem_of(&recording, point, cut).is_some()
    });
}
