//! The work of an open after a crash, counted: it does not depend on how many files there are.

use env::handle::Handle;
use env::real::{RealDir, RealFiles};
use env::{Dir, Disk, Files, Lock, Open, Result};
use holdfast_filemeta::{Options, Places, Replay, Store, StoreId, Tag};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CONTENT: Tag = Tag::new(1).unwrap();
/// Requests in the journal at the end.
const REQUESTS: usize = 200;

/// A directory that counts what is asked of it.
struct Counting<T> {
    inner: T,
    calls: Arc<AtomicU64>,
}

impl<T> Counting<T> {
    fn count(&self) -> &T {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

impl Dir for Counting<RealDir> {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>> {
        self.count().open(name, how)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.count().read(name)
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        self.count().replace(name, content)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.count().rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.count().remove(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = self.count().list()?;
        self.calls.fetch_add(names.len() as u64, Ordering::Relaxed);
        Ok(names)
    }

    fn sync(&self) -> Result<()> {
        self.count().sync()
    }

    fn make(&self, name: &str) -> Result<Arc<dyn Disk>> {
        self.count().make(name)
    }

    fn handle(&self, name: &str) -> Result<Handle> {
        self.count().handle(name)
    }

    fn lock(&self, name: &str) -> Result<Lock> {
        self.count().lock(name)
    }
}

impl Files for Counting<RealFiles> {
    fn attribute(&self, file: &Handle, name: &CStr) -> Result<Vec<u8>> {
        self.count().attribute(file, name)
    }

    fn set_attribute(&self, file: &Handle, name: &CStr, value: &[u8]) -> Result<()> {
        self.count().set_attribute(file, name, value)
    }

    fn remove_attribute(&self, file: &Handle, name: &CStr) -> Result<()> {
        self.count().remove_attribute(file, name)
    }

    fn sync_all(&self) -> Result<()> {
        self.count().sync_all()
    }
}

fn places(root: &Path, calls: &Arc<AtomicU64>) -> Places {
    let calls = || calls.clone();
    let dir = RealDir::open(root).unwrap();
    Places {
        files: Arc::new(Counting {
            inner: RealFiles::open(root).unwrap(),
            calls: calls(),
        }),
        objects: Arc::new(Counting {
            inner: dir.subdirectory("objects").unwrap(),
            calls: calls(),
        }),
        journal: Arc::new(Counting {
            inner: dir.subdirectory("journal").unwrap(),
            calls: calls(),
        }),
    }
}

/// What an open did after a crash.
struct Seen {
    replay: Replay,
    /// Calls that the open made.
    calls: u64,
    /// Calls that a full check made then, which looks at every object.
    check_calls: u64,
}

/// Opens a store of so many files after a crash.
fn replay(files: usize, check: bool) -> Seen {
    // In memory: calls are counted, not seconds, and the syncs of a disk would take minutes.
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        segment_bytes: 4 << 20,
        journal_bytes: 16 << 20,
    };
    let calls = Arc::new(AtomicU64::new(0));
    let store = Store::create(
        &places(root.path(), &calls),
        StoreId(1),
        c"trusted.hfm",
        options,
    )
    .unwrap();
    let user = RealDir::open(root.path())
        .unwrap()
        .subdirectory("user")
        .unwrap();
    let names: Vec<String> = (0..files).map(|index| format!("f{index}")).collect();
    let mut handles = Vec::new();
    for names in names.chunks(500) {
        let mut request = store.request();
        for name in names {
            user.make(name).unwrap();
            let handle = user.handle(name).unwrap();
            request.put(&handle, CONTENT, name.as_bytes()).unwrap();
            handles.push(handle);
        }
        request.submit().unwrap();
    }
    store.checkpoint().unwrap();
    for index in 0..REQUESTS {
        // Spread over all files.
        let owner = &handles[index * files / REQUESTS];
        let mut request = store.request();
        request.patch(owner, CONTENT, 0, b"F");
        request.set_value(owner, Tag::new(2).unwrap(), b"patched");
        request.commit().unwrap();
    }
    drop(store);
    let places = places(root.path(), &calls);
    calls.store(0, Ordering::Relaxed);
    let opened = Store::open(&places, None, options).unwrap();
    let made = calls.load(Ordering::Relaxed);
    for index in 0..REQUESTS {
        let at = index * files / REQUESTS;
        let content = opened.store.get(&handles[at], CONTENT).unwrap();
        assert_eq!(content, names[at].replace('f', "F").into_bytes());
    }
    calls.store(0, Ordering::Relaxed);
    if check {
        assert!(opened.store.check().unwrap().is_sound());
    }
    Seen {
        replay: opened.replay,
        calls: made,
        check_calls: calls.load(Ordering::Relaxed),
    }
}

#[test]
fn an_open_at_a_hundred_thousand_files_does_what_it_does_at_a_thousand() {
    let small = replay(1_000, false);
    let large = replay(100_000, false);
    assert_eq!(small.replay.requests, REQUESTS as u64);
    assert_eq!(small.replay.touched, 2 * REQUESTS as u64);
    assert_eq!(large.replay.requests, small.replay.requests);
    assert_eq!(large.replay.touched, small.replay.touched);
    // What a checkpoint left in the newest segment is read and skipped; it is bounded by it.
    let (made, least) = (large.replay.records, small.replay.records);
    assert!(made <= least + 64, "{made} records, {least}");
    let (made, least) = (large.calls, small.calls);
    assert!(made <= least + 16, "{made} calls, {least}");
}

/// The counter would see an open that looks at every file.
#[test]
fn work_that_grows_with_the_files_is_counted() {
    let [few, many] = [300, 600].map(|files| replay(files, true).check_calls);
    assert!(few >= 300, "{few}");
    assert!(many >= few + 300, "{many} calls, {few}");
}
