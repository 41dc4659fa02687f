//! Many threads at once.

use super::model::{ID, OPTIONS, UNPACKED};
use crate::{Change, ObjectId, Options, Volume};
use env::sim::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a counter in a block: many of them share one.
const SLOT: u64 = 8;

#[test]
fn threads_that_write_parts_of_the_same_blocks_lose_nothing() {
    let world = World::new(1);
    let disk = world.disk("disk", 4 << 20);
    let volume = Volume::create(vec![disk], ID, OPTIONS).unwrap();
    let object = ObjectId(1);
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let volume = &volume;
            scope.spawn(move || {
                for round in 1..=60u64 {
                    // The same slot of two blocks, in one group; and a block of its own.
                    let slot = round.to_le_bytes();
                    let own = [thread as u8; 4096];
                    let group = [
                        (object, thread * SLOT, &slot[..]),
                        (object, 4096 + thread * SLOT, &slot[..]),
                        (object, (4 + thread) * 4096, &own[..]),
                    ];
                    volume.atomic_write(&group).unwrap();
                    if round % 7 == 0 {
                        volume.sync().unwrap();
                    }
                    let mut found = [0; 8];
                    volume.read(object, thread * SLOT, &mut found).unwrap();
                    assert_eq!(found, slot);
                }
            });
        }
    });
    for thread in 0..6 {
        for block in [0, 4096] {
            let mut found = [0; 8];
            volume
                .read(object, block + thread * SLOT, &mut found)
                .unwrap();
            assert_eq!(u64::from_le_bytes(found), 60);
        }
    }
}

#[test]
fn readers_see_whole_groups_while_writers_the_cleaner_and_checkpoints_run() {
    let world = World::new(2);
    let disk = world.disk("disk", 3 << 20);
    let volume = Volume::create(vec![disk.clone()], ID, OPTIONS).unwrap();
    let object = ObjectId(1);
    // Pairs of blocks that always hold the same number.
    let pairs = 42u64;
    let write = |pair: u64, number: u8| {
        let content = [number; 4096];
        let changes = [0, pairs].map(|more| Change::Write {
            object,
            offset: (pair + more) * 4096,
            bytes: &content,
        });
        volume.commit(&changes).unwrap();
    };
    (0..pairs).for_each(|pair| write(pair, 0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let write = &write;
                scope.spawn(move || {
                    for round in 0..250u64 {
                        // Each writer has its own third of the pairs.
                        write((round * 7) % (pairs / 3) * 3 + writer, round as u8);
                    }
                })
            })
            .collect();
        let upkeep = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                volume.clean(u64::MAX).unwrap();
                volume.sync().unwrap();
            }
        });
        scope.spawn(|| {
            let mut content = vec![0; pairs as usize * 2 * 4096];
            while !done.load(Ordering::Acquire) {
                volume.read(object, 0, &mut content).unwrap();
                for block in content.chunks(4096) {
                    assert!(block.iter().all(|byte| *byte == block[0]), "a torn block");
                }
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
        upkeep.join().unwrap();
    });
    drop(volume);
    world.crash();
    let volume = Volume::open(vec![disk], OPTIONS);
    // Handles die with the machine.
    assert!(volume.is_err());
    let volume = Volume::open(vec![world.disk("disk", 0)], OPTIONS).unwrap();
    let mut content = vec![0; pairs as usize * 2 * 4096];
    volume.read(object, 0, &mut content).unwrap();
    let (first, second) = content.split_at(pairs as usize * 4096);
    assert!(first == second, "half a group");
}

#[test]
fn groups_that_come_together_share_flights_and_syncs() {
    let world = World::new(3);
    let disk: Arc<dyn env::Disk> = world.disk("disk", 32 << 20);
    let options = Options {
        segment_blocks: 256,
        ..OPTIONS
    };
    let volume = Volume::create(vec![disk], ID, options).unwrap();
    let before = volume.stats().counters;
    let mut last = None;
    for block in 0..64 {
        let change = Change::Write {
            object: ObjectId(block % 5),
            offset: block * 4096,
            bytes: &[1; 4096],
        };
        last = Some(volume.begin(&[change]).unwrap());
    }
    volume.wait(last.unwrap()).unwrap();
    volume.sync().unwrap();
    let after = volume.stats().counters;
    assert_eq!(after.groups - before.groups, 64);
    assert_eq!(after.flights - before.flights, 1);
    assert_eq!(after.syncs - before.syncs, 1);
}

#[test]
fn upkeep_cleans_what_is_short_checkpoints_what_is_long_and_then_rests() {
    let world = World::new(4);
    let disk: Arc<dyn env::Disk> = world.disk("disk", 4 << 20);
    let volume = Volume::create(vec![disk], ID, UNPACKED).unwrap();
    assert!(!volume.maintain().unwrap(), "there is nothing to do");
    let capacity = volume.stats().capacity_blocks;
    let write = |block: u64| {
        let block = block % capacity;
        let object = ObjectId(1);
        volume
            .atomic_write(&[(object, block * 4096, &[1; 4096])])
            .unwrap();
    };
    (0..capacity / 3).for_each(write);
    let before = volume.stats().checkpoint;
    let mut turns = 0;
    while volume.maintain().unwrap() {
        turns += 1;
        assert!(turns < 100, "it never rests");
    }
    assert!(
        volume.stats().checkpoint > before,
        "there was much to replay"
    );
    (0..capacity * 4).for_each(|block| write(block * 7));
    while volume.maintain().unwrap() {
        turns += 1;
        assert!(turns < 200, "it never rests");
    }
    let stats = volume.stats();
    assert!(stats.free_segments >= stats.reserve_segments);
}
