//! Files on ext4, on ext4 on a volume, and on a mounted volume: what fsync(2) returned for is there, and
//! the file system is sound.

use crate::points::{self, Point};
use crate::processes::{Mounted, Serving, ends_with, tool};
use crate::recording::{Marks, Recording};
use crate::shown::{Served, Shown};
use env::Rng;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use volume::device::Device;
use volume::directory::{self, Tree};
use volume::trace::Cut;
use volume::{ObjectId, Options, Volume};

const FILES: i64 = 120;

/// The content of a file.
fn content(number: i64) -> Vec<u8> {
    let mut rng = Rng::new(number as u64);
    let mut bytes = vec![0; 1 + rng.index(60_000)];
    rng.fill(&mut bytes);
    bytes
}

/// Writes files, each under another name first, and says of each that it is done.
fn work(place: &Path, marks: &Marks, flushes: bool) {
    let directory = File::open(place).unwrap();
    for number in 1..=FILES {
        let draft = place.join("draft");
        let mut file = File::create(&draft).unwrap();
        file.write_all(&content(number)).unwrap();
        if flushes {
            file.sync_all().unwrap();
        }
        fs::rename(&draft, place.join(number.to_string())).unwrap();
        if flushes {
            directory.sync_all().unwrap();
        }
        // Others come and go without being waited for.
        let passing = place.join(format!("passing{}", number % 7));
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
    work(&mounted.at(""), &recorder.marks(), flushes);
    mounted.unmount();
    recorder.stop();
    recording
}

/// The first file that was done and is not there as it was.
fn lost(place: &Path, done: i64) -> Option<String> {
    (1..=done).find_map(|number| {
        let mut found = Vec::new();
        let read = File::open(place.join(number.to_string()))
            .and_then(|mut file| file.read_to_end(&mut found));
        match read {
            Ok(_) if found == content(number) => None,
            Ok(_) => Some(format!("file {number} is not what it was")),
            Err(error) => Some(format!("file {number}: {error}")),
        }
    })
}

/// What is wrong on a cut.
fn problem(recording: &Recording, shown: &Shown, done: i64) -> Option<String> {
    let mounted = Mounted::new(&[&shown.device], &recording.tree());
    let lost = lost(&mounted.at(""), done);
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
    points::each(&recording, points::wanted(120), |point, cut| {
        if let Some(problem) = problem_of(&recording, point, cut) {
            panic!("{}: {problem}", point.name());
        }
    });
}

#[test]
fn what_was_synced_is_there_after_every_cut_below_a_volume() {
    let recording = Recording::new(160);
    let words = [
        "volume",
        "create",
        &recording.image,
        "--device-bytes",
        "64M",
    ];
    ends_with(0, &[&words[..], &["--segment-bytes", "256K"]].concat());
    let shown = recording.cut();
    let serve = |disk| Serving::start(&["volume", "serve", disk, "--file", &shown, "--loop"]);
    let serving = serve(&recording.image);
    tool("mkfs.ext4", &["-q", serving.device()]);
    serving.stop();
    let recorder = recording.start(&[]);
    let serving = serve(recorder.file());
    let mounted = Mounted::new(&[serving.device()], &recording.point());
    work(&mounted.at(""), &recorder.marks(), true);
    mounted.unmount();
    serving.stop();
    recorder.stop();
    points::each(&recording, points::wanted(60), |point, cut| {
        let name = point.name();
        let volume = Volume::open(vec![Arc::new(cut.image)], Options::default());
        let volume = Arc::new(volume.unwrap_or_else(|error| panic!("{name}: {error}")));
        let device = Device::new(volume.clone(), ObjectId(1)).expect("create made it");
        let shown = Shown::new(device, &recording.cut());
        if let Some(problem) = problem(&recording, &shown, point.done) {
            panic!("{name}: {problem}");
        }
        drop(shown);
        let report = volume.check(&mut |_, _| {}).expect("it can be read");
        assert!(report.damaged.is_empty(), "{name}: {:?}", report.damaged);
    });
}

fn record_mounted(flushes: bool) -> Recording {
    let recording = Recording::new(96);
    let words = ["volume", "create", &recording.image, "--directory"];
    ends_with(0, &[&words[..], &["--segment-bytes", "256K"]].concat());
    let recorder = recording.start(&[]);
    let place = recording.point();
    let serving = Serving::start(&["volume", "mount", recorder.file(), &place]);
    work(Path::new(&place), &recorder.marks(), flushes);
    serving.stop();
    recorder.stop();
    recording
}

/// What is wrong on a cut below a mounted volume.
fn problem_mounted(recording: &Recording, point: &Point, cut: Cut) -> Option<String> {
    let volume = match Volume::open(vec![Arc::new(cut.image)], Options::default()) {
        Ok(volume) => volume,
        Err(error) => return Some(error.to_string()),
    };
    let report = volume.check(&mut |_, _| {}).expect("it can be read");
    let tree = directory::check(&volume, &report.damaged).expect("it can be read");
    let problems = tree.expect("a tree").problems;
    if !report.damaged.is_empty() || !problems.is_empty() {
        return Some(format!("{:?} {problems:?}", report.damaged));
    }
    let served = Served::new(
        Arc::new(Tree::open(volume).expect("a tree")),
        &recording.cut(),
    );
    let lost = lost(Path::new(&recording.cut()), point.done);
    served.stop();
    lost
}

#[test]
fn what_was_synced_is_there_after_every_cut_of_a_mounted_volume() {
    let recording = record_mounted(true);
    points::each(&recording, points::wanted(200), |point, cut| {
        if let Some(problem) = problem_mounted(&recording, point, cut) {
            panic!("{}: {problem}", point.name());
        }
    });
}

#[test]
fn a_program_that_does_not_sync_is_found_on_a_mounted_volume() {
    let recording = record_mounted(false);
    points::need_found(&recording, |point, cut| {
        problem_mounted(&recording, point, cut).is_some()
    });
}

#[test]
fn a_program_that_does_not_sync_is_found() {
    let recording = record(false);
    points::need_found(&recording, |point, cut| {
        problem_of(&recording, point, cut).is_some()
    });
}
