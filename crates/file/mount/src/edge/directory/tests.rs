use super::{AFTER_PARENT, Snapshot, offset_of};
use crate::{Ino, Kind, Listing};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

fn snapshot(names: impl IntoIterator<Item = String>) -> Snapshot {
    let mut listing = Listing::default();
    for name in names {
        listing.push(OsStr::new(&name), Kind::File, Ino(7));
    }
    Snapshot::new(listing)
}

#[test]
fn a_reader_in_steps_sees_every_entry_once() {
    let snapshot = snapshot((0..1000).map(|number| format!("name {number}")));
    let mut seen = BTreeSet::new();
    let mut offset = 0;
    while let Some((next, name, ..)) = snapshot.after(offset).next() {
        assert!(next > AFTER_PARENT && next > offset && next < 1 << 62);
        assert!(seen.insert(name.to_os_string()));
        offset = next;
    }
    assert_eq!(seen.len(), 1000);
}

#[test]
fn a_reader_in_a_newer_snapshot_misses_nothing_that_stayed() {
    let names = |keep: fn(u32) -> bool| (0..1000).filter(move |n| keep(*n)).map(|n| n.to_string());
    let old = snapshot(names(|_| true));
    let read: Vec<(u64, OsString)> = old
        .after(0)
        .take(500)
        .map(|(offset, name, ..)| (offset, name.to_os_string()))
        .collect();
    let last = read.last().expect("not empty").0;
    let new = snapshot(names(|n| n % 3 != 0));
    let mut seen: BTreeSet<OsString> = read.into_iter().map(|(_, name)| name).collect();
    for (_, name, ..) in new.after(last) {
        assert!(seen.insert(name.to_os_string()), "{name:?} twice");
    }
    for name in names(|n| n % 3 != 0) {
        assert!(seen.contains(OsStr::new(&name)), "{name} missed");
    }
}

#[test]
fn names_spread_over_the_offsets() {
    let offsets: BTreeSet<u64> = (0..100_000u32)
        .map(|number| offset_of(OsStr::new(&number.to_string())))
        .collect();
    assert_eq!(offsets.len(), 100_000);
}
