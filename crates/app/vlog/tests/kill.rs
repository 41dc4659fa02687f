//! kill -9 of a process that writes to a log on real directories, with the log's own threads, while
//! it compacts.

use env::Rng;
use holdfast_vlog::{Change, Directory, Options, Position, Record, Sync, Vlog, VlogError, VlogId};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Set for the child: the directory to write to.
const DIRECTORY: &str = "HOLDFAST_VLOG_TEST_DIRECTORY";
const ROUNDS: u64 = 8;
const THREADS: u32 = 3;
const KEYS: u64 = 40;

fn directories(home: &Path) -> Vec<Directory> {
    let sub = |name: &str| {
        let path = home.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Directory::open(path.to_str().unwrap()).unwrap()
    };
    vec![sub("one"), sub("two")]
}

fn options(sync: Sync) -> Options {
    Options {
        lanes: 2,
        segment_bytes: 64 << 10,
        sync,
        ..Options::default()
    }
}

/// Stream, key and version; the rest follows from them.
fn payload(stream: u32, key: u64, version: u64) -> Vec<u8> {
    let mut bytes = format!("{stream} {key} {version} ").into_bytes();
    let mut rng = Rng::new(version << 16 | key << 4 | u64::from(stream));
    let start = bytes.len();
    bytes.resize(start + rng.index(900), 0);
    rng.fill(&mut bytes[start..]);
    bytes
}

fn parse(stream: u32, bytes: &[u8]) -> (u64, u64) {
    let mut words = bytes.splitn(4, |byte| *byte == b' ');
    let mut number = || -> u64 {
        let word = words.next().unwrap();
        std::str::from_utf8(word).unwrap().parse().unwrap()
    };
    let (said, key, version) = (number(), number(), number());
    assert_eq!(said, u64::from(stream));
    assert_eq!(bytes, payload(stream, key, version));
    (key, version)
}

type Entries = BTreeMap<(u32, u64), (Position, u64)>;

fn open(home: &Path, sync: Sync) -> (Vlog, Entries) {
    match Vlog::create("db", directories(home), VlogId(0x4b)) {
        Ok(()) | Err(VlogError::Exists { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let found = Mutex::new(Entries::new());
    let sink = |record: Record<'_>| {
        let (key, version) = parse(record.stream, record.payload);
        let mut found = found.lock().unwrap();
        let entry = (record.position, version);
        let twice = found.insert((record.stream, key), entry);
        assert_eq!(twice, None, "stream {} key {key}", record.stream);
    };
    let log = Vlog::open("db", directories(home), options(sync), &sink).unwrap();
    (log, found.into_inner().unwrap())
}

/// Not a test of its own: what the killed process does. Each thread has a stream of its own, and two
/// more, on different lanes, for a pair of entries that it changes together.
#[test]
fn child() {
    let Some(home) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let (log, entries) = open(Path::new(&home), Sync::Always);
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        // The parent may have gone; then this process has no purpose either.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    };
    std::thread::scope(|scope| {
        for stream in 0..THREADS {
            let mut mine: BTreeMap<u64, (Position, u64)> = entries
                .iter()
                .filter(|((of, _), _)| *of == stream)
                .map(|((_, key), entry)| (*key, *entry))
                .collect();
            let (log, say) = (&log, &say);
            // A pair lies on two lanes and always has one version.
            let mut pair =
                [stream + 10, stream + 11].map(|of| entries.get(&(of, u64::from(stream))).copied());
            scope.spawn(move || {
                let newest = mine.values().chain(pair.iter().flatten());
                let mut version = newest.map(|(_, version)| *version).max().unwrap_or(0);
                let mut rng = Rng::new(version + u64::from(stream));
                loop {
                    version += 1;
                    let key = rng.below(KEYS);
                    say(format!("began {stream} {version}"));
                    let receipt = if rng.chance(1, 4) {
                        let payloads =
                            [10, 11].map(|of| payload(stream + of, u64::from(stream), version));
                        let changes: Vec<_> = (0..2)
                            .map(|at| Change::Append {
                                stream: stream + 10 + at as u32,
                                payload: &payloads[at],
                                replaces: pair[at].map(|(position, _)| position),
                            })
                            .collect();
                        let mut positions = Vec::new();
                        let receipt = log.group(&changes, &mut positions).unwrap();
                        pair = [0, 1].map(|at| Some((positions[at], version)));
                        receipt
                    } else {
                        let before = mine.get(&key).map(|(position, _)| *position);
                        let bytes = payload(stream, key, version);
                        let (position, receipt) = log.append(stream, &bytes, before).unwrap();
                        mine.insert(key, (position, version));
                        receipt
                    };
                    log.durable(receipt).unwrap();
                    say(format!("durable {stream} {version}"));
                }
            });
        }
    });
}

/// Ends the child also when the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_process_loses_nothing_that_was_durable() {
    let home = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(11);
    // Of each thread.
    let (mut began, mut durable) = ([0; 3], [0; 3]);
    let mut compacted = false;
    for round in 0..ROUNDS {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut wanted = 100 + rng.below(700);
        for line in lines {
            // A line is far shorter than PIPE_BUF, so it arrives whole or not at all (pipe(7)).
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            if let [what, stream, version] = words[..]
                && let (Ok(stream), Ok(version)) = (stream.parse::<usize>(), version.parse::<u64>())
            {
                match what {
                    "began" => began[stream] = version,
                    "durable" => durable[stream] = version,
                    _ => {}
                }
            }
            if wanted == 0 {
                child.0.kill().unwrap();
            }
            wanted = wanted.wrapping_sub(1);
        }
        drop(child);
        let (log, entries) = open(home.path(), Sync::Never);
        for stream in 0..THREADS {
            let newest = entries
                .iter()
                .filter(|((of, key), _)| *of == stream || (*of >= 10 && *key == u64::from(stream)))
                .map(|(_, (_, version))| *version)
                .max()
                .unwrap_or(0);
            let at = stream as usize;
            assert!(
                (durable[at]..=began[at]).contains(&newest),
                "round {round}: {newest} of {stream}, durable {durable:?}, began {began:?}"
            );
            let pair = [10, 11].map(|of| entries.get(&(stream + of, u64::from(stream))));
            let versions = pair.map(|entry| entry.map(|(_, version)| *version));
            assert_eq!(versions[0], versions[1], "round {round}: a torn group");
        }
        let numbers = std::fs::read_dir(home.path().join("one")).unwrap();
        compacted |= numbers.count() < 40 && round > 2;
        log.close().unwrap();
    }
    assert!(compacted, "the log is bounded");
    assert!(durable.iter().all(|version| *version > 50), "{durable:?}");
}
