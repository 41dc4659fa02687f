//! Stores on file systems of their own (ext4, XFS, btrfs on loop devices) that fill up, stop, and
//! vanish under load.

use super::place::{LIMIT, Place};
use super::sync;
use redundancy::status::{Status, StoreState};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// XFS is made no smaller than 300 MiB. The images are sparse.
const DISK_BYTES: u64 = 512 << 20;

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program)
        .args(words)
        .output()
        .expect("a program of TEST_PACKAGES in the Makefile");
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
}

/// A file system in a file, mounted.
struct Disk {
    image: String,
    dir: String,
}

impl Disk {
    fn new(place: &Place, number: usize, kind: &str) -> Disk {
        let shown = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        let disk = Disk {
            image: shown(place.path(&format!("image-{number}"))),
            dir: shown(place.path(&format!("disk-{number}"))),
        };
        let image = fs::File::create(&disk.image).expect("an image");
        image.set_len(DISK_BYTES).expect("a sparse file");
        let force = if kind == "ext4" { "-F" } else { "-f" };
        run(&format!("mkfs.{kind}"), &["-q", force, &disk.image]);
        fs::create_dir(&disk.dir).expect("a mount point");
        disk.mount();
        disk
    }

    fn mount(&self) {
        run("mount", &["-o", "loop", &self.image, &self.dir]);
    }

    fn unmount(&self) {
        run("umount", &["--lazy", &self.dir]);
    }

    /// Every further call to it fails, as on a disk that was pulled out.
    fn stop(&self) {
        run("xfs_io", &["-x", "-c", "shutdown", &self.dir]);
    }

    fn ballast(&self) -> PathBuf {
        PathBuf::from(&self.dir).join("ballast")
    }

    /// Fills it but for `left` bytes, those that ext4 keeps for root among them.
    fn fill(&self, left: u64) {
        let room = || {
            let free = rustix::fs::statvfs(self.dir.as_str()).expect("free room");
            (free.f_bfree * free.f_frsize).saturating_sub(left)
        };
        let file = fs::File::create(self.ballast()).expect("a file");
        // A file system keeps some for itself, and says so in pieces only.
        let (mut length, mut piece) = (0, room());
        while piece > left / 8 {
            let flags = rustix::fs::FallocateFlags::empty();
            match rustix::fs::fallocate(&file, flags, length, piece) {
                Ok(()) => {
                    length += piece;
                    piece = piece.min(room());
                }
                Err(rustix::io::Errno::NOSPC) => piece /= 2,
                Err(error) => panic!("{}: {error}", self.dir),
            }
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).expect("the ballast");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Also after a failure in the midst of it; loop devices go with the last mount.
        let _not_mounted = Command::new("umount").args(["--lazy", &self.dir]).output();
    }
}

/// A set over three disks. The disks are dropped after what serves them.
fn over(kinds: [&str; 3]) -> (Place, [Disk; 3]) {
    let mut place = Place::new();
    let mut number = 0;
    let disks = kinds.map(|kind| {
        let disk = Disk::new(&place, number, kind);
        place.stores[number] = format!("disk-{number}/store");
        number += 1;
        disk
    });
    place.up();
    (place, disks)
}

/// What a writer has synced: each file's name and content.
type Synced = Vec<(String, Vec<u8>)>;

/// Writes and syncs files until told to end; no write may fail.
fn write_files(place: &Place, end: &AtomicBool) -> Synced {
    let mut synced = Synced::new();
    while !end.load(Ordering::Acquire) && synced.len() < 5000 {
        let number = synced.len();
        let name = format!("file-{number}");
        let content = vec![number as u8; 1000 + number * 7];
        let path = place.path("mnt").join(&name);
        fs::write(&path, &content).expect("a write that goes on");
        sync(&path);
        synced.push((name, content));
        if number.is_multiple_of(5) {
            // An old one changes, too.
            let (name, content) = &mut synced[number / 2];
            content.extend_from_slice(b"more");
            let path = place.path("mnt").join(name);
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .expect("open");
            file.write_all(b"more").expect("a write that goes on");
            file.sync_all().expect("fsync");
        }
    }
    synced
}

#[test]
fn disks_that_stop_or_vanish_under_load_are_left_out_and_come_back() {
    let (mut place, disks) = over(["ext4", "xfs", "btrfs"]);
    let end = AtomicBool::new(false);
    let synced = std::thread::scope(|scope| {
        let (place, end) = (&place, &end);
        let writer = scope.spawn(move || write_files(place, end));
        // The writer ends, whatever happens here.
        let driven = std::panic::catch_unwind(|| {
            for (number, disk) in disks.iter().enumerate() {
                // btrfs has no call that stops it.
                let stops = number < 2;
                if stops {
                    disk.stop();
                } else {
                    disk.unmount();
                }
                let fenced = |s: &Status| s.stores[number].state == StoreState::Fenced;
                place.until("it is left out", fenced);
                assert!(place.status().writable);
                if stops {
                    disk.unmount();
                }
                disk.mount();
                place.until("it is back", |status| status.redundant);
            }
        });
        end.store(true, Ordering::Release);
        let synced = writer.join().expect("no write failed");
        driven.expect("the driver");
        synced
    });
    let (code, said) = place.check();
    assert_eq!(code, Some(0), "{said}");
    place.down();
    assert!(synced.len() > 10, "{}", synced.len());
    for (name, content) in &synced {
        let held = place.holders(name);
        assert_eq!(held.len(), 2, "{name}");
        for store in held {
            let read = fs::read(place.copy(store, name)).expect("a copy");
            assert!(read == *content, "{name} on store {store}");
        }
    }
}

#[test]
fn a_disk_that_fills_in_the_midst_of_a_write_is_left_out_and_comes_back_with_room() {
    const WRITTEN: usize = 24 << 20;
    let (mut place, disks) = over(["ext4", "xfs", "btrfs"]);
    let path = place.path("mnt/large");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(b"begun").expect("a write");
    file.sync_all().expect("fsync");
    let held = place.holders("large");
    let full = held[0];
    disks[full].fill(8 << 20);
    let data: Vec<u8> = (0..WRITTEN).map(|n| (n / 4096) as u8).collect();
    file.write_all(&data).expect("the other copy has room");
    file.sync_all().expect("fsync");
    place.until("it is full", |s| s.stores[full].state == StoreState::Fenced);
    assert!(place.status().stores[full].detail.contains("full"));
    disks[full].make_room();
    place.until("it is back", |status| status.redundant);

    // Where no copy has room the writer is told, and nobody is fenced.
    for disk in &disks {
        disk.fill(8 << 20);
    }
    let began = std::time::Instant::now();
    let error = loop {
        match file.write_all(&data).and_then(|()| file.sync_all()) {
            Err(error) => break error,
            Ok(()) => assert!(began.elapsed() < LIMIT, "it never fills"),
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    for disk in &disks {
        disk.make_room();
    }
    place.until("all are in", |status| status.redundant && status.writable);
    let kept = fs::read(&path).expect("the file");
    assert_eq!(&kept[..5], b"begun");
    assert!(kept[5..5 + WRITTEN] == data[..], "what was synced before");
    file.set_len(5).expect("a change");
    file.sync_all().expect("fsync");
    drop(file);
    let (code, said) = place.check();
    assert_eq!(code, Some(0), "{said}");
    place.down();
}
