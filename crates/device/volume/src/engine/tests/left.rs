//! Groups whose callers do not wait, and blocks of zeros.

use super::model::ID;
use crate::{BLOCK_BYTES, Change, ObjectId, Options, Volume};
use env::sim::World;

const OBJECT: ObjectId = ObjectId(1);

fn volume(world: &World) -> Volume {
    let options = Options {
        segment_blocks: 64,
        ..Options::default()
    };
    Volume::create(vec![world.disk("disk", 8 << 20)], ID, options).unwrap()
}

fn write(block: u64, bytes: &[u8]) -> Change<'_> {
    Change::Write {
        object: OBJECT,
        offset: block * BLOCK_BYTES as u64,
        bytes,
    }
}

fn read(volume: &Volume, block: u64) -> u8 {
    let mut found = [0; BLOCK_BYTES];
    let offset = block * BLOCK_BYTES as u64;
    volume.read(OBJECT, offset, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == found[0]));
    found[0]
}

#[test]
fn groups_that_are_left_share_a_flight_and_are_read_as_others_are() {
    let world = World::new(1);
    let volume = volume(&world);
    volume.commit(&[write(0, &[1; 10 * BLOCK_BYTES])]).unwrap();
    let before = volume.stats().counters;
    for block in 0..8 {
        let ticket = volume.begin(&[write(block, &[2; BLOCK_BYTES])]).unwrap();
        volume.leave(ticket).unwrap();
    }
    assert_eq!(volume.stats().counters.flights, before.flights);
    // A block that nobody has left a write to does not wait for the others.
    assert_eq!(read(&volume, 9), 1);
    assert_eq!(volume.stats().counters.flights, before.flights);
    assert_eq!((read(&volume, 7), read(&volume, 3)), (2, 2));
    let after = volume.stats().counters;
    assert_eq!(after.flights, before.flights + 1);
    assert_eq!(after.header_blocks, before.header_blocks + 1);
    // A part of a block that was left, and the hole that it makes.
    let ticket = volume.begin(&[write(3, &[3; BLOCK_BYTES])]).unwrap();
    volume.leave(ticket).unwrap();
    volume
        .atomic_write(&[(OBJECT, 3 * 4096, &[4; 2048])])
        .unwrap();
    let mut found = [0; BLOCK_BYTES];
    volume.read(OBJECT, 3 * 4096, &mut found).unwrap();
    assert_eq!((found[2047], found[2048]), (4, 3));
    let far = 100;
    let changes = [Change::Resize {
        object: OBJECT,
        size: 1 << 20,
    }];
    volume.commit(&changes).unwrap();
    assert!(volume.extent(OBJECT, far * 4096).0);
    let ticket = volume.begin(&[write(far, &[5; BLOCK_BYTES])]).unwrap();
    volume.leave(ticket).unwrap();
    assert!(!volume.extent(OBJECT, far * 4096).0);
}

#[test]
fn many_groups_that_are_left_are_written_without_anybody_waiting() {
    let world = World::new(1);
    let volume = volume(&world);
    let before = volume.stats().counters.flights;
    for block in 0..130 {
        let ticket = volume.begin(&[write(block, &[2; BLOCK_BYTES])]).unwrap();
        volume.leave(ticket).unwrap();
    }
    assert!(volume.stats().counters.flights > before);
}

#[test]
fn zeros_take_no_room() {
    let world = World::new(1);
    let volume = volume(&world);
    volume.commit(&[write(0, &[1; 3 * BLOCK_BYTES])]).unwrap();
    let before = volume.stats();
    assert_eq!(before.mapped_blocks, 3);
    let mut content = vec![0; 5 * BLOCK_BYTES];
    content[3 * BLOCK_BYTES] = 7;
    volume.commit(&[write(0, &content)]).unwrap();
    let after = volume.stats();
    assert_eq!(after.mapped_blocks, 1);
    assert_eq!(
        after.counters.written_blocks,
        before.counters.written_blocks + 1
    );
    let mut found = vec![9; 5 * BLOCK_BYTES];
    volume.read(OBJECT, 0, &mut found).unwrap();
    assert_eq!(found, content);
    // In one group: zeros over what it wrote before, and something over its zeros.
    let group = [
        write(1, &[6; BLOCK_BYTES]),
        write(1, &[0; 2 * BLOCK_BYTES]),
        write(2, &[8; 16]),
    ];
    volume.commit(&group).unwrap();
    assert_eq!(read(&volume, 1), 0);
    let mut part = [0; 17];
    volume.read(OBJECT, 2 * 4096, &mut part).unwrap();
    assert_eq!((part[0], part[16]), (8, 0));
}
