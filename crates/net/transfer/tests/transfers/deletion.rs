//! Deleting what the source does not have, dry runs, and a limit of the rate.

use crate::cuts::attempt_with;
use crate::filters::names;
use crate::place::{Mounted, Place, noise};
use env::Rng;
use holdfast_transfer::filter::Filter;
use holdfast_transfer::{Deletion, Level, Options, Planned, Report, STAGING, Settings, local};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn options(rules: &[&str], max: Option<u64>) -> Options {
    let rules = rules.iter().map(|rule| rule.parse().expect(rule));
    Options {
        level: Level::Wire,
        filter: Filter::new(rules.collect()),
        delete: Some(Deletion { max }),
        patience: Duration::from_secs(60),
        ..Options::default()
    }
}

fn send(place: &Place, options: &Options) -> Report {
    let (source, destination) = (&place.source, &place.destination);
    let settings = Settings::default();
    local(source, destination, options, &settings, &mut |_| ()).unwrap()
}

fn fill(root: &Path, paths: &[&str]) {
    for path in paths {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
}

/// Random trees with a few names, so that they have much in common.
fn random_tree(root: &Path, rng: &mut Rng) {
    fs::create_dir_all(root).unwrap();
    for _ in 0..25 {
        let mut path = root.to_path_buf();
        for _ in 0..rng.below(4) {
            path.push(["d", "e", "keep", "f.d"][rng.index(4)]);
        }
        if fs::create_dir_all(&path).is_err() {
            continue;
        }
        path.push(["a", "b.o", "c.tmp", "keep.o", "g"][rng.index(5)]);
        if !path.is_dir() {
            fs::write(&path, "x").unwrap();
        }
    }
}

#[test]
fn what_is_deleted_is_what_rsync_deletes() {
    let sets: &[&[&str]] = &[
        &[],
        &["- *.o"],
        &["- keep"],
        &["- keep/"],
        &["- /d/"],
        &["+ keep.o", "- *.o"],
        &["- d/e"],
        &["+ */", "+ *.o", "- *"],
        &["- *.tmp", "- /keep/***"],
        &["- /d/**"],
    ];
    let mut rng = Rng::new(3);
    let (mut deleted, mut kept) = (0, 0);
    for round in 0..30 {
        let rules = sets[round % sets.len()];
        let place = Place::new();
        let theirs = place.path("theirs");
        random_tree(&place.source, &mut rng);
        random_tree(&place.destination, &mut rng);
        let copied = Command::new("cp")
            .arg("-a")
            .arg(&place.destination)
            .arg(&theirs)
            .status();
        assert!(copied.unwrap().success());
        let before = names(&place.destination);
        let report = send(&place, &options(rules, None));
        assert!(report.is_whole(), "{:?}", report.problems);
        let mut rsync = Command::new("rsync");
        rsync.args(["-a", "--delete", "--quiet"]);
        rsync.args(rules.iter().map(|rule| format!("--filter={rule}")));
        rsync
            .arg(format!("{}/", place.source.display()))
            .arg(&theirs);
        assert!(rsync.status().expect("rsync").success());
        let after = names(&place.destination);
        assert_eq!(after, names(&theirs), "round {round}: {rules:?}");
        let gone = before.difference(&after).count() as u64;
        assert_eq!((report.extra, report.deleted), (gone, gone));
        deleted += gone;
        kept += after.difference(&names(&place.source)).count();
    }
    assert!(deleted > 100 && kept > 30, "{deleted} {kept}");
}

#[test]
fn nothing_is_deleted_where_something_is_missing_or_too_much_would_go() {
    let place = Place::new();
    fill(&place.source, &["a", "dir/b"]);
    fill(&place.destination, &["old/1", "old/2", "dir/3", "4"]);
    let all = names(&place.destination);
    // At most four objects may go; these are five.
    let report = send(&place, &options(&[], Some(4)));
    assert!(!report.is_whole());
    assert_eq!((report.extra, report.deleted), (5, 0));
    assert!(names(&place.destination).is_superset(&all));
    // A file of the source that is not in place: a directory is in its way.
    fs::remove_file(place.destination.join("a")).unwrap();
    fs::create_dir(place.destination.join("a")).unwrap();
    let report = send(&place, &options(&[], None));
    assert!(
        report
            .problems
            .iter()
            .any(|problem| problem.what.contains("nothing is deleted"))
    );
    assert!(names(&place.destination).is_superset(&all));
    fs::remove_dir(place.destination.join("a")).unwrap();
    let report = send(&place, &options(&[], Some(5)));
    assert!(report.is_whole(), "{:?}", report.problems);
    assert_eq!(names(&place.destination), names(&place.source));
    assert_eq!(report.deleted, 5);
    let times = |root: &Path| fs::metadata(root.join("dir")).unwrap().modified().unwrap();
    assert_eq!(times(&place.destination), times(&place.source));
}

#[test]
fn what_a_link_or_a_mount_leads_to_stays() {
    let place = Place::new();
    let out = place.path("out");
    fill(&out, &["precious", "dir/precious"]);
    fill(&place.source, &["a", "sub/b"]);
    fill(&place.destination, &["gone/x", "deep/er/y"]);
    symlink(&out, place.destination.join("link")).unwrap();
    symlink("../../out/dir", place.destination.join("gone/link")).unwrap();
    // A link where the source has a directory is in its way, and nothing behind it is looked at.
    symlink(&out, place.destination.join("sub")).unwrap();
    let report = send(&place, &options(&[], None));
    assert!(!report.is_whole() && report.deleted == 0);
    fs::remove_file(place.destination.join("sub")).unwrap();
    let mounted = Mounted::in_memory(place.destination.join("deep/er/fs"), "size=1m");
    fs::write(mounted.0.join("precious"), "x").unwrap();
    let report = send(&place, &options(&[], None));
    let problems: Vec<&str> = report.problems.iter().map(|it| &it.what[..]).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("another file system is mounted there"));
    assert!(mounted.0.join("precious").exists());
    assert_eq!(names(&out).len(), 3);
    let left = [
        "a",
        "sub",
        "sub/b",
        "deep",
        "deep/er",
        "deep/er/fs",
        "deep/er/fs/precious",
    ];
    assert_eq!(
        names(&place.destination),
        left.iter().map(PathBuf::from).collect()
    );
}

/// All that can be told of a tree from outside.
fn look(root: &Path) -> BTreeSet<(PathBuf, i64, i64, u64)> {
    let stat = |path: PathBuf| {
        let stat = fs::symlink_metadata(root.join(&path)).unwrap();
        (path, stat.mtime(), stat.ctime_nsec(), stat.ino())
    };
    names(root)
        .into_iter()
        .chain([PathBuf::new()])
        .map(stat)
        .collect()
}

#[test]
fn a_dry_run_tells_what_is_then_done_and_changes_nothing() {
    let place = Place::new();
    fill(&place.source, &["new/file", "same", "other"]);
    fs::write(place.source.join("other"), noise(1, 100_000)).unwrap();
    symlink("same", place.source.join("link")).unwrap();
    let dry = Options {
        dry: true,
        ..options(&["- kept"], None)
    };
    let report = send(&place, &dry);
    assert!(!place.destination.exists());
    assert_eq!((report.files, report.others, report.bytes), (3, 3, 100_002));
    fill(&place.destination, &["old/1", "kept", "other"]);
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(place.source.join("same"));
    assert!(copy.arg(&place.destination).status().unwrap().success());
    let before = look(&place.destination);
    let report = send(&place, &dry);
    assert!(report.is_whole() && look(&place.destination) == before);
    let mut plan: Vec<String> = report
        .plan
        .iter()
        .map(|(path, planned)| format!("{} {path}", planned.word()))
        .collect();
    plan.sort();
    let wanted = [
        "compare same",
        "delete old",
        "delete old/1",
        "new link",
        "new new",
        "new new/file",
        "replace other",
    ];
    assert_eq!(plan, wanted);
    assert_eq!(
        (report.files, report.kept, report.extra, report.deleted),
        (2, 1, 2, 0)
    );
    // Then it comes as it was told.
    let report = send(&place, &Options { dry: false, ..dry });
    assert!(report.is_whole());
    assert_eq!((report.kept, report.deleted), (1, 2));
    let of = |word| plan.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!(of(Planned::Delete.word()), 2);
    assert!(!place.destination.join(STAGING).exists());
}

/// No timed aim: it takes at least as long as the rate says, and that is checked by the clock.
#[test]
fn a_limit_of_the_rate_holds() {
    let place = Place::with_file(noise(1, 3 << 20));
    let options = Options {
        rate: Some(4 << 20),
        delete: None,
        ..options(&[], None)
    };
    let begun = Instant::now();
    let report = attempt_with(&place.source, &place.destination, &options, None).unwrap();
    assert!(report.is_whole());
    // The last range is not waited for.
    assert!(begun.elapsed() >= Duration::from_millis(500));
}
