//! Writes that the kernel hands on in pieces: every crash between them.

use super::model::{self, ME};
use crate::directory::{Plant, Tree};
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use mount::opens::{Handle, Opens, Pages};
use mount::{Ino, Layer, NewObject, SetAttr};
use std::time::Duration;

const DISK_BYTES: u64 = 3 << 20;
const PAGE: usize = 8192;
const PAGES: u64 = 6;

fn make(tree: &Tree, name: &str) -> Ino {
    let made = tree.make(&ME, Ino::ROOT, name.as_ref(), NewObject::File, 0o644);
    made.unwrap().0
}

fn read(tree: &Tree, ino: Ino, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let read = tree.read(ino, 0, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

/// Pages of one byte each, each written in two pieces, while another file is written and synced.
fn work(world: &World, events: &Notes<()>, plant: Option<Plant>) {
    let mut rng = world.rng();
    let mut tree = model::create(world, DISK_BYTES);
    tree.plant = plant;
    let (pages, other) = (make(&tree, "pages"), make(&tree, "other"));
    tree.write(pages, 0, &[1; PAGE * PAGES as usize + 1])
        .unwrap();
    tree.write(other, 0, &[1; 20_000]).unwrap();
    tree.sync(pages, false).unwrap();
    events.note(());
    for round in 2..30 {
        let offset = rng.below(PAGES) * PAGE as u64;
        let cut = 1 + rng.below(PAGE as u64 - 1);
        let page = [round; PAGE];
        let (first, rest) = page.split_at(cut as usize);
        tree.write(pages, offset, first).unwrap();
        // Somebody else goes on between the two requests.
        tree.write(other, 0, &[round; 4096]).unwrap();
        if rng.chance(1, 2) {
            tree.sync(other, true).unwrap();
        }
        tree.write(pages, offset + cut, rest).unwrap();
        if rng.chance(1, 3) {
            tree.sync(pages, true).unwrap();
        }
    }
}

fn check(world: &World, events: &[()]) -> Result<(), String> {
    let tree = match model::open(world, DISK_BYTES) {
        Ok(tree) => tree,
        Err(_) if events.is_empty() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let Ok((ino, _)) = tree.lookup(Ino::ROOT, "pages".as_ref()) else {
        return Ok(());
    };
    let found = read(&tree, ino, PAGE * PAGES as usize);
    let torn = |page: &&[u8]| page.iter().any(|byte| *byte != page[0]);
    match found.chunks(PAGE).position(|page| torn(&page)) {
        None => Ok(()),
        Some(page) => Err(format!("page {page} is torn")),
    }
}

fn run(seed: u64, plant: Option<Plant>) -> Result<Report, Failure> {
    let mut options = Look::new(seed);
    options.cuts_max = 150;
    search(&options, |world, events| work(world, events, plant), check)
}

#[test]
fn after_every_crash_a_write_in_two_pieces_is_there_whole_or_not_at_all() {
    for seed in 1..4 {
        let report = run(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.images > 100, "{report:?}");
    }
}

#[test]
fn pieces_that_are_written_by_themselves_are_found() {
    let failure = (1..4).find_map(|seed| run(seed, Some(Plant::WriteInPieces)).err());
    println!("{}", failure.expect("half a write was not found"));
}

#[test]
fn what_is_kept_back_is_read_and_written_with_the_next_thing_that_happens() {
    let world = World::new(1);
    let tree = model::create(&world, DISK_BYTES);
    let groups = || tree.volume.stats().counters.groups;
    let ino = make(&tree, "file");
    tree.write(ino, 0, &[1; 20_000]).unwrap();
    tree.open(ino, Handle(1), true).unwrap();
    let mut round = 1;
    let mut keep = || {
        round += 1;
        let before = groups();
        tree.write(ino, 4096, &[round; 100]).unwrap();
        assert_eq!(groups(), before);
        let found = read(&tree, ino, 4200);
        assert_eq!(
            (found[4095], found[4096], found[4195], found[4196]),
            (1, round, round, 1)
        );
        (before, round)
    };
    let shorter = SetAttr {
        size: Some(15_000),
        ..SetAttr::default()
    };
    let others: [&dyn Fn(); 6] = [
        &|| tree.sync(ino, true).unwrap(),
        &|| assert_eq!(tree.flush(&ME, ino, Handle(1)), Pages::Keep),
        &|| assert_eq!(tree.set_attr(&ME, ino, &shorter).unwrap().size, 15_000),
        &|| assert_eq!(tree.seek(ino, 0, true), Ok(15_000)),
        &|| tree.settle_writes(Duration::ZERO).unwrap(),
        // Somewhere else.
        &|| tree.write(ino, 8192, &[9; 4096]).unwrap(),
    ];
    for (number, other) in others.iter().enumerate() {
        let (before, round) = keep();
        other();
        let more = u64::from([2, 5].contains(&number));
        assert_eq!(groups() - before, 1 + more, "{number}");
        assert_eq!(read(&tree, ino, 4200)[4096], round);
    }
    // A file that ends with it, and one that is not long enough, are written at once.
    for (offset, length) in [(12_288, 15_000 - 12_288), (12_288, 4095)] {
        let before = groups();
        tree.write(ino, offset, &vec![5; length]).unwrap();
        assert_eq!(groups(), before + 1);
    }
}
