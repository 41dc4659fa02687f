//! A tree as version 1 wrote it.

use super::model::{ID, ME, OPTIONS, disks};
use crate::directory::{Tree, check};
use crate::{Options, Volume};
use env::Disk;
use env::sim::World;
use mount::opens::{Handle, Opens};
use mount::{Ino, Layer, NewObject, Timestamp};

const BYTES: u64 = 2 << 20;

const NOW: Timestamp = Timestamp {
    sec: 1_700_000_000,
    nsec: 123_456_789,
};

/// Pairs of the number of a block (4 bytes) and its content; all other blocks are zeros.
const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/tree-v1.blocks");

fn fill(world: &World) {
    // What LZ4 makes of a block is not ours to say.
    let options = Options {
        packs: false,
        ..OPTIONS
    };
    let volume = Volume::create(disks(world, BYTES), ID, options).unwrap();
    let mut tree = Tree::create_at(volume, || NOW).unwrap();
    tree.now = || NOW;
    let make =
        |dir, name: &str, object| tree.make(&ME, dir, name.as_ref(), object, 0o640).unwrap().0;
    let letters = make(Ino::ROOT, "letters", NewObject::Dir);
    let first = make(letters, "first", NewObject::File);
    make(
        Ino::ROOT,
        "link",
        NewObject::Symlink("letters/first".as_ref()),
    );
    tree.write(first, 0, b"Dear reader").unwrap();
    tree.link(first, Ino::ROOT, "same".as_ref()).unwrap();
    tree.set_xattr(first, "user.language".as_ref(), b"en", 0)
        .unwrap();
    let removed = make(Ino::ROOT, "removed", NewObject::File);
    tree.open(removed, Handle(1), true).unwrap();
    tree.unlink(Ino::ROOT, "removed".as_ref()).unwrap();
    tree.write_times().unwrap();
    tree.volume().sync().unwrap();
}

fn blocks(world: &World) -> Vec<u8> {
    let disk = world.disk("disk", BYTES);
    let mut all = Vec::new();
    for number in 0..(BYTES / 4096) as u32 {
        let mut block = [0; 4096];
        disk.read_at(u64::from(number) * 4096, &mut block).unwrap();
        if block != [0; 4096] {
            all.extend_from_slice(&number.to_le_bytes());
            all.extend_from_slice(&block);
        }
    }
    all
}

#[test]
fn what_is_written_now_is_what_version_1_wrote() {
    let world = World::new(0);
    fill(&world);
    let now = blocks(&world);
    if let Ok(path) = std::env::var("HOLDFAST_WRITE_GOLDEN") {
        std::fs::write(path, &now).unwrap();
    }
    // But for the superblocks, the first and the last block: new volumes have version 2.
    let (first, behind) = now.split_at(4 + 4096);
    let (between, last) = behind.split_at(behind.len() - first.len());
    let range = first.len()..GOLDEN.len() - last.len();
    assert!(between == &GOLDEN[range]);
    assert_eq!((first[4 + 12], last[4 + 12]), (2, 2));
}

#[test]
fn a_tree_of_version_1_can_be_read() {
    let world = World::new(0);
    let disk = world.disk("disk", BYTES);
    for pair in GOLDEN.chunks(4 + 4096) {
        let (number, content) = pair.split_at(4);
        let number = u32::from_le_bytes(number.try_into().unwrap());
        disk.write_at(u64::from(number) * 4096, content).unwrap();
    }
    let tree = Tree::open(Volume::open(disks(&world, BYTES), OPTIONS).unwrap()).unwrap();
    let (letters, _) = tree.lookup(Ino::ROOT, "letters".as_ref()).unwrap();
    let (first, attr) = tree.lookup(letters, "first".as_ref()).unwrap();
    assert_eq!(
        (attr.size, attr.nlink, attr.perm, attr.mtime),
        (11, 2, 0o640, NOW)
    );
    let mut content = [0; 11];
    tree.read(first, 0, &mut content).unwrap();
    assert_eq!(&content, b"Dear reader");
    assert_eq!(tree.xattr(first, "user.language".as_ref()).unwrap(), b"en");
    let (link, _) = tree.lookup(Ino::ROOT, "link".as_ref()).unwrap();
    assert_eq!(tree.read_link(link).unwrap(), "letters/first");
    // The removed one has gone with this start.
    assert_eq!(tree.list(Ino::ROOT).unwrap().len(), 3);
    let report = check(tree.volume(), &[]).unwrap().unwrap();
    assert_eq!(
        (report.problems, report.files, report.directories),
        (Vec::new(), 2, 2)
    );
}
