//! Delayed parity on a real file system: kill -9 of a process that writes and merges, then the
//! loss of any stores.

extern crate holdfast_redundancy as redundancy;

#[path = "support/stores.rs"]
mod stores;

use env::Rng;
use parity::Shard;
use redundancy::label::{StoreIndex, StoreMask};
use redundancy::stripes::delayed::{Delayed, LogSite, Options};
use redundancy::stripes::{PAGE_BYTES, Stripes};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use stores::{CHUNK, DATA, ID, Killed, PAGES, STORES, all, below, make, open, site};

/// Set for the child: where the stores are.
const ROOT: &str = "HOLDFAST_DELAYED_TEST_ROOT";

fn log_site(root: &Path, store: StoreIndex) -> LogSite {
    LogSite {
        store,
        dir: Arc::new(below(root, store, "differentials")),
    }
}

fn open_both(root: &Path, present: StoreMask) -> (Arc<Stripes>, Delayed) {
    let stripes = Arc::new(open(root, present));
    let sites = present.iter().map(|store| log_site(root, store));
    let options = Options {
        segment_bytes: 64 << 10,
        ..Options::new(12)
    };
    let (delayed, found) = Delayed::open(stripes.clone(), sites, options).expect("opens");
    assert_eq!(
        (found.lost, found.renewed.len(), found.unknown.len()),
        (0, 0, 0)
    );
    (stripes, delayed)
}

/// The bases as they are at first.
fn first() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(0);
    let bases = (0..DATA).map(|_| {
        let mut bytes = vec![0; CHUNK as usize];
        rng.fill(&mut bytes);
        bytes
    });
    bases.collect()
}

/// Write `number`.
fn write(number: u64) -> (Shard, u64, Vec<u8>) {
    let mut rng = Rng::new(number);
    let page = PAGE_BYTES as u64;
    let shard = Shard(rng.below(DATA.into()) as u8);
    let (offset, length) = match rng.below(3) {
        0 => (rng.below(CHUNK - 2 * page), 1 + rng.below(2 * page)),
        _ => (rng.below(PAGES - 1) * page, page * (1 + rng.below(2))),
    };
    let mut bytes = vec![0; length as usize];
    rng.fill(&mut bytes);
    (shard, offset, bytes)
}

fn after(content: &mut [Vec<u8>], number: u64) {
    let (shard, offset, bytes) = write(number);
    let at = offset as usize;
    content[usize::from(shard.0)][at..at + bytes.len()].copy_from_slice(&bytes);
}

fn read(delayed: &Delayed) -> Vec<Vec<u8>> {
    let read = (0..DATA).map(|shard| {
        let mut bytes = vec![0; CHUNK as usize];
        let read = delayed.read(ID, Shard(shard), 0, &mut bytes);
        read.expect("reads");
        bytes
    });
    read.collect()
}

/// Not a test of its own: what the killed process does.
#[test]
fn child() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let mut input = String::new();
    std::io::stdin().read_line(&mut input).expect("a number");
    let mut number: u64 = input.trim().parse().expect("a number");
    let (_stripes, delayed) = open_both(Path::new(&root), all());
    let delayed = Arc::new(delayed);
    let merger = delayed.clone();
    std::thread::spawn(move || {
        loop {
            merger.merge_some(8).expect("merges");
        }
    });
    loop {
        number += 1;
        let (shard, offset, bytes) = write(number);
        delayed.write(ID, shard, offset, &bytes).expect("writes");
        if number.is_multiple_of(7) {
            delayed.sync(ID, shard).expect("syncs");
        }
        let mut out = std::io::stdout().lock();
        if writeln!(out, "wrote {number}")
            .and_then(|()| out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    }
}

/// Writes from `from` on in a process that is killed; the last write that it answered.
fn write_and_die(root: &Path, from: u64, writes: u64) -> u64 {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROOT, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Killed(child.expect("starts"));
    let mut input = child.0.stdin.take().expect("a pipe");
    writeln!(input, "{from}").expect("writes");
    let lines = BufReader::new(child.0.stdout.take().expect("a pipe")).lines();
    let mut wrote = from;
    for line in lines {
        let line = line.expect("reads");
        // A line is far shorter than PIPE_BUF, so it arrives whole or not at all (pipe(7)).
        // The first stands behind what the test program says itself.
        if let Some((_, number)) = line.split_once("wrote ") {
            wrote = number.parse().expect("a number");
            if wrote >= from + writes {
                // Somewhere inside a later one.
                child.0.kill().expect("kills");
            }
        }
    }
    wrote
}

#[test]
fn every_answered_write_of_a_killed_process_is_there_whichever_stores_are_lost() {
    let home = tempfile::tempdir().expect("a directory");
    let root = home.path();
    make(root, first());
    let mut rng = Rng::new(8);
    let mut content = first();
    let mut number = 0;
    for round in 0..12 {
        let wrote = write_and_die(root, number, 1 + rng.below(60));
        let mut lost = StoreMask::default();
        for _ in 0..rng.below(u64::from(STORES - DATA) + 1) {
            lost = lost.with(StoreIndex(rng.below(STORES.into()) as u8));
        }
        (number + 1..=wrote).for_each(|write| after(&mut content, write));
        let mut next = content.clone();
        after(&mut next, wrote + 1);
        let (stripes, delayed) = open_both(root, all().minus(lost));
        let found = read(&delayed);
        number = match found {
            found if found == content => wrote,
            found if found == next => wrote + 1,
            _ => panic!("round {round}: without {lost:?} neither {wrote} nor the next is there"),
        };
        if number > wrote {
            content = next;
        }
        for store in lost.iter() {
            let (site, notes) = site(root, store);
            stripes.join(site, notes).expect("joins");
            delayed.join(log_site(root, store)).expect("joins");
        }
        assert!(
            read(&delayed) == content,
            "round {round}: with {lost:?} again"
        );
        delayed.merge_stripe(ID).expect("merges");
        assert!(read(&delayed) == content, "round {round}: merged");
        let report = stripes.scrub(ID, false).expect("scrubs");
        assert_eq!(
            (report.lost, report.contradictions),
            (0, 0),
            "round {round}"
        );
    }
    assert!(number >= 12);
}
