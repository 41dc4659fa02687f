//! Connections that are cut or damaged at any byte: the transfer is called again until it ends, and
//! no wrong byte is ever in place.

use env::real::{RealClock, RealNet, connected_pair};
use env::{Address, Clock, Moment, Rng, Stream};
use holdfast_transfer::{Level, Options, Report, STAGING, Settings, TransferError, receive, send};
use rpc::{Connection, Limits, Role};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What happens to what one side receives.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// The connection is lost after so many bytes.
    Cut(u64),
    /// One bit of this byte is flipped.
    Flip(u64),
}

struct Harmed {
    stream: Arc<dyn Stream>,
    harm: Harm,
    received: Arc<AtomicU64>,
}

/// The side that is harmed.
#[derive(Clone)]
struct Victim {
    role: Role,
    harm: Harm,
    /// The bytes that it has received.
    received: Arc<AtomicU64>,
}

fn victim(role: Role, harm: Harm) -> Option<Victim> {
    Some(Victim {
        role,
        harm,
        received: Arc::default(),
    })
}

impl Stream for Harmed {
    fn peer(&self) -> &Address {
        self.stream.peer()
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> env::Result<usize> {
        let before = self.received.load(Ordering::Relaxed);
        let most = match self.harm {
            Harm::Cut(at) => at.saturating_sub(before).min(buffer.len() as u64) as usize,
            Harm::Flip(_) => buffer.len(),
        };
        if most == 0 {
            self.stream.close();
            return Err(env::errno::Errno::CONNRESET);
        }
        let count = self.stream.receive(&mut buffer[..most], deadline)?;
        self.received.fetch_add(count as u64, Ordering::Relaxed);
        if let Harm::Flip(at) = self.harm
            && let Some(at) = at.checked_sub(before)
            && let Some(byte) = buffer[..count].get_mut(at as usize)
        {
            *byte ^= 0x10;
        }
        Ok(count)
    }

    fn send(&self, data: &[u8], deadline: Moment) -> env::Result<()> {
        self.stream.send(data, deadline)
    }

    fn finish(&self) -> env::Result<()> {
        self.stream.finish()
    }

    fn close(&self) {
        self.stream.close();
    }
}

/// One attempt over a connection that is harmed for the receiver, or for the sender.
fn attempt(
    source: &Path,
    destination: &Path,
    level: Level,
    victim: Option<Victim>,
) -> Result<Report, TransferError> {
    let (here, there) = connected_pair().unwrap();
    let harmed = |stream: Arc<dyn Stream>, role| -> Arc<dyn Stream> {
        match &victim {
            Some(victim) if victim.role == role => Arc::new(Harmed {
                stream,
                harm: victim.harm,
                received: victim.received.clone(),
            }),
            _ => stream,
        }
    };
    let (here, there) = (harmed(here, Role::Client), harmed(there, Role::Server));
    let limits = Limits::default();
    let options = Options {
        level,
        patience: Duration::from_secs(60),
    };
    let soon = || RealClock.now().after(Duration::from_secs(60));
    std::thread::scope(|scope| {
        let server = Connection::start(there, &RealNet, Role::Server, limits)?;
        let client = Connection::start(here, &RealNet, Role::Client, limits)?;
        let receiving = scope.spawn(move || {
            let settings = Settings {
                patience: Duration::from_secs(60),
                ..Settings::default()
            };
            let received = receive(destination, &server, &RealClock, &settings);
            match received {
                Ok(()) => server.close(soon()).map_err(TransferError::from),
                Err(error) => Err(error),
            }
        });
        let sent = send(source, &client, &RealClock, &options, &mut |_| ());
        let _ended = sent.is_ok().then(|| client.close(soon()));
        let received = receiving.join().unwrap();
        // A side that is told nothing wrong has done its part.
        let report = sent?;
        drop(received);
        Ok(report)
    })
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root).unwrap().to_path_buf();
            if relative.starts_with(STAGING) {
                continue;
            }
            match path.is_dir() {
                true => open.push(path),
                false => {
                    found.insert(relative, fs::read(path).unwrap());
                }
            }
        }
    }
    found
}

/// What is in place is what was to be sent, in whole.
fn only_right_files(source: &BTreeMap<PathBuf, Vec<u8>>, destination: &Path, what: &str) {
    for (path, content) in files(destination) {
        let right = source.get(&path);
        assert!(right == Some(&content), "{what}: {path:?} is wrong");
    }
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Rng::new(seed).fill(&mut bytes);
    bytes
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
    untouched.map_or(0, |victim| victim.received.load(Ordering::Relaxed))
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
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = place.path().join("source");
    small_tree(&source);
    let right = files(&source);
    let mut rng = Rng::new(7);
    let mut harmed = 0;
    for role in [Role::Server, Role::Client] {
        let all = length_of(&source, &place.path().join(format!("{role:?}")), role);
        for number in 0..60 {
            let at = rng.below(all);
            let what = format!("{what} at {at} of what the {role:?} receives");
            let destination = place.path().join(format!("{role:?}{number}"));
            let first = attempt(&source, &destination, Level::Cache, victim(role, harm(at)));
            only_right_files(&right, &destination, &what);
            harmed += usize::from(first.is_err());
            let then = attempt(&source, &destination, Level::Cache, None).expect(&what);
            assert!(then.is_whole(), "{what}: {:?}", then.problems);
            assert!(files(&destination) == right, "{what}");
            fs::remove_dir_all(&destination).unwrap();
        }
    }
    assert!(harmed > 100, "{harmed} of 120 met the conversation");
}

#[test]
fn a_large_file_goes_on_where_it_was_proved() {
    const LENGTH: usize = 150 << 20;
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, destination) = (place.path().join("source"), place.path().join("to"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), noise(5, LENGTH)).unwrap();
    let cut = Harm::Cut(140 << 20);
    let first = attempt(
        &source,
        &destination,
        Level::Device,
        victim(Role::Server, cut),
    );
    assert!(first.is_err(), "{first:?}");
    assert!(files(&destination).is_empty());
    let then = attempt(&source, &destination, Level::Device, None).unwrap();
    assert!(then.is_whole());
    // It was cut at 140 MiB: of that at most three batches and one part are sent again.
    let resumed = then.bytes_resumed;
    assert!(resumed >= (140 - 3 * 33 - 4) << 20, "{resumed}");
    assert_eq!(then.bytes_sent + resumed, LENGTH as u64);
    assert!(files(&destination) == files(&source));
    assert!(!destination.join(STAGING).exists());
}

/// A part that was proved at a lower level, or of another file, is not gone on with.
#[test]
fn what_was_proved_of_another_source_or_at_a_lower_level_does_not_count() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, destination) = (place.path().join("source"), place.path().join("to"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), noise(5, 120 << 20)).unwrap();
    let cut = || victim(Role::Server, Harm::Cut(115 << 20));
    attempt(&source, &destination, Level::Wire, cut()).unwrap_err();
    let then = attempt(&source, &destination, Level::Device, cut());
    assert!(then.is_err());
    fs::write(source.join("large"), noise(6, 120 << 20)).unwrap();
    let then = attempt(&source, &destination, Level::Device, None).unwrap();
    assert_eq!(then.bytes_resumed, 0);
    assert!(files(&destination) == files(&source));
}

/// The canary of these tests: a file that is changed between its sync and a proof that is not asked
/// for is found by them.
#[test]
fn a_wrong_file_in_place_is_found() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, destination) = (place.path().join("source"), place.path().join("to"));
    small_tree(&source);
    let harm = |file: &std::os::fd::OwnedFd| {
        rustix::io::pwrite(file, b"?", 3).unwrap();
    };
    let settings = Settings {
        after_sync: Some(Arc::new(harm)),
        ..Settings::default()
    };
    let options = Options {
        level: Level::Wire,
        ..Options::default()
    };
    let sent = holdfast_transfer::local(&source, &destination, &options, &settings, &mut |_| ());
    assert!(sent.unwrap().is_whole());
    let right = files(&source);
    let look = || only_right_files(&right, &destination, "planted");
    assert!(std::panic::catch_unwind(look).is_err());
}
