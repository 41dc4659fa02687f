//! Stripes on a real file system: kill -9 of a process that merges, then the loss of any store.

extern crate holdfast_redundancy as redundancy;

#[path = "support/stores.rs"]
mod stores;

use env::Rng;
use parity::Shard;
use redundancy::label::{StoreIndex, StoreMask};
use redundancy::stripes::{PAGE_BYTES, PageWrite, Stripes};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use stores::{CHUNK, DATA, ID, Killed, PAGES, STORES, all, make, open, site};

/// Set for the child: where the stores are.
const ROOT: &str = "HOLDFAST_STRIPES_TEST_ROOT";

/// What merge `number` writes; 0 is what the bases are at first.
fn pages(number: u64) -> Vec<(Shard, u32, Vec<u8>)> {
    let mut rng = Rng::new(number);
    let mut page = |shard, page| {
        let mut bytes = vec![0; PAGE_BYTES];
        rng.fill(&mut bytes);
        (Shard(shard), page, bytes)
    };
    if number == 0 {
        let all = (0..DATA).flat_map(|shard| (0..PAGES as u32).map(move |n| (shard, n)));
        return all.map(|(shard, n)| page(shard, n)).collect();
    }
    let mut which = Rng::new(!number);
    let count = 1 + which.index(20);
    let some = (0..count).map(|_| (which.below(DATA.into()) as u8, which.below(PAGES) as u32));
    some.map(|(shard, n)| page(shard, n)).collect()
}

/// The bases after merge `number`.
fn bases(number: u64) -> Vec<Vec<u8>> {
    let mut bases = vec![vec![0; CHUNK as usize]; DATA.into()];
    for (shard, page, bytes) in (0..=number).flat_map(pages) {
        let at = page as usize * PAGE_BYTES;
        bases[usize::from(shard.0)][at..at + PAGE_BYTES].copy_from_slice(&bytes);
    }
    bases
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
    let stripes = open(Path::new(&root), all());
    loop {
        number += 1;
        let pages = pages(number);
        let writes = pages.iter().map(|(shard, page, bytes)| PageWrite {
            shard: *shard,
            page: *page,
            bytes,
        });
        stripes
            .merge(ID, &writes.collect::<Vec<_>>())
            .expect("merges");
        let mut out = std::io::stdout().lock();
        if writeln!(out, "merged {number}")
            .and_then(|()| out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    }
}

/// Merges from `from` on in a process that is killed; the last merge that it answered.
fn merge_and_die(root: &Path, from: u64, merges: u64) -> u64 {
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
    let mut merged = from;
    for line in lines {
        let line = line.expect("reads");
        // A line is far shorter than PIPE_BUF, so it arrives whole or not at all (pipe(7)).
        // The first stands behind what the test program says itself.
        if let Some((_, number)) = line.split_once("merged ") {
            merged = number.parse().expect("a number");
            if merged >= from + merges {
                // Somewhere inside the next one.
                child.0.kill().expect("kills");
            }
        }
    }
    merged
}

fn read(stripes: &Stripes) -> Vec<Vec<u8>> {
    let read = (0..DATA).map(|shard| {
        let mut bytes = vec![0; CHUNK as usize];
        stripes
            .read(ID, Shard(shard), 0, &mut bytes)
            .expect("reads");
        bytes
    });
    read.collect()
}

#[test]
fn a_killed_merge_is_whole_or_not_there_whichever_stores_are_lost() {
    let home = tempfile::tempdir().expect("a directory");
    let root = home.path();
    make(root, bases(0));
    let mut rng = Rng::new(7);
    let mut number = 0;
    for round in 0..12 {
        let merged = merge_and_die(root, number, 1 + rng.below(12));
        let mut lost = StoreMask::default();
        for _ in 0..rng.below(u64::from(STORES - DATA) + 1) {
            lost = lost.with(StoreIndex(rng.below(STORES.into()) as u8));
        }
        let stripes = open(root, all().minus(lost));
        let found = read(&stripes);
        number = match found {
            found if found == bases(merged) => merged,
            found if found == bases(merged + 1) => merged + 1,
            _ => panic!("round {round}: without {lost:?} neither {merged} nor the next is there"),
        };
        for store in lost.iter() {
            let (site, notes) = site(root, store);
            stripes.join(site, notes).expect("joins");
        }
        let report = stripes.scrub(ID, false).expect("scrubs");
        assert_eq!(
            (report.lost, report.contradictions),
            (0, 0),
            "round {round}"
        );
        assert!(
            read(&stripes) == bases(number),
            "round {round}: with {lost:?} again"
        );
    }
    assert!(number >= 12);
}
