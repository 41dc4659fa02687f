//! Everything at once: connections that are cut or damaged, pages that change on the disk between
//! their sync and their proof, and what a cut has left being changed; again and again, until the
//! transfer ends. No wrong byte is ever in place, and no more crosses the wire than what was lost.

use crate::cuts::{Victim, attempt_as};
use crate::place::{Place, files, harming, noise};
use env::Rng;
use env::sim::Harm;
use holdfast_transfer::{Level, Options, Plant, STAGING};
use parking_lot::Mutex;
use rpc::Role;
use rustix::fs::fstat;
use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// What a cut may cost: the window of the stream (4 MiB), a range, and what is said about it.
const CUT_BYTES: u64 = 7 * MIB;

/// What a page costs that comes again, or is compared again.
const PAGE_BYTES: u64 = PAGE + 256;

/// A file that is sent in several batches, and small ones.
fn fill(source: &Path, seed: u64) -> u64 {
    fs::create_dir_all(source.join("small")).unwrap();
    fs::write(source.join("large"), noise(seed, 40 << 20)).unwrap();
    for number in 0..150 {
        let name = source.join("small").join(number.to_string());
        fs::write(name, noise(seed + number, 60_000)).unwrap();
    }
    40 * MIB + 150 * 60_000
}

/// Changes a page of some of the files that are synced, each once; how many were.
fn ill(rng: Rng) -> (Arc<AtomicU64>, impl Fn(&OwnedFd) + Send + Sync) {
    let count = Arc::new(AtomicU64::new(0));
    let (counted, seen) = (count.clone(), Mutex::new((HashSet::new(), rng)));
    let harm = move |file: &OwnedFd| {
        let stat = fstat(file).unwrap();
        let (known, rng) = &mut *seen.lock();
        if known.insert(stat.st_ino) && rng.below(4) == 0 {
            let at = rng.below(stat.st_size.unsigned_abs());
            let mut byte = [0];
            rustix::io::pread(file, &mut byte, at).unwrap();
            rustix::io::pwrite(file, &[byte[0] ^ 1], at).unwrap();
            rustix::fs::fsync(file).unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
        }
    };
    (count, harm)
}

/// Changes a byte of some of the files that are not in place, but for those of which a part was
/// proved: nobody reads that again. How many were.
fn spoil(staging: &Path, rng: &mut Rng) -> u64 {
    let mut count = 0;
    for entry in fs::read_dir(staging).into_iter().flatten() {
        let path = entry.unwrap().path();
        let part = path.extension().is_some_and(|it| it == "part");
        if !part || path.with_extension("note").exists() || rng.below(3) > 0 {
            continue;
        }
        let file = fs::File::options().write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        if length > 0 {
            file.write_all_at(&[rng.below(256) as u8], rng.below(length))
                .unwrap();
            count += 1;
        }
    }
    count
}

/// What came of a storm.
struct Storm {
    /// Whether something wrong was ever in place, or something was not there at the end.
    wrong: bool,
    /// Bytes that the receiver has received.
    received: u64,
    /// What may have crossed the wire.
    bound: u64,
    /// Pages that were changed.
    harmed: u64,
}

/// Sends until it is done. With `forgets` what a cut has left is removed.
fn storm(seed: u64, plant: Option<Plant>, forgets: bool) -> Storm {
    let place = Place::new();
    let all = fill(&place.source, seed);
    let right = files(&place.source);
    let mut rng = Rng::new(seed);
    let options = Options {
        level: Level::Cache,
        patience: Duration::from_secs(60),
        ..Options::default()
    };
    let mut storm = Storm {
        wrong: false,
        received: 0,
        bound: all + MIB,
        harmed: 0,
    };
    for round in 0.. {
        let harm = match round {
            0..4 if rng.below(3) == 0 => Harm::Flip(rng.below(25 * MIB) + 5 * MIB),
            0..4 => Harm::Cut(rng.below(15 * MIB) + 15 * MIB),
            _ => Harm::None,
        };
        let victim = Victim::new(Role::Server, harm);
        let (changed, hook) = ill(Rng::new(rng.below(u64::MAX)));
        let mut settings = harming(hook);
        settings.plant = plant;
        let sent = attempt_as(
            &place.source,
            &place.destination,
            &options,
            &settings,
            victim.clone(),
        );
        storm.received += victim.map_or(0, |victim| victim.received());
        storm.harmed += changed.load(Ordering::SeqCst);
        for (path, content) in files(&place.destination) {
            storm.wrong |= right.get(&path) != Some(&content);
        }
        if let Ok(report) = sent {
            assert!(report.is_whole(), "seed {seed}: {:?}", report.problems);
            break;
        }
        assert!(harm != Harm::None, "seed {seed}: {sent:?}");
        storm.bound += CUT_BYTES;
        let staging = place.destination.join(STAGING);
        match forgets {
            true => fs::remove_dir_all(staging).unwrap(),
            false => storm.harmed += spoil(&staging, &mut rng),
        }
    }
    storm.wrong |= files(&place.destination) != right;
    storm.bound += storm.harmed * PAGE_BYTES;
    storm
}

#[test]
fn no_wrong_byte_is_in_place_and_no_right_one_sent_twice() {
    let mut harmed = 0;
    for seed in 1..=5 {
        let storm = storm(seed, None, false);
        assert!(!storm.wrong, "seed {seed}: something wrong was in place");
        let (received, bound) = (storm.received, storm.bound);
        assert!(received <= bound, "seed {seed}: {received} of {bound}");
        harmed += storm.harmed;
    }
    assert!(harmed > 100, "{harmed} pages were changed");
}

/// The canaries: a receiver that does not read back, and one that forgets what it had.
#[test]
fn a_storm_finds_who_believes_and_who_forgets() {
    assert!(storm(1, Some(Plant::NoProof), false).wrong);
    let forgetful = storm(1, None, true);
    assert!(forgetful.received > forgetful.bound);
}
