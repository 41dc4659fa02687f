//! What single calls promise.

use super::model::{ME, create, open};
use crate::directory::batch::{BATCH_BYTES_MAX, command};
use crate::directory::{Tree, check};
use env::sim::World;
use mount::opens::{Handle, Opens, Pages};
use mount::{Caller, Errno, Ino, Kind, Layer, NewObject, RenameFlags, SetAttr};

const BYTES: u64 = 4 << 20;

fn file(tree: &Tree, name: &str) -> Ino {
    tree.make(&ME, Ino::ROOT, name.as_ref(), NewObject::File, 0o644)
        .unwrap()
        .0
}

fn dir(tree: &Tree, parent: Ino, name: &str) -> Ino {
    tree.make(&ME, parent, name.as_ref(), NewObject::Dir, 0o755)
        .unwrap()
        .0
}

fn content(tree: &Tree, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0xee; 1 << 20];
    let length = tree.read(ino, 0, &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

fn say(tree: &Tree, ino: Ino, handle: u64, number: u32) -> Result<Vec<u8>, Errno> {
    tree.command(&ME, ino, Handle(handle), number, &[], 4)
        .result
}

fn resize(size: u64) -> SetAttr {
    SetAttr {
        size: Some(size),
        ..SetAttr::default()
    }
}

#[test]
fn a_batch_is_read_by_everybody_and_gone_after_an_abort() {
    let tree = create(&World::new(1), BYTES);
    let a = file(&tree, "a");
    tree.write(a, 0, &[1; 10_000]).unwrap();
    tree.open(a, Handle(1), true).unwrap();
    say(&tree, a, 1, command::START).unwrap();
    tree.write(a, 100, &[2; 5000]).unwrap();
    tree.write(a, 20_000, &[3; 10]).unwrap();
    let mut expected = vec![1; 10_000];
    expected[100..5100].fill(2);
    expected.resize(20_010, 0);
    expected[20_000..].fill(3);
    assert_eq!(content(&tree, a), expected);
    assert_eq!(tree.attr(a).unwrap().size, 20_010);
    let mut middle = [0; 3];
    assert_eq!(tree.read(a, 20_008, &mut middle), Ok(2));
    let answer = tree.command(&ME, a, Handle(1), command::ABORT, &[], 0);
    assert_eq!((answer.result, answer.pages), (Ok(Vec::new()), Pages::Drop));
    assert_eq!(content(&tree, a), [1; 10_000]);
    assert_eq!(tree.attr(a).unwrap().size, 10_000);
    // Another abort has nothing to do; a commit must not say that it did something.
    say(&tree, a, 1, command::ABORT).unwrap();
    assert_eq!(say(&tree, a, 1, command::COMMIT), Err(Errno::INVAL));
}

#[test]
fn a_commit_is_durable_when_it_returns() {
    let world = World::new(1);
    let tree = create(&world, BYTES);
    let a = file(&tree, "a");
    tree.open(a, Handle(1), true).unwrap();
    say(&tree, a, 1, command::START).unwrap();
    tree.write(a, 5000, &[2; 5001]).unwrap();
    assert_eq!(say(&tree, a, 1, command::COMMIT), Ok(Vec::new()));
    drop(tree);
    world.crash();
    let tree = open(&world, BYTES).unwrap();
    let (a, attr) = tree.lookup(Ino::ROOT, "a".as_ref()).unwrap();
    assert_eq!(attr.size, 10_001);
    let mut expected = vec![0; 10_001];
    expected[5000..].fill(2);
    assert_eq!(content(&tree, a), expected);
}

#[test]
fn what_was_not_committed_is_dropped_with_its_handle() {
    let tree = create(&World::new(1), BYTES);
    let a = file(&tree, "a");
    for handle in [1, 2] {
        tree.open(a, Handle(handle), true).unwrap();
    }
    let me = Caller {
        pid: std::process::id(),
        ..ME
    };
    let other = Caller { pid: 1, ..ME };
    tree.command(&me, a, Handle(1), command::START, &[], 0)
        .result
        .unwrap();
    tree.write(a, 0, b"staged").unwrap();
    // Another process has inherited the descriptor, another handle is not the one.
    assert_eq!(tree.flush(&other, a, Handle(1)), Pages::Keep);
    assert_eq!(tree.flush(&me, a, Handle(2)), Pages::Keep);
    assert_eq!(tree.release(a, Handle(2)), Pages::Keep);
    assert_eq!(content(&tree, a), b"staged");
    assert_eq!(tree.flush(&me, a, Handle(1)), Pages::Drop);
    assert_eq!(content(&tree, a), b"");
    say(&tree, a, 1, command::START).unwrap();
    tree.write(a, 0, b"staged").unwrap();
    assert_eq!(tree.release(a, Handle(1)), Pages::Drop);
    assert_eq!(content(&tree, a), b"");
}

#[test]
fn batches_are_refused_to_those_who_may_not() {
    let tree = create(&World::new(1), BYTES);
    let a = file(&tree, "a");
    tree.open(a, Handle(1), true).unwrap();
    tree.open(a, Handle(2), true).unwrap();
    tree.open(a, Handle(3), false).unwrap();
    let stranger = Caller { uid: 7, ..ME };
    let refused = tree.command(&stranger, a, Handle(1), command::START, &[], 0);
    assert_eq!(refused.result, Err(Errno::ACCESS));
    assert_eq!(say(&tree, a, 3, command::START), Err(Errno::BADF));
    assert_eq!(say(&tree, a, 1, command::START), Ok(Vec::new()));
    assert_eq!(say(&tree, a, 1, command::START), Ok(Vec::new()));
    assert_eq!(say(&tree, a, 2, command::START), Err(Errno::BUSY));
    assert_eq!(say(&tree, a, 2, command::COMMIT), Err(Errno::INVAL));
    assert_eq!(tree.set_attr(&ME, a, &resize(5)), Err(Errno::BUSY));
    let features = say(&tree, a, 3, command::FEATURES).unwrap();
    assert_eq!(u32::from_ne_bytes(features.try_into().unwrap()) & 4, 4);
    assert_eq!(say(&tree, a, 1, 0xf503), Err(Errno::NOTTY));
}

#[test]
fn a_batch_that_is_too_large_is_refused_and_can_be_dropped() {
    let tree = create(&World::new(1), BYTES);
    let a = file(&tree, "a");
    tree.open(a, Handle(1), true).unwrap();
    say(&tree, a, 1, command::START).unwrap();
    let piece = vec![1; 1 << 20];
    let most = BATCH_BYTES_MAX as u64;
    for at in 0..most >> 20 {
        tree.write(a, at << 20, &piece).unwrap();
    }
    assert_eq!(tree.write(a, most, b"x"), Err(Errno::FBIG));
    // More than the volume has: refused whole.
    let answer = tree.command(&ME, a, Handle(1), command::COMMIT, &[], 0);
    assert_eq!(
        (answer.result, answer.pages),
        (Err(Errno::NOSPC), Pages::Drop)
    );
    assert_eq!(tree.attr(a).unwrap().size, 0);
    say(&tree, a, 1, command::ABORT).unwrap();
    tree.write(a, 0, b"goes on").unwrap();
}

#[test]
fn a_file_that_is_removed_while_it_is_open_goes_with_its_last_handle() {
    let world = World::new(1);
    let tree = create(&world, BYTES);
    let a = file(&tree, "a");
    tree.lookup(Ino::ROOT, "a".as_ref()).unwrap();
    tree.open(a, Handle(1), true).unwrap();
    tree.open(a, Handle(2), true).unwrap();
    tree.write(a, 0, b"still here").unwrap();
    tree.unlink(Ino::ROOT, "a".as_ref()).unwrap();
    assert_eq!(tree.lookup(Ino::ROOT, "a".as_ref()), Err(Errno::NOENT));
    tree.write(a, 0, b"STILL").unwrap();
    assert_eq!(content(&tree, a), b"STILL here");
    assert_eq!(tree.attr(a).unwrap().nlink, 0);
    assert_eq!(tree.link(a, Ino::ROOT, "b".as_ref()), Err(Errno::NOENT));
    tree.release(a, Handle(1));
    assert_eq!(content(&tree, a), b"STILL here");
    let used = tree.volume().stats().mapped_blocks;
    tree.release(a, Handle(2));
    assert!(tree.volume().stats().mapped_blocks < used);
    assert_eq!(content(&tree, a), b"");
    // Who still has its number sees a file without names.
    assert_eq!(tree.attr(a).unwrap().nlink, 0);
    assert_eq!(tree.write(a, 0, b"x"), Err(Errno::STALE));
    tree.forget(a);
    assert_eq!(tree.attr(a), Err(Errno::STALE));
    assert_eq!(check(tree.volume(), &[]).unwrap().unwrap().problems, []);
}

#[test]
fn inode_numbers_are_not_used_again() {
    let world = World::new(1);
    let mut tree = create(&world, BYTES);
    let mut last = Ino::ROOT;
    for _ in 0..5 {
        for _ in 0..30 {
            let ino = file(&tree, "a");
            assert!(ino > last, "{ino:?} after {last:?}");
            last = ino;
            tree.unlink(Ino::ROOT, "a".as_ref()).unwrap();
        }
        tree.settle().unwrap();
        drop(tree);
        tree = open(&world, BYTES).unwrap();
    }
}

#[test]
fn a_full_volume_refuses_whole_calls_and_lets_everything_be_removed() {
    let world = World::new(1);
    let tree = create(&world, BYTES);
    let mut number = 0;
    let error = loop {
        let name = format!("{number}");
        let made = tree.make(&ME, Ino::ROOT, name.as_ref(), NewObject::File, 0o644);
        let (ino, _) = match made {
            Ok(made) => made,
            Err(error) => break error,
        };
        number += 1;
        if let Err(error) = tree.write(ino, 0, &[7; 8192]) {
            assert_eq!(tree.attr(ino).unwrap().size, 0);
            break error;
        }
    };
    assert_eq!(error, Errno::NOSPC);
    assert!(tree.space().unwrap().free_bytes < 64 << 10);
    // One of them while it is open: to remove it takes no room.
    let (open_one, _) = tree.lookup(Ino::ROOT, "0".as_ref()).unwrap();
    tree.open(open_one, Handle(1), true).unwrap();
    for each in 0..number {
        tree.unlink(Ino::ROOT, format!("{each}").as_ref()).unwrap();
    }
    assert_eq!(content(&tree, open_one), [7; 8192]);
    tree.release(open_one, Handle(1));
    assert_eq!(tree.list(Ino::ROOT).unwrap().len(), 0);
    assert_eq!(check(tree.volume(), &[]).unwrap().unwrap().problems, []);
    // The table, and the directories' first pages, at most.
    assert!(tree.volume().stats().mapped_blocks <= 4);
}

#[test]
fn a_directory_moves_only_where_it_is_not_below_itself() {
    let tree = create(&World::new(1), BYTES);
    let a = dir(&tree, Ino::ROOT, "a");
    let b = dir(&tree, a, "b");
    let c = dir(&tree, b, "c");
    let rename = |from: Ino, name: &str, to: Ino, new: &str, flags| {
        tree.rename(from, name.as_ref(), to, new.as_ref(), flags)
    };
    let plain = RenameFlags::empty();
    assert_eq!(rename(Ino::ROOT, "a", c, "x", plain), Err(Errno::INVAL));
    assert_eq!(
        rename(Ino::ROOT, "a", a, "b", RenameFlags::EXCHANGE),
        Err(Errno::INVAL)
    );
    assert_eq!(rename(a, "b", Ino::ROOT, "a", plain), Err(Errno::NOTEMPTY));
    rename(a, "b", Ino::ROOT, "b", plain).unwrap();
    assert_eq!(tree.attr(a).unwrap().nlink, 2);
    assert_eq!(tree.attr(Ino::ROOT).unwrap().nlink, 4);
    rename(Ino::ROOT, "b", a, "b", plain).unwrap();
    assert_eq!(check(tree.volume(), &[]).unwrap().unwrap().problems, []);
}

#[test]
fn names_that_no_directory_may_have_are_refused() {
    let tree = create(&World::new(1), BYTES);
    let make = |name: &str| tree.make(&ME, Ino::ROOT, name.as_ref(), NewObject::File, 0o644);
    let long = "n".repeat(256);
    assert_eq!(make(&long).unwrap_err(), Errno::NAMETOOLONG);
    assert_eq!(
        tree.lookup(Ino::ROOT, long.as_ref()),
        Err(Errno::NAMETOOLONG)
    );
    for wrong in ["", ".", "..", "a/b", "a\0"] {
        assert_eq!(make(wrong).unwrap_err(), Errno::INVAL, "{wrong:?}");
    }
    let (ino, _) = make(&long[..255]).unwrap();
    assert_eq!(tree.lookup(ino, "a".as_ref()), Err(Errno::NOTDIR));
    assert_eq!(tree.attr(ino).unwrap().kind, Kind::File);
}

#[test]
fn a_directory_of_many_pages_keeps_its_names_apart() {
    let world = World::new(1);
    let tree = create(&world, 16 << 20);
    let d = dir(&tree, Ino::ROOT, "d");
    let name = |number: u32| format!("{number}-{}", "x".repeat(number as usize % 200));
    for number in 0..500 {
        tree.make(&ME, d, name(number).as_ref(), NewObject::File, 0o600)
            .unwrap();
    }
    for number in (0..500).step_by(3) {
        tree.unlink(d, name(number).as_ref()).unwrap();
    }
    tree.settle().unwrap();
    drop(tree);
    let tree = open(&world, 16 << 20).unwrap();
    let (d, attr) = tree.lookup(Ino::ROOT, "d".as_ref()).unwrap();
    assert!(attr.size > 10 * 4096);
    let listing = tree.list(d).unwrap();
    assert_eq!(listing.len(), 500 - 167);
    for number in 0..500 {
        let found = tree.lookup(d, name(number).as_ref());
        assert_eq!(found.is_ok(), number % 3 != 0, "{number}");
    }
    assert_eq!(check(tree.volume(), &[]).unwrap().unwrap().problems, []);
}

#[test]
fn a_change_of_content_or_owner_takes_capabilities_away() {
    let tree = create(&World::new(1), BYTES);
    let a = file(&tree, "a");
    let name = "security.capability".as_ref();
    let given = SetAttr {
        uid: Some(7),
        ..SetAttr::default()
    };
    let ways: [&dyn Fn(); 3] = [
        &|| tree.write(a, 0, b"x").unwrap(),
        &|| assert!(tree.set_attr(&ME, a, &resize(0)).is_ok()),
        &|| assert!(tree.set_attr(&ME, a, &given).is_ok()),
    ];
    for way in ways {
        tree.set_xattr(a, name, b"all", 0).unwrap();
        tree.set_xattr(a, "user.kept".as_ref(), b"yes", 0).unwrap();
        way();
        assert_eq!(tree.xattr(a, name), Err(Errno::NODATA));
        assert_eq!(tree.xattr(a, "user.kept".as_ref()).unwrap(), b"yes");
    }
    assert_eq!(check(tree.volume(), &[]).unwrap().unwrap().problems, []);
}

#[test]
fn a_commit_leaves_nothing_for_the_sync_behind_it() {
    let tree = create(&World::new(1), BYTES);
    let a = file(&tree, "a");
    tree.open(a, Handle(1), true).unwrap();
    let counters = || tree.volume().stats().counters;
    for _ in 0..3 {
        let before = counters();
        say(&tree, a, 1, command::START).unwrap();
        for page in 0..10 {
            tree.write(a, page * 8192, &[1; 4096]).unwrap();
        }
        say(&tree, a, 1, command::COMMIT).unwrap();
        tree.sync(a, false).unwrap();
        let after = counters();
        assert_eq!(
            (after.groups - before.groups, after.syncs - before.syncs),
            (1, 1)
        );
        // Ten blocks, and the page with its inode.
        assert_eq!(after.written_blocks - before.written_blocks, 11);
    }
}

#[test]
fn a_batch_may_replace_all_that_a_file_has() {
    let world = World::new(1);
    let tree = create(&world, BYTES);
    let a = file(&tree, "a");
    tree.write(a, 0, &[1; 30_000]).unwrap();
    tree.open(a, Handle(1), true).unwrap();
    for commit in [false, true] {
        let started = tree.command(&ME, a, Handle(1), command::REPLACE, &[], 0);
        assert_eq!(
            (started.result, started.pages),
            (Ok(Vec::new()), Pages::Drop)
        );
        assert_eq!(content(&tree, a), b"");
        tree.write(a, 5000, &[2; 100]).unwrap();
        let mut expected = vec![0; 5100];
        expected[5000..].fill(2);
        assert_eq!(content(&tree, a), expected);
        if commit {
            say(&tree, a, 1, command::COMMIT).unwrap();
            assert_eq!(content(&tree, a), expected);
        } else {
            say(&tree, a, 1, command::ABORT).unwrap();
            assert_eq!(content(&tree, a), [1; 30_000]);
        }
    }
    // Nothing is committed as nothing.
    say(&tree, a, 1, command::REPLACE).unwrap();
    say(&tree, a, 1, command::COMMIT).unwrap();
    drop(tree);
    world.crash();
    let tree = open(&world, BYTES).unwrap();
    assert_eq!(tree.lookup(Ino::ROOT, "a".as_ref()).unwrap().1.size, 0);
}
