//! Files that are on both sides: what of them crosses the wire, and that nothing wrong is made of it.

use crate::cuts::{Victim, attempt_with};
use crate::place::{Place, files, harming, noise};
use env::Rng;
use env::sim::Harm;
use holdfast_transfer::{Delta, Level, Options, Report, Settings, local};
use rpc::Role;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

fn options(level: Level, delta: Delta) -> Options {
    Options {
        level,
        delta,
        patience: Duration::from_secs(60),
        ..Options::default()
    }
}

fn send(place: &Place, level: Level, delta: Delta, settings: &Settings) -> Report {
    let (source, destination) = (&place.source, &place.destination);
    let sent = local(
        source,
        destination,
        &options(level, delta),
        settings,
        &mut |_| (),
    );
    sent.unwrap()
}

/// Puts `content` where the file is to go.
fn old(place: &Place, content: &[u8]) {
    fs::create_dir_all(&place.destination).unwrap();
    fs::write(place.destination.join("file"), content).unwrap();
    long_ago(&place.destination.join("file"));
}

/// Files that were made within one tick of the clock would be compared.
fn long_ago(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH).unwrap();
}

fn arrived(place: &Place, what: &str) {
    assert!(files(&place.destination) == files(&place.source), "{what}");
}

/// The same bytes with changes of all kinds in them.
fn changed(before: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut after = before.to_vec();
    for _ in 0..4 {
        let at = rng.index(after.len() - 10_000);
        let length = 1 + rng.index(9000);
        match rng.below(4) {
            0 => after[at..at + length].fill(7),
            1 => drop(after.drain(at..at + length)),
            2 => drop(after.splice(at..at, noise(seed, length))),
            // A part that moves.
            _ => {
                let part: Vec<u8> = after.drain(at..at + length).collect();
                let to = rng.index(after.len());
                after.splice(to..to, part);
            }
        }
    }
    after
}

#[test]
fn only_changed_parts_are_sent() {
    for seed in 0..8 {
        let before = noise(seed, 6 << 20);
        let after = changed(&before, seed);
        let place = Place::with_file(&after);
        old(&place, &before);
        let report = send(&place, Level::Device, Delta::Always, &Settings::default());
        assert!(report.is_whole());
        assert_eq!(report.pages_resent, 0);
        assert_eq!(report.bytes_sent + report.bytes_reused, after.len() as u64);
        // Four changes, of at most three chunks of 64 KiB each.
        assert!(
            report.bytes_sent < 4 * 4 * (64 << 10),
            "{}",
            report.bytes_sent
        );
        arrived(&place, &format!("seed {seed}"));
    }
}

#[test]
fn a_file_that_has_nothing_in_common_or_is_short_is_sent_whole() {
    for (length, was) in [(3 << 20, 3 << 20), (60_000, 3 << 20), (3 << 20, 60_000)] {
        let place = Place::with_file(noise(1, length));
        old(&place, &noise(2, was));
        let report = send(&place, Level::Cache, Delta::Always, &Settings::default());
        assert_eq!((report.bytes_sent, report.bytes_reused), (length as u64, 0));
        arrived(&place, "whole");
    }
}

/// Between two directories of one machine whoever looks for parts has read as much as whoever
/// copies.
#[test]
fn between_directories_files_are_sent_whole_unless_it_is_asked_for() {
    let place = Place::with_file(noise(1, 1 << 20));
    old(&place, &noise(1, (1 << 20) - 1));
    let report = send(&place, Level::Cache, Delta::Auto, &Settings::default());
    assert_eq!(report.bytes_reused, 0);
}

#[test]
fn holes_stay_holes_on_both_sides() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let place = Place::with_file([]);
    let part = noise(3, 1 << 20);
    let file = fs::File::options()
        .write(true)
        .open(place.source.join("file"))
        .unwrap();
    for at in [0, 900 << 20, 3 << 30] {
        file.write_all_at(&part, at).unwrap();
    }
    file.set_len(1 << 40).unwrap();
    fs::create_dir(&place.destination).unwrap();
    let to = place.destination.join("file");
    let there = fs::File::create_new(&to).unwrap();
    there.write_all_at(&part, 40 << 30).unwrap();
    there.set_len(1 << 40).unwrap();
    long_ago(&to);
    let report = send(&place, Level::Device, Delta::Always, &Settings::default());
    assert!(
        report.is_whole() && report.bytes_sent < 1 << 20,
        "{report:?}"
    );
    let stat = fs::metadata(&to).unwrap();
    assert_eq!(stat.len(), 1 << 40);
    assert!(stat.blocks() * 512 < 8 << 20);
    let found = fs::File::open(&to).unwrap();
    let mut bytes = vec![0; part.len()];
    for at in [0, 900 << 20, 3 << 30] {
        found.read_exact_at(&mut bytes, at).unwrap();
        assert!(bytes == part);
    }
    found.read_exact_at(&mut bytes, 40 << 30).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
}

/// The old file is another when its parts are used than it was when it was listed: here a program
/// writes to it from the first sync on, when some of it was used already.
#[test]
fn an_old_file_that_is_written_to_meanwhile_spoils_nothing() {
    for level in [Level::Wire, Level::Device] {
        const LENGTH: usize = 120 << 20;
        let before = noise(1, LENGTH);
        let mut after = before.clone();
        after[5] ^= 1;
        let place = Place::with_file(&after);
        old(&place, &before);
        let (path, first) = (place.destination.join("file"), AtomicBool::new(true));
        let settings = harming(move |_| {
            if first.swap(false, Ordering::Relaxed) {
                fs::write(&path, vec![9; LENGTH]).unwrap();
            }
        });
        let report = send(&place, level, Delta::Always, &settings);
        assert!(report.is_whole(), "{:?}", report.problems);
        assert!(report.bytes_reused > 32 << 20);
        assert!(report.bytes_sent > 1 << 20, "what was spoiled came again");
        arrived(&place, level.name());
    }
}

/// As for whole files: what the disk does not keep is found, and sent again.
#[test]
fn a_part_that_the_disk_spoils_is_sent_again() {
    let before = noise(1, 2 << 20);
    let after = changed(&before, 5);
    let place = Place::with_file(&after);
    old(&place, &before);
    let first = Arc::new(AtomicBool::new(true));
    let settings = harming(move |file| {
        if first.swap(false, Ordering::Relaxed) {
            rustix::io::pwrite(file, b"?", 1 << 20).unwrap();
            rustix::fs::fsync(file).unwrap();
        }
    });
    let report = send(&place, Level::Device, Delta::Always, &settings);
    assert_eq!(report.pages_resent, 1);
    arrived(&place, "repaired");
}

/// Cut at any byte, with the old file in place until the new one is whole.
#[test]
fn a_delta_that_is_cut_anywhere_leaves_the_old_file_or_the_new_one_and_goes_on() {
    let before = noise(1, 10 << 20);
    let after = changed(&before, 3);
    let place = Place::with_file(&after);
    let options = options(Level::Cache, Delta::Always);
    let go = |victim| attempt_with(&place.source, &place.destination, &options, victim);
    let mut rng = Rng::new(9);
    let mut met = 0;
    // The list goes one way, the pieces the other.
    for role in [Role::Server, Role::Client] {
        let untouched = Victim::new(role, Harm::Cut(u64::MAX)).unwrap();
        old(&place, &before);
        assert!(go(Some(untouched.clone())).unwrap().bytes_reused > 8 << 20);
        let all = untouched.received();
        for round in 0..10 {
            let harm = match round % 3 {
                0 => Harm::Flip(rng.below(all)),
                _ => Harm::Cut(rng.below(all)),
            };
            old(&place, &before);
            met += usize::from(go(Victim::new(role, harm)).is_err());
            let there = fs::read(place.destination.join("file")).unwrap();
            assert!(there == before || there == after, "{role:?} {harm:?}");
            assert!(go(None).unwrap().is_whole());
            arrived(&place, &format!("{role:?} {harm:?}"));
            fs::remove_dir_all(&place.destination).unwrap();
        }
    }
    assert!(met >= 16, "{met} of 20 met the conversation");
}

/// Where nothing is known, parts are looked for.
#[test]
fn over_a_wire_changed_parts_are_sent_without_being_asked_for() {
    let before = noise(1, 4 << 20);
    let place = Place::with_file(changed(&before, 4));
    old(&place, &before);
    let options = options(Level::Cache, Delta::Auto);
    let report = attempt_with(&place.source, &place.destination, &options, None).unwrap();
    assert!(report.bytes_reused > 3 << 20, "{report:?}");
    arrived(&place, "auto");
    let again = attempt_with(&place.source, &place.destination, &options, None).unwrap();
    assert_eq!((again.kept, again.bytes_sent), (1, 0));
}

/// Many files at once: lists are asked for ahead, within their bound.
#[test]
fn many_files_that_differ_come_by_their_parts() {
    let place = Place::new();
    let write = |root: &Path, number: usize, content: &[u8]| {
        fs::create_dir_all(root).unwrap();
        let path = root.join(number.to_string());
        fs::write(&path, content).unwrap();
        if *root == place.destination {
            long_ago(&path);
        }
    };
    let mut all = 0;
    for number in 0..150 {
        let before = noise(number as u64, 70_000 + number * 3000);
        let after = changed(&before, number as u64);
        write(&place.destination, number, &before);
        write(&place.source, number, &after);
        all += after.len() as u64;
    }
    let report = send(&place, Level::Device, Delta::Always, &Settings::default());
    assert!(report.is_whole());
    assert_eq!(report.bytes_sent + report.bytes_reused, all);
    assert!(report.bytes_reused > all / 4, "{report:?}");
    arrived(&place, "many");
}
