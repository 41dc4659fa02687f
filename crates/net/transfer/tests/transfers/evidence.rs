//! What is left of a transfer: its manifest, and what waits for level `medium`.

use crate::place::{Place, harming, noise};
use holdfast_transfer::manifest::{self, Kind, Listed, Manifest, Proved, Signer};
use holdfast_transfer::verify::{Change, Difference, Verified, verify};
use holdfast_transfer::{Level, Options, Report, STAGING, Settings, TransferError, local};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn signer() -> Settings {
    // PKCS #8 of an Ed25519 key (RFC 8410, 7).
    let head = [
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];
    let signer = Signer::new(&[&head[..], &[7; 32]].concat(), None).unwrap();
    Settings {
        signer: Some(Arc::new(signer)),
        ..Settings::default()
    }
}

fn send(place: &Place, options: &Options) -> Result<Report, TransferError> {
    local(
        &place.source,
        &place.destination,
        options,
        &signer(),
        &mut |_| (),
    )
}

fn with_manifest(place: &Place) -> Options {
    Options {
        manifest: Some(place.path("manifest")),
        ..Options::default()
    }
}

fn listed(path: &Path) -> (Manifest, Vec<Proved>) {
    let mut found = Vec::new();
    let file = BufReader::new(File::open(path).unwrap());
    let take = |listed| {
        if let Listed::File(proved) = listed {
            found.push(proved);
        }
    };
    let manifest = manifest::read(file, take).unwrap();
    (manifest, found)
}

fn held_against(place: &Place) -> Verified {
    let file = BufReader::new(File::open(place.path("manifest")).unwrap());
    verify(file, &place.destination, 4, |_| ()).unwrap().1
}

fn tree() -> Place {
    let place = Place::with_file(noise(1, 3 << 20));
    fs::create_dir(place.source.join("dir")).unwrap();
    for number in 0..300u64 {
        let name = place.source.join(format!("dir/{number}"));
        fs::write(name, noise(number, 37 * number as usize)).unwrap();
    }
    let sparse = File::create(place.source.join("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    sparse.write_all_at(b"far", 40 << 20).unwrap();
    place
}

/// What differs, by paths as text.
fn named(verified: &Verified) -> Vec<(String, Difference)> {
    let all = verified.differences.iter();
    all.map(|(path, difference)| (path.to_string(), difference.clone()))
        .collect()
}

#[test]
fn a_manifest_says_what_was_proved_and_finds_what_differs_later() {
    let place = tree();
    let report = send(&place, &with_manifest(&place)).unwrap();
    assert!(report.is_whole());
    let (manifest, files) = listed(&place.path("manifest"));
    assert_eq!(manifest.files, report.files);
    assert_eq!(manifest.bytes, report.bytes);
    assert!(manifest.signature.is_some());
    assert!(files.iter().all(|file| file.level == Level::Device));
    let right = held_against(&place);
    assert!(right.is_right(), "{:?}", right.differences);
    assert_eq!((right.files, right.level()), (302, Level::Device));
    // The directories.
    assert_eq!((right.others, manifest.others), (2, 2));
    // The same tree again: all is compared, and listed with the same sums.
    let again = send(&place, &with_manifest(&place)).unwrap();
    assert_eq!(again.kept, again.files);
    let sums = |files: Vec<Proved>| {
        let mut sums: Vec<_> = files.into_iter().map(|f| (f.path, f.sum)).collect();
        sums.sort_by(|(a, _), (b, _)| a.cmp(b));
        sums
    };
    assert_eq!(sums(listed(&place.path("manifest")).1), sums(files));
    // One file rots, one hole gets content, one is written, one goes, one becomes a link.
    for (name, at) in [("file", 2_000_000u64), ("sparse", 10 << 20)] {
        let file = File::options()
            .write(true)
            .open(place.destination.join(name))
            .unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"rot", at).unwrap();
        file.set_modified(before).unwrap();
    }
    fs::write(place.destination.join("dir/7"), "new").unwrap();
    fs::remove_file(place.destination.join("dir/8")).unwrap();
    fs::remove_file(place.destination.join("dir/9")).unwrap();
    std::os::unix::fs::symlink("10", place.destination.join("dir/9")).unwrap();
    let later = held_against(&place);
    let mut named = named(&later);
    // What went, and what came: the directory's time says so too.
    let dir = named.remove(0);
    assert!(
        dir.0 == "dir" && matches!(dir.1, Difference::Time(..)),
        "{dir:?}"
    );
    assert_eq!(
        named,
        [
            ("dir/7".to_owned(), Difference::Written),
            ("dir/8".to_owned(), Difference::Missing),
            (
                "dir/9".to_owned(),
                Difference::Kind(Kind::File, Kind::Link(b"10".to_vec()))
            ),
            ("file".to_owned(), Difference::Rotten),
            ("sparse".to_owned(), Difference::Rotten),
        ]
    );
    assert_eq!(later.files, 302 - 5);
}

#[test]
fn everything_of_a_tree_is_in_its_manifest_and_each_difference_is_named() {
    use rustix::fs::makedev;
    let place = Place::new();
    crate::trees::nasty(&place.source);
    let report = send(&place, &with_manifest(&place)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    let manifest = listed(&place.path("manifest")).0;
    assert_eq!(
        (manifest.files, manifest.others),
        (report.files, report.others)
    );
    let right = held_against(&place);
    assert!(right.is_right(), "{:?}", right.differences);
    assert_eq!((right.files, right.others), (report.files, report.others));
    let link = |target: &[u8]| Kind::Link(target.to_vec());
    // One after the other: what is done, to what, and what is said of it.
    let spoilt: Vec<(&str, &str, Difference)> = vec![
        ("chmod 600 one", "one", Difference::Mode(0o644, 0o600)),
        ("chmod 1755 .", ".", Difference::Mode(0o755, 0o1755)),
        ("chmod 700 a/b", "a/b", Difference::Mode(0o755, 0o700)),
        ("chmod g+x pipe", "pipe", Difference::Mode(0o640, 0o650)),
        ("chown 5:6 zero", "zero", Difference::Owner((0, 0), (5, 6))),
        (
            "chown -h 7 dangling",
            "dangling",
            Difference::Owner((12, 13), (7, 13)),
        ),
        (
            "setfattr -n user.note -v other one",
            "one",
            Difference::Attributes(Change::Other),
        ),
        (
            "setfattr -x 'user.of a directory' a",
            "a",
            Difference::Attributes(Change::Gone),
        ),
        (
            "setfattr -n user.new -v x zero",
            "zero",
            Difference::Attributes(Change::Added),
        ),
        (
            "setfattr -n trusted.new -v x socket",
            "socket",
            Difference::Attributes(Change::Added),
        ),
        (
            "setfacl -m u:7:r one",
            "one",
            Difference::Acl(Change::Added),
        ),
        (
            "setfacl -m u:1000:- page",
            "page",
            Difference::Acl(Change::Other),
        ),
        ("setfacl -k empty", "empty", Difference::Acl(Change::Gone)),
        (
            "ln -sfn elsewhere a/absolute",
            "a/absolute",
            Difference::Target(b"/etc/passwd".to_vec(), b"elsewhere".to_vec()),
        ),
        (
            "rm null; mknod -m 640 null c 1 5",
            "null",
            Difference::Device(makedev(1, 3), makedev(1, 5)),
        ),
        (
            "rm loop; mknod -m 640 loop b 7 201",
            "loop",
            Difference::Device(makedev(7, 200), makedev(7, 201)),
        ),
        (
            "rm socket; mkfifo -m 640 socket",
            "socket",
            Difference::Kind(Kind::Socket, Kind::Pipe),
        ),
        (
            "rm one; mkdir one",
            "one",
            Difference::Kind(Kind::File, Kind::Directory),
        ),
        (
            "rm page; mkfifo page",
            "page",
            Difference::Kind(Kind::File, Kind::Pipe),
        ),
        (
            "rmdir empty; ln -s a empty",
            "empty",
            Difference::Kind(Kind::Directory, link(b"a")),
        ),
        ("rm 'long target'", "long target", Difference::Missing),
        ("rm a/b/c/same7", "a/b/c/same7", Difference::Missing),
        (
            "cp -p --remove-destination range 'a/b/c/same7'",
            "a/b/c/same7",
            Difference::Name(range_of(&place)),
        ),
    ];
    // The copy is verified as the destination is; each time one thing of it is other.
    let copy = Place::new();
    for (script, path, difference) in spoilt {
        let line = format!(
            "rm -rf {to}; cp -a {from} {to}; cd {to}; {script}",
            from = place.destination.display(),
            to = copy.destination.display()
        );
        let status = std::process::Command::new("sh")
            .args(["-ec", &line])
            .status();
        assert!(status.unwrap().success(), "{script}");
        let file = BufReader::new(File::open(place.path("manifest")).unwrap());
        let found = verify(file, &copy.destination, 2, |_| ()).unwrap().1;
        let parent = Path::new(path)
            .parent()
            .map(|it| it.to_string_lossy().into_owned());
        let parent = parent.map(|it| if it.is_empty() { ".".to_owned() } else { it });
        let mut said = named(&found);
        // A name that came and one that went change the directory's time, and a new object has
        // another one of its own.
        said.retain(|(at, what)| {
            let own = at == path && matches!(what, Difference::Time(..));
            let above = Some(at) == parent.as_ref() && matches!(what, Difference::Time(..));
            !own && !above
        });
        // An ACL has the permissions of the group in it.
        said.retain(|(_, what)| script.contains("chmod") || !matches!(what, Difference::Mode(..)));
        assert_eq!(said, [(path.to_owned(), difference)], "{script}");
    }
}

/// The name by which the file with many names is listed.
fn range_of(place: &Place) -> holdfast_transfer::TreePath {
    let file = BufReader::new(File::open(place.path("manifest")).unwrap());
    let mut found = None;
    let take = |listed| {
        if let Listed::Name { path, first } = listed
            && path.to_string() != "dangling too"
            && path.to_string() != "dangling"
        {
            found = Some(first);
        }
    };
    manifest::read(file, take).unwrap();
    found.unwrap()
}

#[test]
fn a_time_that_was_set_back_alone_is_named() {
    let place = tree();
    send(&place, &with_manifest(&place)).unwrap();
    let file = File::options()
        .write(true)
        .open(place.destination.join("dir/5"))
        .unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let found = named(&held_against(&place));
    let [(path, Difference::Time(_, now))] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&path[..], now.seconds, now.nanoseconds), ("dir/5", 0, 0));
}

#[test]
fn a_manifest_of_version_1_is_verified_without_what_it_does_not_say() {
    let place = Place::with_file("");
    let dir = place.source.join("dir");
    fs::create_dir(&dir).unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/manifest-1");
    let file = BufReader::new(File::open(golden).unwrap());
    let (manifest, found) = verify(file, &place.source, 2, |_| ()).unwrap();
    assert_eq!((manifest.files, found.differences.len()), (6, 6));
    let all = named(&found);
    assert!(
        all.iter().all(|(_, what)| *what == Difference::Missing),
        "{all:?}"
    );
}

#[test]
fn a_manifest_of_a_transfer_that_went_on_is_that_of_the_whole_files() {
    let place = Place::with_file(noise(5, 150 << 20));
    let first = crate::cuts::cut_short(&place.source, &place.destination, 140 << 20);
    assert!(first.is_err());
    let report = send(&place, &with_manifest(&place)).unwrap();
    assert!(report.bytes_resumed > 0);
    let right = held_against(&place);
    assert!(right.is_right(), "{:?}", right.differences);
    assert_eq!(right.bytes, 150 << 20);
}

fn medium(place: &Place, settle: bool) -> Options {
    Options {
        level: Level::Medium,
        write_cache: Some(40 << 20),
        settle,
        ..with_manifest(place)
    }
}

/// So many files of 8 MiB, each a batch and more with three others.
fn large_files(count: u64) -> Place {
    let place = Place::new();
    fs::create_dir(&place.source).unwrap();
    let bytes = noise(1, (8 << 20) + count as usize);
    for number in 0..count as usize {
        let name = place.source.join(format!("{number:02}"));
        fs::write(name, &bytes[number..number + (8 << 20)]).unwrap();
    }
    place
}

fn levels(place: &Place) -> (usize, usize) {
    let (_, files) = listed(&place.path("manifest"));
    let of = |level| files.iter().filter(|file| file.level == level).count();
    (of(Level::Medium), of(Level::Device))
}

#[test]
fn what_has_more_than_the_write_cache_behind_it_is_proved_at_medium_and_the_rest_waits() {
    let place = large_files(12);
    let report = send(&place, &medium(&place, false)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    // Of three batches of 32 MiB the first has 64 MiB behind it, the second 32.
    assert_eq!((report.settled, report.pending), (4, 8));
    assert_eq!(levels(&place), (4, 8));
    assert!(held_against(&place).is_right());
    // The ledger says which.
    let ledger = place.destination.join(STAGING).join("pending");
    assert_eq!(listed(&ledger).1.len(), 8);
    // Another transfer of other files to the same place pushes them out.
    let source = place.path("more");
    fs::create_dir(&source).unwrap();
    let bytes = noise(2, 8 << 20);
    for number in 0..8 {
        fs::write(source.join(format!("more{number}")), &bytes).unwrap();
    }
    let (options, settings) = (medium(&place, false), Settings::default());
    let report = local(
        &source,
        &place.destination,
        &options,
        &settings,
        &mut |_| (),
    )
    .unwrap();
    assert_eq!((report.settled, report.pending), (8, 8));
    assert_eq!(listed(&ledger).1.len(), 8);
    assert!(
        listed(&ledger)
            .1
            .iter()
            .all(|file| file.path.to_string().starts_with("more"))
    );
}

#[test]
fn scratch_data_settles_everything_where_it_is_wanted() {
    let place = large_files(5);
    let report = send(&place, &medium(&place, true)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    assert_eq!((report.settled, report.pending), (5, 0));
    assert_eq!(levels(&place), (5, 0));
    assert!(!place.destination.join(STAGING).exists());
}

/// Sends large files while the first, which is in place, rots.
fn rotting() -> (Place, holdfast_transfer::Report) {
    let place = large_files(12);
    let first = place.destination.join("00");
    let synced = AtomicUsize::new(0);
    let rot = move |_: &OwnedFd| {
        // With the first file of the second batch: the first batch is in place, and waits.
        if synced.fetch_add(1, Ordering::SeqCst) == 4 {
            assert!(rot_in(&first));
        }
    };
    let (options, settings) = (medium(&place, true), harming(rot));
    let destination = &place.destination;
    let report = local(&place.source, destination, &options, &settings, &mut |_| ()).unwrap();
    (place, report)
}

/// Changes some bytes of a file under the time that it has; whether it is there.
fn rot_in(path: &Path) -> bool {
    let Ok(file) = File::options().write(true).open(path) else {
        return false;
    };
    let before = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"rot", 77_777).unwrap();
    file.set_modified(before).unwrap();
    file.sync_all().unwrap();
    true
}

#[test]
fn a_file_that_rots_while_it_waits_is_sent_again() {
    let (place, report) = rotting();
    assert!(report.is_whole(), "{:?}", report.problems);
    assert_eq!((report.files_resent, report.pending), (1, 0));
    assert_eq!(report.settled, 12);
    assert!(held_against(&place).is_right());
    assert_eq!(levels(&place), (12, 0));
    assert!(crate::place::files(&place.destination) == crate::place::files(&place.source));
}

#[test]
fn a_file_that_rots_and_has_another_name_is_named() {
    let place = large_files(12);
    fs::hard_link(place.source.join("00"), place.source.join("zz")).unwrap();
    let first = place.destination.join("00");
    let synced = AtomicUsize::new(0);
    let rot = move |_: &OwnedFd| {
        if synced.fetch_add(1, Ordering::SeqCst) == 4 {
            // The second name may not be there yet.
            assert!(rot_in(&first) | rot_in(&first.with_file_name("zz")));
        }
    };
    let (options, settings) = (medium(&place, true), harming(rot));
    let destination = &place.destination;
    let report = local(&place.source, destination, &options, &settings, &mut |_| ()).unwrap();
    let [problem] = &report.problems[..] else {
        panic!("{:?}", report.problems);
    };
    assert!(["00", "zz"].contains(&&problem.path.to_string()[..]));
    assert!(problem.what.contains("has not kept it"), "{problem:?}");
    assert_eq!(report.pending, 0);
}

#[test]
fn medium_is_refused_where_nobody_says_what_the_device_caches() {
    let place = Place::with_file("x");
    for options in [
        Options {
            write_cache: None,
            ..medium(&place, false)
        },
        Options {
            level: Level::Device,
            ..medium(&place, false)
        },
    ] {
        let refused = send(&place, &options).unwrap_err();
        assert!(refused.to_string().contains("write cache"), "{refused}");
        assert!(!place.destination.exists());
    }
}
