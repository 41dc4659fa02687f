//! What every implementation of `Dir` and `Disk` keeps to: the same cases run against the real
//! directory and the simulated one.

use holdfast_env::errno::Errno;
use holdfast_env::handle::Handle;
use holdfast_env::real::{RealDir, RealFiles};
use holdfast_env::sim::World;
use holdfast_env::{Clock, Dir, Files, Open};
use std::sync::Arc;
use std::time::Duration;

#[path = "contract/batch.rs"]
mod batch;

type Case = fn(Arc<dyn Dir>);

const CASES: &[(&str, Case)] = &[
    ("a created file is zeros of its length", created),
    ("what was written is read back, unaligned too", read_back),
    ("durable writes are read back, unaligned too", durable),
    ("reads past the end are EINVAL", past_the_end),
    ("a write past the end makes the file longer", growing),
    (
        "names that are missing or taken are named by errno",
        missing,
    ),
    ("names that are not plain are EINVAL", odd_names),
    ("replace gives the new content and only it", replaced),
    ("rename replaces its target and keeps open handles", renamed),
    ("remove frees the name and keeps open handles", removed),
    ("list is sorted", listed),
    ("a handle for reading refuses writes", read_only),
    (
        "a discarded range is zeros or as before, the rest stays",
        discarded,
    ),
    ("threads may share a disk", shared),
    ("a made file is empty and takes its name", made),
    ("one caller has a lock until it lets go", locked),
];

type FilesCase = fn(Arc<dyn Dir>, Arc<dyn Files>);

const FILES_CASES: &[(&str, FilesCase)] = &[
    ("a handle finds a file under every name", found),
    ("a handle of a removed file is stale", stale),
    ("attributes are set, replaced and removed", attributes),
    ("handles travel as bytes", as_bytes),
];

#[test]
fn the_real_files_keep_the_contract() {
    for (name, case) in FILES_CASES {
        println!("{name}");
        let home = tempfile::tempdir().unwrap();
        let dir = RealDir::open(home.path()).unwrap();
        case(
            Arc::new(dir),
            Arc::new(RealFiles::open(home.path()).unwrap()),
        );
    }
}

#[test]
fn the_simulated_files_keep_the_contract() {
    for (name, case) in FILES_CASES {
        println!("{name}");
        let world = World::new(1);
        case(world.dir("store"), world.files());
    }
}

#[test]
fn the_real_directory_keeps_the_contract() {
    for (name, case) in CASES.iter().chain(batch::CASES) {
        println!("{name}");
        let home = tempfile::tempdir().unwrap();
        case(Arc::new(RealDir::open(home.path()).unwrap()));
    }
}

#[test]
fn a_directory_in_memory_keeps_the_contract() {
    // tmpfs, where direct I/O is refused on older kernels.
    for (name, case) in CASES.iter().chain(batch::CASES) {
        println!("{name}");
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        case(Arc::new(RealDir::open(home.path()).unwrap()));
    }
}

#[test]
fn the_simulated_directory_keeps_the_contract() {
    for (name, case) in CASES.iter().chain(batch::CASES) {
        println!("{name}");
        case(World::new(1).dir("store"));
    }
}

#[test]
fn clocks_go_forward_and_sleep_long_enough() {
    let sim = World::new(1).clock();
    let real = holdfast_env::real::RealClock;
    for clock in [&sim as &dyn Clock, &real] {
        let start = clock.now();
        let end = start.after(Duration::from_millis(2));
        clock.sleep_until(end);
        assert!(clock.now() >= end);
        clock.sleep_until(start);
        assert!(clock.now().since(start) >= Duration::from_millis(2));
    }
}

fn read(dir: &dyn Dir, name: &str, offset: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0xaa; count];
    let disk = dir.open(name, Open::Read).unwrap();
    disk.read_at(offset, &mut bytes).unwrap();
    bytes
}

fn created(dir: Arc<dyn Dir>) {
    for bytes in [0, 1, 4096, 3 << 20] {
        let name = format!("f{bytes}");
        for how in [Open::Create(bytes), Open::Allocate(bytes)] {
            let disk = dir.open(&name, how).unwrap();
            assert_eq!(disk.len().unwrap(), bytes);
            assert_eq!(dir.read(&name).unwrap(), vec![0; bytes as usize]);
            assert_eq!(dir.open(&name, how).err(), Some(Errno::EXIST));
            dir.remove(&name).unwrap();
        }
    }
}

fn read_back(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(16384)).unwrap();
    disk.write_at(5, b"hello").unwrap();
    disk.write_at(8190, b"across").unwrap();
    disk.write_at(0, b"").unwrap();
    disk.sync().unwrap();
    assert_eq!(read(dir.as_ref(), "f", 4, 7), b"\0hello\0");
    let again = dir.open("f", Open::Write).unwrap();
    let mut bytes = [0; 6];
    again.read_at(8190, &mut bytes).unwrap();
    assert_eq!(&bytes, b"across");
}

fn durable(dir: Arc<dyn Dir>) {
    dir.open("f", Open::Create(4 << 20)).unwrap();
    let disk = dir.open("f", Open::WriteDurable).unwrap();
    let pattern: Vec<u8> = (0..3 << 20).map(|i: u32| (i / 7) as u8).collect();
    // Whole blocks from memory that is not aligned, longer than any bounce buffer.
    disk.write_at(4096, &pattern[4096 + 1..][..2 << 20])
        .unwrap();
    assert_eq!(
        read(dir.as_ref(), "f", 4096, 2 << 20),
        &pattern[4097..][..2 << 20]
    );
    disk.write_at(10, b"unaligned").unwrap();
    disk.write_at(8192, &[7; 100]).unwrap();
    let mut bytes = [0; 100];
    disk.read_at(8192, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 100]);
    disk.write_at(8192, &[8; 4096]).unwrap();
    assert_eq!(read(dir.as_ref(), "f", 10, 9), b"unaligned");
    assert_eq!(read(dir.as_ref(), "f", 8192, 4096), [8; 4096]);
    assert_eq!(disk.len().unwrap(), 4 << 20);
}

fn past_the_end(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(100)).unwrap();
    let mut bytes = [0; 10];
    for offset in [91, 100, 1 << 40] {
        assert_eq!(disk.read_at(offset, &mut bytes), Err(Errno::INVAL));
    }
    disk.read_at(100, &mut []).unwrap();
    disk.read_at(90, &mut bytes).unwrap();
}

fn growing(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(10)).unwrap();
    disk.write_at(20, b"end").unwrap();
    disk.sync().unwrap();
    assert_eq!(disk.len().unwrap(), 23);
    assert_eq!(dir.read("f").unwrap(), [&[0; 20][..], b"end"].concat());
}

fn missing(dir: Arc<dyn Dir>) {
    for how in [Open::Read, Open::Write, Open::WriteDurable] {
        assert_eq!(dir.open("f", how).err(), Some(Errno::NOENT));
    }
    assert_eq!(dir.read("f"), Err(Errno::NOENT));
    assert_eq!(dir.remove("f"), Err(Errno::NOENT));
    assert_eq!(dir.rename("f", "g"), Err(Errno::NOENT));
    dir.open("f", Open::Create(0)).unwrap();
    assert_eq!(dir.open("f", Open::Create(5)).err(), Some(Errno::EXIST));
    assert_eq!(dir.read("f").unwrap(), b"");
}

fn odd_names(dir: Arc<dyn Dir>) {
    for name in ["", ".", "..", "a/b", "a\0b", "half~"] {
        assert_eq!(dir.open(name, Open::Create(1)).err(), Some(Errno::INVAL));
        assert_eq!(dir.open(name, Open::Read).err(), Some(Errno::INVAL));
        assert_eq!(dir.replace(name, b"x"), Err(Errno::INVAL));
        assert_eq!(dir.remove(name), Err(Errno::INVAL));
        assert_eq!(dir.read(name), Err(Errno::INVAL));
    }
    assert_eq!(dir.list().unwrap(), Vec::<String>::new());
}

fn replaced(dir: Arc<dyn Dir>) {
    dir.replace("f", b"a longer first content").unwrap();
    let before = dir.open("f", Open::Read).unwrap();
    dir.replace("f", b"second").unwrap();
    assert_eq!(dir.read("f").unwrap(), b"second");
    let mut bytes = [0; 8];
    before.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"a longer", "an open handle keeps the old file");
    assert_eq!(dir.list().unwrap(), ["f"]);
}

fn renamed(dir: Arc<dyn Dir>) {
    dir.replace("a", b"first").unwrap();
    dir.replace("b", b"second").unwrap();
    let disk = dir.open("a", Open::WriteDurable).unwrap();
    dir.rename("a", "b").unwrap();
    disk.write_at(0, b"F").unwrap();
    assert_eq!(dir.read("b").unwrap(), b"First");
    dir.rename("b", "b").unwrap();
    assert_eq!(dir.list().unwrap(), ["b"]);
}

fn removed(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(3)).unwrap();
    dir.remove("f").unwrap();
    dir.sync().unwrap();
    disk.write_at(0, b"abc").unwrap();
    let mut bytes = [0; 3];
    disk.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"abc");
    dir.open("f", Open::Create(1)).unwrap();
    assert_eq!(dir.read("f").unwrap(), [0]);
}

fn listed(dir: Arc<dyn Dir>) {
    for name in ["b", "a", "\u{e4}", "B", "a.1"] {
        dir.replace(name, b"").unwrap();
    }
    assert_eq!(dir.list().unwrap(), ["B", "a", "a.1", "b", "\u{e4}"]);
}

fn read_only(dir: Arc<dyn Dir>) {
    dir.replace("f", b"content").unwrap();
    let disk = dir.open("f", Open::Read).unwrap();
    assert_eq!(disk.write_at(0, b"x"), Err(Errno::BADF));
    assert_eq!(disk.discard(0, 4), Err(Errno::BADF));
    assert_eq!(dir.read("f").unwrap(), b"content");
}

fn discarded(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(12288)).unwrap();
    disk.write_at(0, &[1; 12288]).unwrap();
    disk.discard(4096, 4096).unwrap();
    disk.discard(0, 0).unwrap();
    let content = dir.read("f").unwrap();
    assert_eq!(content.len(), 12288);
    assert!(
        content[..4096]
            .iter()
            .chain(&content[8192..])
            .all(|byte| *byte == 1)
    );
    let hole = &content[4096..8192];
    assert!(hole == [0; 4096] || hole == [1; 4096]);
}

fn shared(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(64 << 10)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let disk = &disk;
            scope.spawn(move || {
                disk.write_at(u64::from(thread) * 8192, &[thread; 8192])
                    .unwrap();
                disk.sync().unwrap();
            });
        }
    });
    let content = dir.read("f").unwrap();
    for (thread, part) in content.chunks(8192).enumerate() {
        assert!(part.iter().all(|byte| usize::from(*byte) == thread));
    }
}

fn made(dir: Arc<dyn Dir>) {
    let disk = dir.make("f").unwrap();
    assert_eq!(disk.len().unwrap(), 0);
    disk.write_at(3, b"x").unwrap();
    assert_eq!(dir.read("f").unwrap(), b"\0\0\0x");
    assert_eq!(dir.make("f").err(), Some(Errno::EXIST));
    assert_eq!(dir.make("a/b").err(), Some(Errno::INVAL));
}

fn locked(dir: Arc<dyn Dir>) {
    let held = dir.lock("lock").unwrap();
    assert_eq!(dir.lock("lock").err(), Some(Errno::AGAIN));
    dir.lock("other").unwrap();
    drop(held);
    dir.lock("lock").unwrap();
}

const NAME: &std::ffi::CStr = c"trusted.hft";

fn found(dir: Arc<dyn Dir>, files: Arc<dyn Files>) {
    dir.replace("a", b"").unwrap();
    let handle = dir.handle("a").unwrap();
    files.set_attribute(&handle, NAME, b"v").unwrap();
    dir.rename("a", "b").unwrap();
    assert_eq!(dir.handle("b").unwrap(), handle);
    assert_eq!(dir.handle("a").err(), Some(Errno::NOENT));
    assert_eq!(files.attribute(&handle, NAME).unwrap(), b"v");
    files.sync_all().unwrap();
}

fn stale(dir: Arc<dyn Dir>, files: Arc<dyn Files>) {
    dir.replace("a", b"").unwrap();
    let handle = dir.handle("a").unwrap();
    files.set_attribute(&handle, NAME, b"v").unwrap();
    dir.remove("a").unwrap();
    // On ext4 the next file gets the inode number of the last one.
    dir.make("a").unwrap();
    let stale = Some(Errno::STALE);
    assert_eq!(files.attribute(&handle, NAME).err(), stale);
    assert_eq!(files.set_attribute(&handle, NAME, b"w").err(), stale);
    assert_eq!(files.remove_attribute(&handle, NAME).err(), stale);
    let strange = Handle::from_bytes(&[0x81, 1, 2, 3]).unwrap();
    assert_eq!(files.attribute(&strange, NAME).err(), stale);
    let next = dir.handle("a").unwrap();
    assert_ne!(next, handle);
    assert_eq!(files.attribute(&next, NAME).err(), Some(Errno::NODATA));
}

fn attributes(dir: Arc<dyn Dir>, files: Arc<dyn Files>) {
    dir.make("a").unwrap();
    let handle = dir.handle("a").unwrap();
    assert_eq!(files.attribute(&handle, NAME).err(), Some(Errno::NODATA));
    for length in [0, 1, 700, 3000] {
        let value = vec![7; length];
        files.set_attribute(&handle, NAME, &value).unwrap();
        assert_eq!(files.attribute(&handle, NAME).unwrap(), value);
    }
    files.remove_attribute(&handle, NAME).unwrap();
    assert_eq!(
        files.remove_attribute(&handle, NAME).err(),
        Some(Errno::NODATA)
    );
}

fn as_bytes(dir: Arc<dyn Dir>, _: Arc<dyn Files>) {
    dir.make("a").unwrap();
    let handle = dir.handle("a").unwrap();
    assert_eq!(Handle::from_bytes(handle.as_bytes()), Some(handle));
    assert_eq!(Handle::from_bytes(&[]), None);
    assert_eq!(Handle::from_bytes(&[0; 65]), None);
}

#[test]
fn a_file_of_another_file_system_has_no_handle_here() {
    use std::os::fd::AsFd;
    let home = tempfile::tempdir().unwrap();
    let files = RealFiles::open(home.path()).unwrap();
    let own = std::fs::File::open(home.path()).unwrap();
    let other = std::fs::File::open("/proc").unwrap();
    files.handle_of(own.as_fd()).unwrap();
    assert_eq!(files.handle_of(other.as_fd()).err(), Some(Errno::XDEV));
    assert_eq!(RealFiles::open("/proc").err(), Some(Errno::OPNOTSUPP));
}

#[test]
fn a_directory_in_a_directory_is_made_once_and_then_opened() {
    let home = tempfile::tempdir().unwrap();
    let dir = RealDir::open(home.path()).unwrap();
    dir.subdirectory("sub").unwrap().replace("f", b"x").unwrap();
    assert_eq!(dir.subdirectory("sub").unwrap().read("f").unwrap(), b"x");
    assert_eq!(dir.subdirectory("a/b").err(), Some(Errno::INVAL));
}
