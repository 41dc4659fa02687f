//! The receiver of a tree: whatever a loss of power leaves of it, a file is the old one or the new one,
//! what was acknowledged is there, nothing is deleted too early, and the transfer goes on.

use crate::points::{self, Point};
use crate::processes::Mounted;
use crate::recording::Recording;
use crate::shown::Shown;
use ::transfer::{Deletion, Delta, Level, Options, Plant, Progress, Settings, local};
use env::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use volume::trace::Cut;

/// Small files; every third has an old one in the destination.
const SMALL: u64 = 1500;

/// The large file; of its old form much is the same.
const LARGE: usize = 5 << 20;

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

fn new(number: u64) -> Vec<u8> {
    noise(number, 100 + (number as usize * 37) % 9000)
}

fn large(is_new: bool) -> Vec<u8> {
    let mut bytes = noise(1 << 20, LARGE);
    if is_new {
        bytes.splice(1000..1000, noise(7, 5000));
        bytes[LARGE / 2] ^= 1;
    }
    bytes
}

fn source(root: &Path) {
    fs::create_dir_all(root.join("d")).expect("directories");
    for number in 0..SMALL {
        fs::write(root.join("d").join(number.to_string()), new(number)).expect("a file");
    }
    fs::write(root.join("large"), large(true)).expect("a file");
}

/// What is there before.
fn old(root: &Path) {
    fs::create_dir_all(root.join("d/extra")).expect("directories");
    for number in (0..SMALL).step_by(3) {
        let path = root.join("d").join(number.to_string());
        fs::write(path, format!("old {number}")).expect("a file");
        fs::write(root.join("d/extra").join(number.to_string()), "extra").expect("a file");
    }
    fs::write(root.join("large"), large(false)).expect("a file");
}

fn options() -> Options {
    Options {
        level: Level::Cache,
        delta: Delta::Always,
        delete: Some(Deletion::default()),
        ..Options::default()
    }
}

fn record(settings: &Settings) -> (Recording, PathBuf) {
    let recording = Recording::new(96);
    let from = PathBuf::from(recording.path("source"));
    source(&from);
    recording.prepare_ext4(|mounted| old(&mounted.at("tree")));
    let recorder = recording.start(&["--loop"]);
    let mounted = Mounted::new(&[recorder.device()], &recording.point());
    let marks = recorder.marks();
    marks.mark("0");
    let mut files = 0;
    let mut show = |progress: Progress| {
        if progress.files > files {
            files = progress.files;
            marks.mark(&files.to_string());
        }
    };
    let sent = local(&from, &mounted.at("tree"), &options(), settings, &mut show);
    assert!(sent.expect("it goes well").is_whole());
    drop(marks);
    mounted.unmount();
    recorder.stop();
    (recording, from)
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let path = entry.path();
            let relative = path
                .strip_prefix(root)
                .expect("below the root")
                .to_path_buf();
            match path.is_dir() {
                true if relative.starts_with(".holdfast-transfer") => {}
                true => open.push(path),
                // What cannot be read is wrong.
                false => drop(found.insert(relative, fs::read(&path).unwrap_or_default())),
            }
        }
    }
    found
}

/// What is wrong with the tree on a cut.
fn wrong(there: &BTreeMap<PathBuf, Vec<u8>>, done: i64) -> Option<String> {
    let mut in_place = 0;
    for number in 0..SMALL {
        let path = Path::new("d").join(number.to_string());
        let old = number
            .is_multiple_of(3)
            .then(|| format!("old {number}").into_bytes());
        match there.get(&path) {
            Some(found) if *found == new(number) => in_place += 1,
            found if found == old.as_ref() => {}
            _ => return Some(format!("{} is neither old nor new", path.display())),
        }
    }
    match there.get(Path::new("large")) {
        Some(found) if *found == large(true) => in_place += 1,
        Some(found) if *found == large(false) => {}
        _ => return Some("the large file is neither old nor new".to_owned()),
    }
    if in_place < done {
        return Some(format!(
            "{done} files were acknowledged, {in_place} are in place"
        ));
    }
    let extra = there
        .keys()
        .filter(|path| path.starts_with("d/extra"))
        .count();
    let all = in_place == SMALL as i64 + 1;
    (extra < SMALL.div_ceil(3) as usize && !all).then(|| "what was extra went too early".to_owned())
}

/// The same of a cut, and of the transfer that goes on with it where that is asked for.
fn problem(
    recording: &Recording,
    from: &Path,
    point: &Point,
    cut: Cut,
    goes_on: bool,
) -> Option<String> {
    let shown = Shown::new(cut.image, &recording.cut());
    let mounted = Mounted::new(&[&shown.device], &recording.tree());
    let to = mounted.at("tree");
    let mut found = wrong(&files(&to), point.done);
    if found.is_none() && goes_on {
        let sent = local(from, &to, &options(), &Settings::default(), &mut |_| ());
        found = match sent {
            Ok(report) if !report.is_whole() => Some(format!("{:?}", report.problems)),
            Err(error) => Some(error.to_string()),
            Ok(_) => (files(&to) != files(from)).then(|| "it does not go on rightly".to_owned()),
        };
    }
    mounted.unmount();
    found
}

#[test]
fn a_receiver_that_loses_power_leaves_whole_files_and_goes_on() {
    let (recording, from) = record(&Settings::default());
    points::each(&recording, points::wanted(20), |point, cut| {
        if let Some(problem) = problem(&recording, &from, point, cut, true) {
            panic!("{}: {problem}", point.name());
        }
    });
}

fn planted(plant: Plant) {
    let settings = Settings {
        plant: Some(plant),
        ..Settings::default()
    };
    let (recording, from) = record(&settings);
    points::need_found(&recording, |point, cut| {
        problem(&recording, &from, point, cut, false).is_some()
    });
}

#[test]
fn a_receiver_that_renames_before_it_syncs_is_found() {
    planted(Plant::NoSync);
}

#[test]
fn a_receiver_that_deletes_early_is_found() {
    planted(Plant::EarlyDeletion);
}
