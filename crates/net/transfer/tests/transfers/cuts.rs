//! Connections that are cut or damaged at any byte: the transfer is called again until it ends, and
//! no wrong byte is ever in place.

use crate::place::{Place, files, harming, noise};
use env::real::{RealClock, RealNet, connected_pair};
use env::sim::{Harm, harmed};
use env::{Clock, Rng, Stream};
use holdfast_transfer::{
    Destination, Level, Options, Plant, Report, STAGING, Settings, TransferError, receive, send,
};
use rpc::{Connection, Limits, Role};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The side that is harmed.
#[derive(Clone)]
pub(crate) struct Victim {
    role: Role,
    harm: Harm,
    /// The bytes that it has received.
    received: Arc<AtomicU64>,
}

impl Victim {
    pub(crate) fn new(role: Role, harm: Harm) -> Option<Victim> {
        Some(Victim {
            role,
            harm,
            received: Arc::default(),
        })
    }

    /// How many bytes the side has received.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

fn victim(role: Role, harm: Harm) -> Option<Victim> {
    Victim::new(role, harm)
}

/// One attempt over a connection that is harmed for the receiver, or for the sender.
fn attempt(
    source: &Path,
    destination: &Path,
    level: Level,
    victim: Option<Victim>,
) -> Result<Report, TransferError> {
    let options = Options {
        level,
        patience: Duration::from_secs(60),
        ..Options::default()
    };
    attempt_with(source, destination, &options, victim)
}

/// The same with other options.
pub(crate) fn attempt_with(
    source: &Path,
    destination: &Path,
    options: &Options,
    victim: Option<Victim>,
) -> Result<Report, TransferError> {
    let settings = Settings {
        patience: Duration::from_secs(60),
        ..Settings::default()
    };
    attempt_as(source, destination, options, &settings, victim)
}

/// The same with other settings.
pub(crate) fn attempt_as(
    source: &Path,
    destination: &Path,
    options: &Options,
    settings: &Settings,
    victim: Option<Victim>,
) -> Result<Report, TransferError> {
    let (here, there) = connected_pair().unwrap();
    let through = |stream: Arc<dyn Stream>, role| -> Arc<dyn Stream> {
        match &victim {
            Some(victim) if victim.role == role => {
                harmed(stream, victim.harm, victim.received.clone())
            }
            _ => stream,
        }
    };
    let (here, there) = (through(here, Role::Client), through(there, Role::Server));
    let limits = Limits::default();
    let soon = || RealClock.now().after(Duration::from_secs(60));
    std::thread::scope(|scope| {
        let server = Connection::start(there, &RealNet, Role::Server, limits)?;
        let client = Connection::start(here, &RealNet, Role::Client, limits)?;
        let receiving = scope.spawn(move || {
            let received = receive(Destination::At(destination), &server, &RealClock, settings);
            match received {
                Ok(()) => server.close(soon()).map_err(TransferError::from),
                Err(error) => Err(error),
            }
        });
        let sent = send(source, &client, &RealClock, options, &mut |_| ());
        let _ended = sent.is_ok().then(|| client.close(soon()));
        let received = receiving.join().unwrap();
        // A side that is told nothing wrong has done its part.
        let report = sent?;
        drop(received);
        Ok(report)
    })
}

/// Sends until the receiver has received so many bytes.
pub(crate) fn cut_short(
    source: &Path,
    destination: &Path,
    bytes: u64,
) -> Result<Report, TransferError> {
    let cut = victim(Role::Server, Harm::Cut(bytes));
    attempt(source, destination, Level::Device, cut)
}

/// What is in place is what was to be sent, in whole.
fn only_right_files(source: &BTreeMap<PathBuf, Vec<u8>>, destination: &Path, what: &str) {
    for (path, content) in files(destination) {
        let right = source.get(&path);
        assert!(right == Some(&content), "{what}: {path:?} is wrong");
    }
}

fn small_tree(root: &Path) {
    fs::create_dir_all(root.join("dir")).unwrap();
    for number in 0..12 {
        let name = root.join("dir").join(format!("f{number}"));
        fs::write(name, noise(number, 700 * number as usize)).unwrap();
    }
    fs::write(root.join("last"), noise(99, 9000)).unwrap();
}

/// Bytes of a conversation, one way.
fn length_of(source: &Path, destination: &Path, role: Role) -> u64 {
    let untouched = victim(role, Harm::Cut(u64::MAX));
    let whole = attempt(source, destination, Level::Cache, untouched.clone());
    assert!(whole.unwrap().is_whole());
    untouched.map_or(0, |victim| victim.received())
}

#[test]
fn a_transfer_that_is_cut_anywhere_leaves_only_whole_files_and_goes_on() {
    harm_everywhere("cut", Harm::Cut);
}

#[test]
fn a_bit_that_is_flipped_anywhere_is_found() {
    harm_everywhere("flip", Harm::Flip);
}

fn harm_everywhere(what: &str, harm: impl Fn(u64) -> Harm) {
    let place = Place::new();
    small_tree(&place.source);
    let right = files(&place.source);
    let mut rng = Rng::new(7);
    let mut met_harm = 0;
    for role in [Role::Server, Role::Client] {
        let all = length_of(&place.source, &place.path(&format!("{role:?}")), role);
        for number in 0..60 {
            let at = rng.below(all);
            let what = format!("{what} at {at} of what the {role:?} receives");
            let destination = place.path(&format!("{role:?}{number}"));
            let first = attempt(
                &place.source,
                &destination,
                Level::Cache,
                victim(role, harm(at)),
            );
            only_right_files(&right, &destination, &what);
            met_harm += usize::from(first.is_err());
            let then = attempt(&place.source, &destination, Level::Cache, None).expect(&what);
            assert!(then.is_whole(), "{what}: {:?}", then.problems);
            assert!(files(&destination) == right, "{what}");
            fs::remove_dir_all(&destination).unwrap();
        }
    }
    assert!(met_harm > 100, "{met_harm} of 120 met the conversation");
}

#[test]
fn a_large_file_goes_on_where_it_was_proved() {
    const LENGTH: usize = 150 << 20;
    let place = Place::with_file(noise(5, LENGTH));
    let first = cut_short(&place.source, &place.destination, 140 << 20);
    assert!(first.is_err(), "{first:?}");
    assert!(files(&place.destination).is_empty());
    let then = attempt(&place.source, &place.destination, Level::Device, None).unwrap();
    assert!(then.is_whole());
    // What was in the receiver's memory when it was cut is sent again, and nothing else.
    let resumed = then.bytes_resumed;
    assert!(resumed >= (140 - UNDER_WAY_MIB) << 20, "{resumed}");
    assert_eq!(then.bytes_sent + resumed, LENGTH as u64);
    assert!(files(&place.destination) == files(&place.source));
    assert!(!place.destination.join(STAGING).exists());
}

/// The window of the stream (4 MiB), a range, and what frames and checksums add to 140 MiB.
const UNDER_WAY_MIB: u64 = 6;

#[test]
fn small_files_that_were_not_proved_yet_are_not_sent_twice() {
    const FILE: usize = 50_000;
    let place = Place::new();
    fs::create_dir(&place.source).unwrap();
    for number in 0..600 {
        fs::write(place.source.join(number.to_string()), noise(number, FILE)).unwrap();
    }
    // All of it is one batch, so that nothing is in place.
    let first = cut_short(&place.source, &place.destination, 25 << 20);
    assert!(first.is_err(), "{first:?}");
    assert!(files(&place.destination).is_empty());
    let staged = place.destination.join(STAGING);
    let spoiled = {
        let parts = fs::read_dir(&staged)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut parts: Vec<PathBuf> = parts
            .filter(|it| it.extension().is_some_and(|it| it == "part"))
            .collect();
        parts.sort();
        // A page of one is lost, another is cut short, as after a loss of power.
        let lose = |path: &Path| fs::File::options().write(true).open(path).unwrap();
        lose(&parts[1]).write_all_at(&[0; 4096], 8192).unwrap();
        lose(&parts[2]).set_len(20_000).unwrap();
        4096 + FILE as u64 - 16_384
    };
    let then = attempt(&place.source, &place.destination, Level::Device, None).unwrap();
    assert!(then.is_whole(), "{:?}", then.problems);
    assert_eq!(then.bytes_sent + then.bytes_resumed, 600 * FILE as u64);
    assert!(
        then.bytes_resumed >= ((25 - UNDER_WAY_MIB) << 20) - spoiled,
        "{then:?}"
    );
    assert!(then.bytes_sent >= spoiled);
    assert!(files(&place.destination) == files(&place.source));
    assert!(!staged.exists());
}

/// Whatever is in the parts that a cut has left: wrong bytes never get into place.
#[test]
fn what_a_cut_has_left_is_not_believed() {
    let place = Place::with_file(noise(5, 40 << 20));
    let mut rng = Rng::new(4);
    for round in 0..6 {
        cut_short(&place.source, &place.destination, 20 << 20).unwrap_err();
        let staged = place.destination.join(STAGING);
        let mut spoilt = 0;
        for entry in fs::read_dir(&staged).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let held = round % 2 == 1 && name.ends_with(".held");
            if !name.ends_with(".part") && !held {
                continue;
            }
            let file = fs::File::options().write(true).open(&path).unwrap();
            let length = file.metadata().unwrap().len();
            for _ in 0..20 {
                file.write_all_at(&[rng.below(256) as u8], rng.below(length.max(1)))
                    .unwrap();
            }
            file.set_len(rng.below(length + 10_000)).unwrap();
            spoilt += 1;
        }
        assert!(spoilt > 0);
        let then = attempt(&place.source, &place.destination, Level::Cache, None).unwrap();
        assert!(then.is_whole(), "round {round}: {:?}", then.problems);
        assert!(
            files(&place.destination) == files(&place.source),
            "round {round}"
        );
        fs::remove_dir_all(&place.destination).unwrap();
    }
}

/// A part that was proved at a lower level, or of another file, is not gone on with.
#[test]
fn what_was_proved_of_another_source_or_at_a_lower_level_does_not_count() {
    let place = Place::with_file(noise(5, 120 << 20));
    let cut = || victim(Role::Server, Harm::Cut(115 << 20));
    attempt(&place.source, &place.destination, Level::Wire, cut()).unwrap_err();
    // A page that nobody has read back is not believed at a level that asks for it.
    let staged = fs::read_dir(place.destination.join(STAGING)).unwrap();
    let mut paths = staged.map(|entry| entry.unwrap().path());
    let part = paths.find(|it| it.extension().is_some_and(|it| it == "part"));
    let part = fs::File::options().write(true).open(part.unwrap()).unwrap();
    part.write_all_at(b"?", 1 << 20).unwrap();
    let then = attempt(&place.source, &place.destination, Level::Device, None).unwrap();
    assert!(then.is_whole() && then.bytes_sent >= 4096 && then.bytes_resumed > 0);
    assert!(files(&place.destination) == files(&place.source));
    fs::remove_file(place.destination.join("file")).unwrap();
    attempt(&place.source, &place.destination, Level::Wire, cut()).unwrap_err();
    fs::write(place.source.join("file"), noise(6, 120 << 20)).unwrap();
    let then = attempt(&place.source, &place.destination, Level::Device, None).unwrap();
    assert_eq!(then.bytes_resumed, 0);
    assert!(files(&place.destination) == files(&place.source));
}

/// The canaries of what goes on after a cut, each with what hides it taken away: a proof that would
/// repair it.
#[test]
fn planted_bugs_in_what_goes_on_are_found() {
    for (plant, found) in [
        (None, false),
        (Some(Plant::NoteAhead), true),
        (Some(Plant::HeldBelieved), true),
    ] {
        let place = Place::with_file(noise(5, 100 << 20));
        let settings = Settings {
            plant,
            patience: Duration::from_secs(60),
            ..Settings::default()
        };
        let options = Options {
            level: Level::Wire,
            patience: Duration::from_secs(60),
            ..Options::default()
        };
        let go = |victim| {
            attempt_as(
                &place.source,
                &place.destination,
                &options,
                &settings,
                victim,
            )
        };
        go(victim(Role::Server, Harm::Cut(85 << 20))).unwrap_err();
        for entry in fs::read_dir(place.destination.join(STAGING)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "part") {
                // What was written last is lost with the power.
                let file = fs::File::options().write(true).open(path).unwrap();
                let length = file.metadata().unwrap().len();
                file.write_all_at(&[0; 4096], length / 4096 * 4096 - 8192)
                    .unwrap();
            }
        }
        let then = go(None);
        let wrong = files(&place.destination) != files(&place.source);
        assert_eq!(wrong, found, "{plant:?}: {then:?}");
    }
}

/// The canary of these tests: a file that is changed between its sync and its proof is put right by that,
/// and is found by them where the proof is left out.
#[test]
fn a_receiver_that_proves_nothing_is_found() {
    for plant in [None, Some(Plant::NoProof)] {
        let place = Place::new();
        small_tree(&place.source);
        let harmed = std::sync::Mutex::new(std::collections::HashSet::new());
        let harm = move |file: &std::os::fd::OwnedFd| {
            // Once: what is sent again stays right.
            if harmed
                .lock()
                .unwrap()
                .insert(rustix::fs::fstat(file).unwrap().st_ino)
            {
                rustix::io::pwrite(file, b"?", 3).unwrap();
                rustix::fs::fsync(file).unwrap();
            }
        };
        let settings = Settings {
            plant,
            ..harming(harm)
        };
        assert!(place.send(Level::Device, &settings).unwrap().is_whole());
        let right = files(&place.source);
        let look = || only_right_files(&right, &place.destination, "planted");
        assert_eq!(std::panic::catch_unwind(look).is_err(), plant.is_some());
    }
}
