//! What becomes of copies that are taken away or changed on a store behind Holdfast's back.

use super::place::{Place, text};
use super::sync;
use redundancy::status::StoreState;
use std::fs;
use std::path::Path;

/// Files in the tree: each store is home of some.
const FILES: usize = 12;

fn name(number: usize) -> String {
    format!("dir/file-{number}")
}

fn content(number: usize) -> Vec<u8> {
    vec![b'a' + number as u8; 20_000 + number]
}

/// A set with files, stopped, so that nothing of it is in a cache.
fn filled() -> Place {
    let mut place = Place::new();
    place.up();
    fs::create_dir(place.path("mnt/dir")).expect("a directory");
    for number in 0..FILES {
        let path = place.path("mnt").join(name(number));
        fs::write(&path, content(number)).expect("a write");
        sync(&path);
    }
    place.down();
    place
}

/// The files whose copies are on `store`, as home or else as the other copy.
fn files_on(place: &Place, store: usize, as_home: bool) -> Vec<String> {
    (0..FILES)
        .map(name)
        .filter(|name| place.holders(name).contains(&store))
        .filter(|name| (place.home(name) == store) == as_home)
        .collect()
}

/// Takes a copy out of a set in one of the ways in which it can be told from a right one.
fn take(copy: &Path, way: usize) {
    match way % 4 {
        0 => fs::remove_file(copy).expect("a file"),
        1 => {
            let other = copy.with_extension("other");
            fs::write(&other, "of somebody else").expect("a write");
            fs::rename(&other, copy).expect("a rename");
        }
        2 => rustix::fs::removexattr(copy, "trusted.holdfast").expect("a label"),
        _ => {
            fs::remove_file(copy).expect("a file");
            fs::create_dir(copy).expect("a directory");
        }
    }
}

fn all_right(place: &Place) {
    for number in 0..FILES {
        let path = place.path("mnt").join(name(number));
        let read = fs::read(&path).expect("a file that may lose a copy");
        assert!(read == content(number), "{}", path.display());
    }
}

/// Stops the set; every file has its copies then, all of them right.
fn all_equal(place: &mut Place) {
    let (code, said) = place.check();
    assert_eq!(code, Some(0), "{said}");
    place.down();
    for number in 0..FILES {
        let right = |store: &usize| {
            fs::read(place.copy(*store, &name(number))).is_ok_and(|read| read == content(number))
        };
        let held = (0..3).filter(right).count();
        assert_eq!(held, 2, "{}", name(number));
    }
}

/// Two stores away at once are more than two copies outlive, but what is away is not lost.
#[test]
fn files_of_two_stores_that_were_away_together_are_kept() {
    let mut place = Place::new();
    place.up();
    fs::create_dir(place.path("mnt/dir")).expect("a directory");
    let names: Vec<String> = (0..9).map(|n| format!("dir/f{n}")).collect();
    for name in &names {
        fs::write(place.path(&format!("mnt/{name}")), name).expect("a write");
        sync(&place.path(&format!("mnt/{name}")));
    }
    for store in ["a", "b"] {
        fs::rename(place.path(store), place.path(&format!("{store}.away"))).expect("taken away");
        let away = if store == "a" { 1 } else { 2 };
        place.until("the loss to be seen", |status| {
            let fenced = |s: &&redundancy::status::StoreStatus| s.state == StoreState::Fenced;
            status.stores.iter().filter(fenced).count() == away
        });
    }
    // A change of the directory, so that its names are compared when the stores are back.
    fs::write(place.path("mnt/dir/new"), "new").expect("a write");
    for store in ["a", "b"] {
        fs::rename(place.path(&format!("{store}.away")), place.path(store)).expect("brought back");
    }
    place.until("redundancy", |status| status.redundant);
    for name in &names {
        let read = fs::read_to_string(place.path(&format!("mnt/{name}"))).expect(name);
        assert_eq!(read, *name);
    }
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}

#[test]
fn copies_taken_from_the_home_while_down_or_running_are_noticed_and_made_anew() {
    let mut place = filled();
    for running in [false, true] {
        let taken = files_on(&place, 1, true);
        assert!(taken.len() > 1, "store 1 is home of some");
        if running {
            place.up();
        }
        for (way, file) in taken.iter().enumerate() {
            take(&place.copy(1, file), way + usize::from(running) * 2);
        }
        if !running {
            place.up();
        }
        all_right(&place);
        assert!(place.log().contains("store 1: fenced") || !place.status().redundant);
        place.until("redundant again", |status| status.redundant);
        assert!(place.status().stores[1].last_rebuild.is_some(), "noticed");
        all_right(&place);
        all_equal(&mut place);
    }
}

#[test]
fn a_repair_finds_copies_taken_from_where_nobody_reads_and_has_them_made_anew() {
    let mut place = filled();
    let taken = files_on(&place, 2, false);
    assert!(taken.len() > 1, "store 2 has the other copy of some");
    for (way, file) in taken.iter().enumerate() {
        take(&place.copy(2, file), way);
    }
    // Without a holdfast that runs nothing is changed.
    let (code, said) = place.check();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("missing on store 2"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");

    place.up();
    all_right(&place);
    let (code, said) = place.check();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("`holdfast repair` brings back"), "{said}");
    assert!(place.status().redundant, "a check changes nothing");
    let (code, said) = place.of(&["repair"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("store 2 lacked copies"), "{said}");
    place.until("redundant again", |status| status.redundant);
    assert!(place.status().stores[2].last_rebuild.is_some(), "noticed");
    all_right(&place);
    all_equal(&mut place);
}

#[test]
fn where_two_stores_lack_copies_a_repair_removes_none() {
    let mut place = filled();
    let (one, two) = (
        &files_on(&place, 0, false)[0],
        &files_on(&place, 2, false)[0],
    );
    fs::remove_file(place.copy(0, one)).expect("a copy");
    fs::remove_file(place.copy(2, two)).expect("a copy");
    place.up();
    let (code, said) = place.of(&["repair"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(place.status().redundant, "nobody is fenced");
    // A change is made on every copy, and so finds what is missing.
    for file in [one, two] {
        let path = place.path("mnt").join(file);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        fs::set_permissions(&path, mode).expect("a change of mode");
        place.until("redundant again", |status| status.redundant);
    }
    all_right(&place);
    all_equal(&mut place);
}

#[test]
fn copies_that_differ_are_named_and_the_right_one_is_written_through_the_mount() {
    let mut place = filled();
    let cut = files_on(&place, 0, true).remove(0);
    let longer = files_on(&place, 1, true).remove(0);
    // Another than the one before: those two are on the same stores.
    let changed = files_on(&place, 2, false).remove(1);
    let right = |file: &str| fs::read(place.copy(place.holders(file)[0], file)).expect("a copy");
    let kept = [&cut, &longer, &changed].map(|file| (file.clone(), right(file)));
    let write = |store: usize, file: &str, content: &[u8]| {
        // In place, so that the label stays.
        fs::write(place.copy(store, file), content).expect("a write");
    };
    write(0, &cut, b"");
    write(1, &longer, &[7; 30_000]);
    write(2, &changed, &vec![7; kept[2].1.len()]);

    place.up();
    let (code, said) = place.check();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("3 differences"), "{said}");
    for (file, _) in &kept {
        assert!(said.contains(file.as_str()), "{said}");
    }
    assert!(said.contains("two copies cannot tell"), "{said}");
    assert!(place.status().redundant, "nobody is fenced");
    for (file, content) in &kept {
        fs::write(place.path("mnt").join(file), content).expect("a write");
    }
    all_right(&place);
    let json = place.run(&["check", "--json"]);
    assert_eq!(json.status.code(), Some(0), "{}", text(&json.stdout));
    all_equal(&mut place);
}
