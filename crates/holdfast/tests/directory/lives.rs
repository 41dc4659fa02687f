//! Starting, stopping, being killed, and being refused.

use crate::{Home, ends_with};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;

#[test]
fn files_are_there_after_a_stop_and_after_a_kill() {
    let home = Home::new(64);
    let mount = home.mount();
    fs::create_dir(mount.at("letters")).unwrap();
    fs::write(mount.at("letters/first"), "Dear reader").unwrap();
    fs::hard_link(mount.at("letters/first"), mount.at("same")).unwrap();
    std::os::unix::fs::symlink("letters/first", mount.at("link")).unwrap();
    mount.stop();
    assert_eq!(fs::read_dir(home.directory()).unwrap().count(), 0);
    let mount = home.mount();
    assert_eq!(fs::read(mount.at("link")).unwrap(), b"Dear reader");
    assert_eq!(fs::metadata(mount.at("same")).unwrap().nlink(), 2);
    fs::rename(mount.at("same"), mount.at("letters/second")).unwrap();
    fs::write(mount.at("third"), vec![3; 3 << 20]).unwrap();
    let removed = fs::File::create(mount.at("removed")).unwrap();
    removed.write_all_at(&[9; 100_000], 0).unwrap();
    fs::remove_file(mount.at("removed")).unwrap();
    mount.kill();
    drop(removed);
    // What the dead one left in the tree is cleared by the next.
    let mount = home.mount();
    assert_eq!(
        fs::read(mount.at("letters/second")).unwrap(),
        b"Dear reader"
    );
    assert_eq!(fs::read(mount.at("third")).unwrap(), vec![3; 3 << 20]);
    assert!(!mount.at("same").exists() && !mount.at("removed").exists());
    mount.stop();
    let said = home.check();
    assert!(said.contains("3 files in 2 directories"), "{said}");
}

#[test]
fn what_cannot_be_mounted_is_refused_with_advice() {
    let home = Home::new(64);
    let directory = home.directory().display().to_string();
    let volume = home.volume();
    let device = home.place.path().join("device").display().to_string();
    let words = ["volume", "create", &device, "--file-bytes", "64M"];
    ends_with(0, &[&words[..], &["--segment-bytes", "256K"]].concat());
    let said = ends_with(40, &["volume", "mount", &device, &directory]);
    assert!(said.contains("--directory"), "{said}");
    let socket = home.place.path().join("socket").display().to_string();
    let said = ends_with(40, &["volume", "serve", &volume, "--socket", &socket]);
    assert!(said.contains("volume mount"), "{said}");
    ends_with(22, &["volume", "mount", &volume, "/nonexistent/directory"]);
    ends_with(22, &["volume", "mount", &volume, &device]);
    let full = home.place.path().display().to_string();
    let said = ends_with(22, &["volume", "mount", &volume, &full]);
    assert!(said.contains("is not empty"), "{said}");
    ends_with(2, &["volume", "mount", &volume]);
    ends_with(
        2,
        &[
            "volume",
            "create",
            &device,
            "--directory",
            "--device-bytes",
            "1M",
        ],
    );
    let mount = home.mount();
    ends_with(41, &["volume", "mount", &volume, &full]);
    ends_with(41, &["volume", "check", &volume]);
    let other = Home::new(64);
    ends_with(23, &["volume", "mount", &other.volume(), &directory]);
    mount.stop();
    let shown = ends_with(0, &["volume", "stat", &volume]);
    assert!(shown.contains("holds     a directory"), "{shown}");
}

#[test]
fn a_mount_that_is_taken_away_from_outside_ends_its_process() {
    let home = Home::new(64);
    let mut mount = home.mount();
    fs::write(mount.at("a"), "content").unwrap();
    let umount = Command::new("umount").arg(home.directory()).status();
    assert!(umount.unwrap().success());
    assert_eq!(mount.child.wait().unwrap().code(), Some(0));
    home.check();
}

#[test]
fn a_damaged_block_is_named_by_the_path_of_its_file() {
    let home = Home::new(64);
    let mount = home.mount();
    fs::create_dir(mount.at("d")).unwrap();
    // What compresses would be packed, and not be found.
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    });
    let content: Vec<u8> = noise.take(40_960).collect();
    fs::write(mount.at("d/file"), &content).unwrap();
    mount.stop();
    let volume = fs::File::options()
        .read(true)
        .write(true)
        .open(home.volume())
        .unwrap();
    let mut block = [0; 4096];
    let places = (0..volume.metadata().unwrap().len())
        .step_by(4096)
        .filter(|at| {
            volume.read_exact_at(&mut block, *at).unwrap();
            block == content[16_384..20_480]
        });
    let places: Vec<u64> = places.collect();
    assert_eq!(places.len(), 1);
    let damaged = content[16_384 + 7] ^ 1;
    volume.write_all_at(&[damaged], places[0] + 7).unwrap();
    let said = ends_with(43, &["volume", "check", &home.volume()]);
    assert!(
        said.contains("/d/file: bytes 16384 to 20480 are lost"),
        "{said}"
    );
    let json = ends_with(43, &["volume", "check", &home.volume(), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["tree"]["problems"][0]["path"], "/d/file");
    let mount = home.mount();
    let file = fs::File::open(mount.at("d/file")).unwrap();
    let error = file.read_exact_at(&mut block, 16_384).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    file.read_exact_at(&mut block, 0).unwrap();
    drop(file);
    mount.stop();
}

#[test]
fn inspect_reads_the_pages_of_a_tree() {
    let home = Home::new(64);
    let mount = home.mount();
    fs::create_dir(mount.at("d")).unwrap();
    fs::write(mount.at("d/a name"), "content").unwrap();
    mount.stop();
    let volume = fs::read(home.volume()).unwrap();
    let page = home.place.path().join("page").display().to_string();
    // Kinds of docs/formats/object.md, and what a person may look for in a page of each.
    for (kind, wanted) in [(12, "directory, mode 0755, links 3"), (13, "a name")] {
        // They compress, so they may be in the header of a flight, which is of kind 7.
        let of_kind =
            |block: &&[u8]| block.starts_with(b"HOLDFAST") && [7, kind].contains(&block[10]);
        let found = volume.chunks(4096).filter(of_kind).any(|block| {
            fs::write(&page, block).unwrap();
            let said = ends_with(0, &["inspect", &page]);
            assert!(said.contains("block of a volume, valid"), "{said}");
            said.contains(wanted)
        });
        assert!(found, "no page of kind {kind} has \"{wanted}\"");
    }
}
