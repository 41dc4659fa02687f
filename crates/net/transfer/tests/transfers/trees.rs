//! Trees from one directory to another, compared by a walk of its own.

use crate::place::{Mounted, Place, Sent, harming, noise, send};
use holdfast_transfer::{Level, Options, STAGING, Settings, TransferError, local};
use rustix::fs::{AtFlags, FileType, Mode, mknodat};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What an object is, in words; equal words are equal objects. Inodes are numbered by their first
/// name.
fn describe(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        let relative = path.strip_prefix(root).unwrap().to_path_buf();
        let kind = stat.file_type();
        let content = if kind.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            String::new()
        } else if kind.is_symlink() {
            format!("{:?}", fs::read_link(&path).unwrap())
        } else if kind.is_file() {
            format!("{:08x}", codec::crc32c(&fs::read(&path).unwrap()))
        } else {
            stat.rdev().to_string()
        };
        let links = if kind.is_dir() { 0 } else { stat.nlink() };
        let size = if kind.is_dir() { 0 } else { stat.size() };
        found.insert(
            relative,
            format!(
                "{:o} {}:{} {}.{:09} size {size} links {links} attributes {:?} {content}",
                stat.mode(),
                stat.uid(),
                stat.gid(),
                stat.mtime(),
                stat.mtime_nsec(),
                attributes(&path),
            ),
        );
    }
    found
}

fn attributes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut list = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, &mut list[..]).unwrap_or(0);
    let mut found = Vec::new();
    for name in list[..length]
        .split(|byte| *byte == 0)
        .filter(|n| !n.is_empty())
    {
        let mut value = vec![0; 65536];
        if let Ok(length) = rustix::fs::lgetxattr(path, name, &mut value[..]) {
            found.push((name.escape_ascii().to_string(), value[..length].to_vec()));
        }
    }
    found.sort();
    found
}

fn same(source: &Path, destination: &Path) {
    let (a, b) = (describe(source), describe(destination));
    let only = |x: &BTreeMap<PathBuf, String>, y: &BTreeMap<PathBuf, String>| {
        let differs = |(path, words): &(&PathBuf, &String)| y.get(*path) != Some(words);
        x.iter()
            .filter(differs)
            .map(|(path, words)| format!("{path:?}: {words}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        a == b,
        "source:\n{}\ndestination:\n{}",
        only(&a, &b),
        only(&b, &a)
    );
}

/// A tree with everything that may be in one.
pub(crate) fn nasty(root: &Path) {
    fs::create_dir(root).unwrap();
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for (name, length) in [
        ("zero", 0),
        ("one", 1),
        ("page", 4096),
        ("page and one", 4097),
        ("range", 1 << 20),
        ("a/large", (9 << 20) + 123),
    ] {
        fs::write(root.join(name), noise(length as u64, length)).unwrap();
    }
    for number in 0..300 {
        fs::write(
            root.join("a/b").join(format!("f{number}")),
            noise(number, 100),
        )
        .unwrap();
    }
    let strange: [&[u8]; 5] = [b"\xff\xfe", b"new\nline", b" ", b"-rf", b"\\x41\x01"];
    for name in strange {
        fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    fs::write(root.join(OsString::from_vec(vec![b'n'; 255])), b"long name").unwrap();
    // Hard links across directories, one of them of a link.
    for number in 0..20 {
        fs::hard_link(root.join("range"), root.join(format!("a/b/c/same{number}"))).unwrap();
    }
    symlink("../nowhere/at all", root.join("dangling")).unwrap();
    symlink("/etc/passwd", root.join("a/absolute")).unwrap();
    symlink(OsStr::from_bytes(&[b't'; 4000]), root.join("long target")).unwrap();
    fs::hard_link(root.join("dangling"), root.join("dangling too")).unwrap();
    let mode = Mode::from_raw_mode(0o640);
    for (name, kind, number) in [
        ("pipe", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
        ("loop", FileType::BlockDevice, rustix::fs::makedev(7, 200)),
    ] {
        mknodat(rustix::fs::CWD, root.join(name), kind, mode, number).unwrap();
    }
    let mut sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(200 << 20).unwrap();
    for at in [0u64, (3 << 20) + 4000, (150 << 20) - 1, (200 << 20) - 2] {
        sparse.seek(SeekFrom::Start(at)).unwrap();
        sparse.write_all(b"xy").unwrap();
    }
    File::create(root.join("hole"))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let set = |path: &Path, name: &str, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::lsetxattr(path, name, value, flags).unwrap();
    };
    set(&root.join("one"), "user.note", b"some\0bytes");
    set(&root.join("a"), "user.of a directory", b"");
    set(&root.join("one"), "trusted.secret", b"root's");
    // An access control list: user 1000 may read (linux/posix_acl_xattr.h).
    let entry = |tag: u16, perm: u16, id: u32| {
        [
            &tag.to_le_bytes()[..],
            &perm.to_le_bytes(),
            &id.to_le_bytes(),
        ]
        .concat()
    };
    let acl = [
        2u32.to_le_bytes().to_vec(),
        entry(1, 6, u32::MAX),
        entry(2, 4, 1000),
        entry(4, 4, u32::MAX),
        entry(16, 4, u32::MAX),
        entry(32, 0, u32::MAX),
    ];
    set(&root.join("page"), "system.posix_acl_access", &acl.concat());
    set(
        &root.join("empty"),
        "system.posix_acl_default",
        &acl.concat(),
    );
    std::os::unix::fs::chown(root.join("page and one"), Some(1234), Some(567)).unwrap();
    std::os::unix::fs::lchown(root.join("dangling"), Some(12), Some(13)).unwrap();
    let chmod = |name: &str, mode| {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod("zero", 0o0);
    chmod("page and one", 0o6751);
    chmod("empty", 0o1777);
    chmod("a/b/c", 0o500);
    chmod("a", 0o711);
    let time = |name: &str, seconds, nanoseconds| {
        use rustix::fs::{Timespec, Timestamps, utimensat};
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        utimensat(rustix::fs::CWD, root.join(name), &times, flags).unwrap();
    };
    time("one", 1, 1);
    time("dangling", 1_000_000_000, 999_999_999);
    time("a/b", 1_500_000_000, 5);
    time("pipe", 3, 4);
    time("page", -5, 7);
}

/// At level `device`.
fn transfer(place: &Place, settings: &Settings) -> Sent {
    place.send(Level::Device, settings)
}

#[test]
fn a_tree_with_everything_arrives_as_it_is() {
    let place = Place::new();
    nasty(&place.source);
    let report = transfer(&place, &Settings::default()).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.level, Level::Device);
    same(&place.source, &place.destination);
    assert!(!place.destination.join(STAGING).exists());
    let blocks = fs::metadata(place.destination.join("sparse"))
        .unwrap()
        .blocks();
    assert!(blocks * 512 < 8 << 20, "holes stay holes: {blocks} blocks");
    // Once more: everything is compared, nothing is sent.
    let again = transfer(&place, &Settings::default()).unwrap();
    assert!(again.is_whole());
    assert_eq!((again.kept, again.bytes_sent), (again.files, 0));
    assert_eq!(again.files, report.files);
    same(&place.source, &place.destination);
}

#[test]
fn what_differs_under_the_same_time_and_length_is_found_and_sent() {
    let place = Place::new();
    nasty(&place.source);
    transfer(&place, &Settings::default()).unwrap();
    // A page goes bad, and a hole gets content, without a trace in length and time.
    for (name, at) in [("a/large", 5_000_000u64), ("sparse", 100 << 20)] {
        let path = place.destination.join(name);
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(b"rot").unwrap();
        file.set_modified(before).unwrap();
    }
    // And what has changed in other ways.
    fs::write(place.destination.join("one"), "longer").unwrap();
    fs::remove_file(place.destination.join("zero")).unwrap();
    fs::set_permissions(
        place.destination.join("range"),
        fs::Permissions::from_mode(0o777),
    )
    .unwrap();
    let report = transfer(&place, &Settings::default()).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    same(&place.source, &place.destination);
    assert_eq!(report.files - report.kept, 4);
}

#[test]
fn a_single_file_goes_into_the_directory() {
    let place = Place::new();
    fs::write(place.path("letter"), noise(1, 5000)).unwrap();
    let (letter, settings) = (place.path("letter"), Settings::default());
    let report = send(&letter, &place.destination, Level::Device, &settings);
    assert!(report.unwrap().is_whole());
    assert_eq!(
        fs::read(place.destination.join("letter")).unwrap(),
        noise(1, 5000)
    );
}

/// A hook that changes a byte of each file behind the receiver's back, `times` times.
fn rot(times: usize) -> Settings {
    let left = AtomicUsize::new(times);
    let hook = move |file: &std::os::fd::OwnedFd| {
        let one_less = |left: usize| left.checked_sub(1);
        let turn = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if turn.is_ok() {
            let mut byte = [0];
            rustix::io::pread(file, &mut byte, 5000).unwrap();
            byte[0] ^= 4;
            rustix::io::pwrite(file, &byte, 5000).unwrap();
            rustix::fs::fsync(file).unwrap();
        }
    };
    harming(hook)
}

#[test]
fn a_page_that_reads_back_wrong_is_sent_again() {
    let place = Place::with_file(noise(9, 100_000));
    let report = transfer(&place, &rot(2)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    assert_eq!(report.pages_resent, 2);
    same(&place.source, &place.destination);
}

#[test]
fn a_file_that_does_not_keep_what_is_written_is_put_away_and_named() {
    let place = Place::with_file(noise(9, 100_000));
    fs::create_dir(&place.destination).unwrap();
    fs::write(place.destination.join("file"), "the old one").unwrap();
    let report = transfer(&place, &rot(usize::MAX)).unwrap();
    let [problem] = &report.problems[..] else {
        panic!("{:?}", report.problems);
    };
    assert!(
        problem.missing && problem.what.contains("quarantine"),
        "{problem:?}"
    );
    assert_eq!(
        fs::read(place.destination.join("file")).unwrap(),
        b"the old one"
    );
    let away = place.destination.join(STAGING).join("quarantine");
    assert_eq!(fs::read_dir(away).unwrap().count(), 1);
}

/// What level `device` has to find, `wire` cannot: the canary of the levels.
#[test]
fn a_fault_behind_the_sync_is_not_seen_at_level_wire() {
    let place = Place::with_file(noise(9, 100_000));
    let report = place.send(Level::Wire, &rot(1)).unwrap();
    assert!(report.is_whole());
    assert_ne!(
        fs::read(place.destination.join("file")).unwrap(),
        noise(9, 100_000)
    );
}

#[test]
fn what_is_in_the_way_is_named_and_stays() {
    let place = Place::new();
    fs::create_dir_all(place.source.join("dir/sub")).unwrap();
    fs::write(place.source.join("dir/file"), "x").unwrap();
    fs::write(place.source.join("plain"), "y").unwrap();
    fs::write(place.source.join("fine"), "z").unwrap();
    fs::create_dir_all(place.destination.join("plain/full")).unwrap();
    // A link that leads out, where a directory has to be.
    fs::create_dir(place.path("outside")).unwrap();
    symlink("../outside", place.destination.join("dir")).unwrap();
    let report = transfer(&place, &Settings::default()).unwrap();
    let mut named: Vec<String> = report.problems.iter().map(|p| p.path.to_string()).collect();
    named.sort();
    assert_eq!(named, ["dir", "dir/file", "dir/sub", "plain"]);
    assert!(report.problems.iter().all(|problem| problem.missing));
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 0);
    assert!(place.destination.join("plain/full").exists());
    assert_eq!(fs::read(place.destination.join("fine")).unwrap(), b"z");
}

#[test]
fn two_transfers_do_not_work_on_one_destination() {
    let place = Place::with_file("x");
    let (from, to) = (place.source.clone(), place.destination.clone());
    let hook = move |_: &std::os::fd::OwnedFd| {
        let second = send(&from, &to, Level::Device, &Settings::default()).unwrap_err();
        assert!(second.to_string().contains("another transfer"), "{second}");
    };
    assert!(transfer(&place, &harming(hook)).unwrap().is_whole());
}

#[test]
fn a_destination_that_cannot_be_is_refused() {
    let place = Place::with_file("x");
    let copy = |from: &Path, to: &Path| send(from, to, Level::Device, &Settings::default());
    for bad in ["source/file", "missing/deeper"] {
        let error = copy(&place.source, &place.path(bad));
        assert!(
            matches!(error, Err(TransferError::Failed { .. })),
            "{error:?}"
        );
    }
    let none = copy(&place.path("none"), &place.source);
    assert!(matches!(none, Err(TransferError::Io { .. })), "{none:?}");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again_or_named() {
    for (changes, whole) in [(1, true), (usize::MAX, false)] {
        let place = Place::with_file(noise(3, 5 << 20));
        let path = place.source.join("file");
        fs::write(place.source.join("other"), noise(4, 5000)).unwrap();
        let mut left = changes;
        let mut change = |progress: holdfast_transfer::Progress| {
            if progress.bytes_sent > 0 && left > 0 {
                left -= 1;
                let mut file = File::options().append(true).open(&path).unwrap();
                file.write_all(b"more").unwrap();
            }
        };
        let (options, settings) = (Options::default(), Settings::default());
        let report = local(
            &place.source,
            &place.destination,
            &options,
            &settings,
            &mut change,
        )
        .unwrap();
        assert_eq!(report.is_whole(), whole, "{:?}", report.problems);
        assert!(place.destination.join("other").exists());
        if whole {
            same(&place.source, &place.destination);
        } else {
            let [problem] = &report.problems[..] else {
                panic!("{:?}", report.problems);
            };
            assert!(
                problem.what.contains("changed each of 3 times"),
                "{problem:?}"
            );
            assert!(!place.destination.join("file").exists());
        }
    }
}

#[test]
fn a_destination_without_room_is_said_to_be_full_and_what_is_in_place_stays_whole() {
    let place = Place::new();
    fs::create_dir_all(place.source.join("a")).unwrap();
    for number in 0..20 {
        fs::write(
            place.source.join("a").join(number.to_string()),
            noise(number, 1 << 20),
        )
        .unwrap();
    }
    let small = Mounted::in_memory(place.path("small"), "size=8m");
    let copy = || send(&place.source, &small.0, Level::Cache, &Settings::default());
    let error = copy().unwrap_err();
    assert_eq!(error.to_string(), "the destination is full");
    for (path, words) in describe(&small.0)
        .iter()
        .filter(|(path, _)| path.starts_with("a"))
    {
        let right = describe(&place.source).get(path) == Some(words);
        assert!(right || path == Path::new("a"), "{path:?}: {words}");
    }
    // Room is made, and the same call comes to its end.
    small.remount("size=64m");
    let report = copy().unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    same(&place.source, &small.0);
}

#[test]
fn a_destination_that_takes_no_writes_is_refused() {
    let place = Place::with_file("x");
    let fixed = Mounted::in_memory(place.path("fixed"), "ro");
    let error = send(&place.source, &fixed.0, Level::Device, &Settings::default()).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[test]
fn a_file_system_in_memory_proves_no_device() {
    let place = Place::with_file("x");
    let memory = Mounted::in_memory(place.path("memory"), "size=8m");
    let error = send(
        &place.source,
        &memory.0,
        Level::Device,
        &Settings::default(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("it is on tmpfs"), "{error}");
}
