//! kill -9 of a process that changes metadata, on ext4 and XFS.

use env::Rng;
use env::handle::Handle;
use env::real::RealFiles;
use holdfast_filemeta::{MetaError, Options, Places, Store, StoreId, SystemName, Tag};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[path = "support/mounts.rs"]
mod mounts;
use mounts::{Mounted, touch};

const OPTIONS: Options = Options {
    segment_bytes: 1 << 20,
    journal_bytes: 1 << 20,
};
/// Set for the child: where the file system is mounted.
const ROOT: &str = "HOLDFAST_FILEMETA_TEST_ROOT";
const FILES: u64 = 8;
const SLOTS: u64 = 4096;
const CONTENT: Tag = Tag::new(1).unwrap();
const NUMBER: Tag = Tag::new(2).unwrap();
const TABLE: Tag = Tag::new(3).unwrap();
const SHARED: Tag = Tag::new(4).unwrap();
const ROUNDS: u64 = 8;

fn last() -> SystemName {
    SystemName::new("last").unwrap()
}

fn content(request: u64) -> Vec<u8> {
    let mut rng = Rng::new(request);
    let most = if request.is_multiple_of(29) {
        90_000
    } else {
        5000
    };
    let mut content = vec![0; rng.index(most)];
    rng.fill(&mut content);
    content
}

fn slot(request: u64) -> [u8; 16] {
    let mut slot = [0; 16];
    slot[..8].copy_from_slice(&request.to_le_bytes());
    slot[8..].copy_from_slice(&request.wrapping_mul(7).to_le_bytes());
    slot
}

fn owners(root: &Path) -> Vec<Handle> {
    let files = RealFiles::open(root).unwrap();
    let handle = |index| {
        let path = root.join(format!("f{index}"));
        if !path.exists() {
            touch(&path);
        }
        files.handle_of(File::open(&path).unwrap().as_fd()).unwrap()
    };
    (0..FILES).map(handle).collect()
}

/// Opens the store, or makes it with a table.
fn open(root: &Path) -> (Store, Vec<Handle>) {
    let owners = owners(root);
    let places = Places::real(&root.join("meta")).unwrap();
    match Store::open(&places, Some(StoreId(1)), OPTIONS) {
        Ok(opened) => (opened.store, owners),
        Err(MetaError::NoStore) => {
            let store = Store::create(&places, StoreId(1), c"trusted.hfm", OPTIONS).unwrap();
            let mut request = store.request();
            request
                .put(&owners[0], TABLE, &vec![0; 16 * SLOTS as usize])
                .unwrap();
            request.put_system(&last(), &0u64.to_le_bytes());
            request.commit().unwrap();
            (store, owners)
        }
        Err(error) => panic!("{error}"),
    }
}

fn newest(store: &Store) -> u64 {
    u64::from_le_bytes(store.system(&last()).unwrap().try_into().unwrap())
}

/// Not a test of its own: what the killed process does.
#[test]
fn child() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let (store, owners) = open(Path::new(&root));
    let mut number = newest(&store);
    loop {
        number += 1;
        let owner = |by: u64| &owners[((number + by) % FILES) as usize];
        let mut request = store.request();
        request.patch(&owners[0], TABLE, number % SLOTS * 16, &slot(number));
        request.put(owner(0), CONTENT, &content(number)).unwrap();
        request.set_value(owner(3), NUMBER, &number.to_le_bytes());
        request.share(owner(5), SHARED, &[(number % 3) as u8; 64]);
        request.patch_system(&last(), 0, &number.to_le_bytes());
        request.commit().unwrap();
        let mut out = std::io::stdout().lock();
        // The parent may have gone; then this process has no purpose either.
        if writeln!(out, "committed {number}")
            .and_then(|()| out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    }
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

fn compare(store: &Store, owners: &[Handle], committed: u64) -> u64 {
    let newest = newest(store);
    assert!(newest >= committed, "{newest} < {committed}");
    let table = store.get(&owners[0], TABLE).unwrap();
    for number in newest.saturating_sub(SLOTS - 1).max(1)..=newest {
        let at = (number % SLOTS) as usize * 16;
        assert_eq!(
            table[at..at + 16],
            slot(number),
            "slot of {number} of {newest}"
        );
    }
    for number in newest.saturating_sub(FILES - 1).max(1)..=newest {
        let owner = |by: u64| &owners[((number + by) % FILES) as usize];
        assert!(
            store.get(owner(0), CONTENT).unwrap() == content(number),
            "{number}"
        );
        assert_eq!(store.value(owner(3), NUMBER).unwrap(), number.to_le_bytes());
        assert_eq!(
            store.get(owner(5), SHARED).unwrap(),
            [(number % 3) as u8; 64]
        );
    }
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    newest
}

#[test]
fn a_killed_process_leaves_whole_requests_on_ext4() {
    torment("ext4", 1);
}

#[test]
fn a_killed_process_leaves_whole_requests_on_xfs() {
    torment("xfs", 2);
}

fn torment(kind: &str, seed: u64) {
    let mounted = Mounted::new(kind, 400 << 20);
    let root = mounted.path();
    let mut rng = Rng::new(seed);
    let mut committed = 0;
    for round in 0..ROUNDS {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(ROOT, &root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut wanted = 1 + rng.below(90);
        for line in lines {
            let line = line.unwrap();
            // A line is far shorter than PIPE_BUF, so it arrives whole or not at all (pipe(7)).
            if let Some(number) = line.strip_prefix("committed ") {
                committed = committed.max(number.parse().unwrap());
                wanted = wanted.saturating_sub(1);
            }
            if wanted == 0 {
                // Somewhere inside the next requests.
                child.0.kill().unwrap();
                wanted = u64::MAX;
            }
        }
        drop(child);
        if round % 3 == 2 {
            mounted.remount();
        }
        let (store, owners) = open(&root);
        committed = compare(&store, &owners, committed);
    }
    assert!(committed > ROUNDS, "the children wrote");
}
