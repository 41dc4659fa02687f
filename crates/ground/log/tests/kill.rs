//! kill -9 of a process that writes to a log on a real directory.

use env::Rng;
use env::real::RealDir;
use holdfast_log::{Log, LogError, LogId, Options, Sequence};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const ID: LogId = LogId(0x4b);
const OPTIONS: Options = Options {
    segment_bytes: 128 << 10,
};
/// Set for the child: the directory to write to.
const DIRECTORY: &str = "HOLDFAST_LOG_TEST_DIRECTORY";
const ROUNDS: u64 = 12;

fn content(sequence: Sequence) -> Vec<u8> {
    let mut rng = Rng::new(sequence.0);
    let mut payload = vec![0; rng.index(5000)];
    rng.fill(&mut payload);
    payload
}

fn open(home: &Path) -> (Log, Vec<holdfast_log::Record>) {
    let dir = Arc::new(RealDir::open(home).unwrap());
    match Log::open(dir.clone(), "j", ID, OPTIONS) {
        Err(LogError::Missing { .. }) => {
            let log = Log::create(dir, "j", ID, OPTIONS).unwrap();
            (log, Vec::new())
        }
        answer => answer.unwrap(),
    }
}

/// Not a test of its own: what the killed process does. Three threads commit and say so.
#[test]
fn child() {
    let Some(home) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let (log, _) = open(Path::new(&home));
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        // The parent may have gone; then this process has no purpose either.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    };
    let appending = std::sync::Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let sequence = {
                        let _one = appending.lock().unwrap();
                        let sequence = log.next_sequence();
                        log.append(1, &content(sequence)).unwrap()
                    };
                    log.commit(sequence).unwrap();
                    say(format!("committed {}", sequence.0));
                    if sequence.0.is_multiple_of(40) {
                        let to = sequence.0 - 30;
                        say(format!("truncating {to}"));
                        log.truncate_before(Sequence(to)).unwrap();
                    }
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
fn a_killed_process_loses_nothing_that_it_had_committed() {
    let home = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(11);
    let (mut committed, mut truncated) = (0, 1);
    for round in 0..ROUNDS {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut wanted = rng.below(120);
        for line in lines {
            let line = line.unwrap();
            // A line is far shorter than PIPE_BUF, so it arrives whole or not at all (pipe(7)).
            if let Some(number) = line.strip_prefix("committed ") {
                committed = committed.max(number.parse::<u64>().unwrap_or(0));
            }
            if let Some(number) = line.strip_prefix("truncating ") {
                truncated = truncated.max(number.parse::<u64>().unwrap_or(0));
            }
            if wanted == 0 {
                child.0.kill().unwrap();
            }
            wanted = wanted.wrapping_sub(1);
        }
        drop(child);
        let (log, records) = open(home.path());
        let (first, next) = (log.held().first.0, log.next_sequence().0);
        assert!(next > committed, "round {round}: {next} <= {committed}");
        assert!(first <= truncated, "round {round}: {first} > {truncated}");
        assert_eq!(records.len() as u64, next - first);
        for record in records {
            assert_eq!(
                record.payload,
                content(record.sequence),
                "{:?}",
                record.sequence
            );
        }
    }
    assert!(committed > ROUNDS, "the children wrote");
}
