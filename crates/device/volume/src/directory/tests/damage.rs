//! Damaged blocks: what goes on, and what the check says.

use super::model::{ME, Model, OPTIONS, User, create_with, difference, disks, look, open, step};
use crate::directory::{TABLE, Tree, check, content_of};
use crate::{ObjectId, Options, Volume};
use env::Disk;
use env::sim::{Effect, Operation, Trouble, World};
use mount::{Errno, Ino, Layer, NewObject};

const BYTES: u64 = 4 << 20;

/// A tree whose pages stand on the disk as they are, so that they can be found there.
fn create(world: &World) -> Tree {
    let options = Options {
        packs: false,
        ..OPTIONS
    };
    create_with(world, BYTES, options)
}

/// Flips a bit in each block of the disk that `is` says yes to; how many there were.
fn spoil(world: &World, is: impl Fn(&[u8]) -> bool) -> u32 {
    let disk = world.disk("disk", BYTES);
    let mut found = 0;
    for at in (0..BYTES).step_by(4096) {
        let mut block = vec![0; 4096];
        disk.read_at(at, &mut block).unwrap();
        if is(&block) {
            block[200] ^= 1;
            disk.write_at(at, &block).unwrap();
            found += 1;
        }
    }
    disk.sync().unwrap();
    found
}

/// Whether a block is a page of this object.
fn is_page(block: &[u8], object: ObjectId, page: u64) -> bool {
    block[..8] == codec::OBJECT_MAGIC
        && block[32..40] == object.0.to_le_bytes()
        && block[40..48] == page.to_le_bytes()
}

/// Every problem as a line, blocks included.
fn problems(tree: &Tree) -> Vec<(String, String)> {
    let blocks = tree.volume().check(&mut |_, _| {}).unwrap();
    let report = check(tree.volume(), &blocks.damaged).unwrap().unwrap();
    let lines = report.problems.into_iter();
    lines
        .map(|problem| (problem.path, problem.complaint))
        .collect()
}

fn restart(world: &World, tree: Tree, spoiled: impl Fn(&[u8]) -> bool) -> Tree {
    tree.settle().unwrap();
    drop(tree);
    assert!(spoil(world, spoiled) > 0);
    open(world, BYTES).unwrap()
}

#[test]
fn a_lost_block_of_a_file_is_named_with_its_path() {
    let world = World::new(1);
    let tree = create(&world);
    let (d, _) = tree
        .make(&ME, Ino::ROOT, "d".as_ref(), NewObject::Dir, 0o755)
        .unwrap();
    let (a, _) = tree
        .make(&ME, d, "a".as_ref(), NewObject::File, 0o644)
        .unwrap();
    let (b, _) = tree
        .make(&ME, d, "b".as_ref(), NewObject::File, 0o644)
        .unwrap();
    tree.write(a, 0, &[&[1; 4096][..], &[0x77; 4096], &[3; 4096]].concat())
        .unwrap();
    tree.write(b, 0, &[9; 4096]).unwrap();
    let tree = restart(&world, tree, |block| block.iter().all(|byte| *byte == 0x77));
    let mut block = vec![0; 4096];
    assert_eq!(tree.read(a, 4096, &mut block), Err(Errno::IO));
    assert_eq!(tree.read(a, 8192, &mut block), Ok(4096));
    assert_eq!(tree.read(b, 0, &mut block), Ok(4096));
    let found = problems(&tree);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "/d/a");
    assert!(
        found[0].1.contains("bytes 4096 to 8192 are lost"),
        "{found:?}"
    );
    // Writing it heals it.
    tree.write(a, 4096, &[2; 4096]).unwrap();
    assert_eq!(problems(&tree), []);
}

#[test]
fn a_lost_page_of_a_directory_never_makes_a_name_look_free() {
    let world = World::new(1);
    let tree = create(&world);
    let (d, _) = tree
        .make(&ME, Ino::ROOT, "d".as_ref(), NewObject::Dir, 0o755)
        .unwrap();
    let name = |number: u32| format!("{number:0200}");
    for number in 0..40 {
        tree.make(&ME, d, name(number).as_ref(), NewObject::File, 0o644)
            .unwrap();
    }
    let tree = restart(&world, tree, |block| is_page(block, content_of(d), 1));
    let (d, _) = tree.lookup(Ino::ROOT, "d".as_ref()).unwrap();
    let found = (0..40).map(|number| tree.lookup(d, name(number).as_ref()));
    let (there, lost): (Vec<_>, Vec<_>) = found.partition(|found| found.is_ok());
    assert!(!there.is_empty() && !lost.is_empty());
    assert!(lost.iter().all(|found| *found == Err(Errno::IO)));
    let made = tree.make(&ME, d, "new".as_ref(), NewObject::File, 0o644);
    assert_eq!(made.unwrap_err(), Errno::IO);
    assert_eq!(tree.list(d).unwrap_err(), Errno::IO);
    // What is known can be taken elsewhere.
    tree.rename(
        d,
        name(0).as_ref(),
        Ino::ROOT,
        "saved".as_ref(),
        mount::RenameFlags::empty(),
    )
    .unwrap();
    assert_eq!(
        tree.remove_dir(Ino::ROOT, "d".as_ref()),
        Err(Errno::NOTEMPTY)
    );
    let found = problems(&tree);
    assert!(
        found
            .iter()
            .any(|(path, what)| path == "/d" && what.contains("page 1")),
        "{found:?}"
    );
    assert!(found.iter().all(|(path, _)| path == "/d"), "{found:?}");
}

#[test]
fn a_lost_page_of_the_table_takes_its_inodes_and_no_others() {
    let world = World::new(1);
    let tree = create(&world);
    for number in 0..100 {
        let name = format!("{number}");
        tree.make(&ME, Ino::ROOT, name.as_ref(), NewObject::File, 0o644)
            .unwrap();
    }
    let tree = restart(&world, tree, |block| is_page(block, TABLE, 2));
    let found = |number: u32| tree.lookup(Ino::ROOT, format!("{number}").as_ref());
    let lost = (0..100)
        .filter(|number| found(*number) == Err(Errno::IO))
        .count();
    assert_eq!(lost, 42);
    assert_eq!((0..100).filter(|number| found(*number).is_ok()).count(), 58);
    // Names of the lost can be removed, and new files made.
    let gone = (0..100).find(|number| found(*number).is_err()).unwrap();
    tree.unlink(Ino::ROOT, format!("{gone}").as_ref()).unwrap();
    tree.make(&ME, Ino::ROOT, "new".as_ref(), NewObject::File, 0o644)
        .unwrap();
    let lines = problems(&tree);
    assert!(
        lines
            .iter()
            .any(|(_, what)| what.contains("inodes 85 to 126 are lost")),
        "{lines:?}"
    );
}

#[test]
fn without_its_root_a_tree_is_not_opened() {
    let world = World::new(1);
    let tree = create(&world);
    tree.settle().unwrap();
    drop(tree);
    assert!(spoil(&world, |block| is_page(block, TABLE, 0)) > 0);
    let error = open(&world, BYTES).err().expect("the root is lost");
    assert_eq!(error.kind(), env::errno::ErrorKind::Corrupt);
    let volume = Volume::open_read_only(disks(&world, BYTES), OPTIONS).unwrap();
    let report = check(&volume, &[]).unwrap().unwrap();
    assert!(!report.problems.is_empty());
}

#[test]
fn after_a_failed_write_or_sync_the_tree_is_read_only_until_it_is_opened_again() {
    for seed in 0..12 {
        let world = World::new(seed);
        let mut rng = world.rng();
        let tree = create(&world);
        let mut user = User::new(&tree);
        let mut model = Model::new();
        for _ in 0..40 {
            let step = step(&mut rng);
            assert_eq!(user.perform(&step), model.apply(&step));
        }
        tree.sync(Ino::ROOT, false).unwrap();
        let mut states = vec![model.picture()];
        let what = [Operation::Write, Operation::Sync][seed as usize % 2];
        world.plan(Trouble::new(what, Effect::Fail(Errno::IO)).after(rng.below(6)));
        loop {
            assert!(states.len() < 200, "it never fails");
            let step = step(&mut rng);
            let expected = model.apply(&step);
            states.push(model.picture());
            let found = user.perform(&step);
            if found == Err(Errno::IO) {
                break;
            }
            assert_eq!(found, expected);
            if rng.chance(1, 4) && tree.sync(Ino::ROOT, false).is_err() {
                break;
            }
        }
        let made = tree.make(&ME, Ino::ROOT, "later".as_ref(), NewObject::File, 0o600);
        assert_eq!(made.unwrap_err(), Errno::IO);
        assert!(tree.list(Ino::ROOT).is_ok());
        drop(tree);
        let tree = open(&world, BYTES).unwrap();
        let found = look(&tree).unwrap();
        let fits = states
            .iter()
            .any(|state| difference(&found, state).is_none());
        assert!(fits, "seed {seed}: {:?}", difference(&found, &states[0]));
        assert_eq!(problems(&tree), []);
    }
}
