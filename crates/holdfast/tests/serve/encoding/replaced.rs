//! A store is replaced by an empty one: it gets its part of what is encoded, and that stays so.

use super::*;
use rustix::process::Signal;
use std::path::PathBuf;

/// Takes a store away while the set serves, and puts an empty one in its place.
fn replace(place: &Place, store: &str) -> PathBuf {
    let gone = place.path(&format!("{store}.gone"));
    fs::rename(place.path(store), &gone).expect("taken away");
    place.until("the loss to be seen", |status| !status.redundant);
    fs::create_dir(place.path(store)).expect("an empty directory");
    let attached = place.run(&["attach", store]);
    let said = crate::place::text(&attached.stderr);
    assert!(attached.status.success(), "{said}");
    gone
}

/// Encoded files, and no encoding any more that could hide what is given up.
fn still() -> (Place, Vec<Vec<u8>>) {
    let (mut place, files) = encoded();
    place.down();
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    (place, files)
}

fn bytes_of(place: &Place) -> u64 {
    (0..FILES).map(|file| taken(place, file)).sum()
}

#[test]
fn an_empty_store_gets_its_part_and_nothing_is_given_up() {
    let (mut place, files) = still();
    let before = (stripes(&place), bytes_of(&place));
    for store in ["a", "b", "c"] {
        let gone = replace(&place, store);
        place.until("redundancy", |status| status.redundant);
        assert_eq!(stripes(&place), before.0, "{}", place.log());
        let now = bytes_of(&place);
        assert!(now <= before.1 + before.1 / 20, "{now} of {before:?} bytes");
        fs::remove_dir_all(gone).expect("what is not needed any more");
    }
    outlives_any_store(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
    let (code, said) = place.of(&["scrub"]);
    assert_eq!(code, Some(0), "{said}");
    place.down();
    place.up();
    assert_eq!(stripes(&place), before.0, "{}", place.log());
    outlives_any_store(&place, &files);
}

/// Writes go on while the store gets its part, and what is in differentials reaches it.
#[test]
fn what_is_written_meanwhile_is_there() {
    let (mut place, mut files) = still();
    place.down();
    place.flags.push("--rebuild-mb-per-s=1".to_owned());
    place.up();
    let write = |place: &Place, files: &mut Vec<Vec<u8>>, round: u8| {
        for (file, content) in files.iter_mut().enumerate() {
            let path = place.path(&format!("mnt/{}", name(file)));
            let opened = fs::File::options().write(true).open(&path).expect("it");
            for chunk in 0..5 {
                let at = chunk * CHUNK + 4000 + 300 * u64::from(round);
                let data = [round; 200];
                opened.write_all_at(&data, at).expect("a write");
                content[at as usize..][..200].copy_from_slice(&data);
            }
            opened.sync_all().expect("a sync");
        }
    };
    write(&place, &mut files, 1);
    let gone = replace(&place, "b");
    write(&place, &mut files, 2);
    fs::File::options()
        .write(true)
        .open(place.path("mnt/f3"))
        .and_then(|file| file.set_len(3 * CHUNK + 77))
        .expect("shortened");
    files[3].truncate(3 * CHUNK as usize + 77);
    fs::remove_file(place.path("mnt/f5")).expect("removed");
    files.truncate(5);
    write_some(&place, &mut files);
    place.until("redundancy", |status| status.redundant);
    fs::remove_dir_all(gone).expect("what is not needed any more");
    assert!(stripes(&place) > 0, "{}", place.log());
    reads_back(&place, &files);
    outlives_any_store(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}

fn write_some(place: &Place, files: &mut [Vec<u8>]) {
    let path = place.path("mnt/f0");
    let opened = fs::File::options().write(true).open(path).expect("it");
    opened.write_all_at(b"last", 70_000).expect("a write");
    files[0][70_000..70_004].copy_from_slice(b"last");
}

/// A kill while the store gets its part: it begins anew, and is not believed before it has ended.
#[test]
fn a_kill_in_between_begins_anew() {
    let (mut place, files) = still();
    place.down();
    place.flags.push("--rebuild-mb-per-s=1".to_owned());
    place.up();
    let gone = replace(&place, "c");
    let shards = place.path("c/.holdfast/shards");
    for round in 1..=2 {
        let some = || fs::read_dir(&shards).map_or(0, Iterator::count) > round;
        place.until("a part of the shards", |_| some());
        place.signal(Signal::KILL);
        assert_eq!(place.ended(), None, "killed by a signal");
        place.up();
        reads_back(&place, &files);
    }
    place.down();
    place.flags.pop();
    place.up();
    place.until("redundancy", |status| status.redundant);
    fs::remove_dir_all(gone).expect("what is not needed any more");
    assert!(stripes(&place) > 0, "{}", place.log());
    outlives_any_store(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}
