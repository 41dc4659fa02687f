//! A copy of a store that was made while the set ran, put in the store's place while it is down.

use super::place::Place;
use super::sync;
use std::fs;
use std::process::Command;

/// Writes every file anew, synced.
fn write(place: &Place, files: &[&str], content: &str) {
    for name in files {
        let path = place.path("mnt").join(name);
        fs::write(&path, content.repeat(3000)).expect("a write");
        sync(&path);
    }
}

fn read(place: &Place, files: &[&str]) -> Vec<String> {
    let content = |name: &&str| fs::read_to_string(place.path("mnt").join(name)).expect("a file");
    files.iter().map(content).collect()
}

#[test]
fn a_copy_of_a_running_store_is_not_taken_for_the_store() {
    let files = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut place = Place::new();
    place.up();
    write(&place, &files, "old");
    let image = place.path("image");
    let copied = Command::new("cp")
        .arg("-a")
        .args([&place.path(&place.stores[1]), &image])
        .status();
    assert!(copied.expect("cp can be run").success());
    write(&place, &files, "new");
    fs::remove_file(place.path("mnt/a")).expect("a file");
    place.down();
    fs::rename(place.path(&place.stores[1]), place.path("taken")).expect("a rename");
    fs::rename(&image, place.path(&place.stores[1])).expect("a rename");

    place.up();
    assert_eq!(
        read(&place, &files[1..]),
        vec!["new".repeat(3000); 8],
        "at once"
    );
    place.until("redundant", |status| status.redundant);
    assert!(
        place.status().stores[1].last_rebuild.is_some(),
        "it was compared"
    );
    assert_eq!(
        read(&place, &files[1..]),
        vec!["new".repeat(3000); 8],
        "redundant"
    );
    assert!(!place.path("mnt/a").exists(), "what was removed stays away");
    let (code, said) = place.check();
    assert_eq!(code, Some(0), "{said}");
    assert!(place.log().contains("an older image"), "{}", place.log());
    place.down();
}
