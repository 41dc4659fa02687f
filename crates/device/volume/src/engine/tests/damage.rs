//! Bits that flip, disks that fail, volumes that are full, and disks of others.

use super::model::{self, ID, Model, OPTIONS, UNPACKED, commit, group};
use crate::{BlockIndex, Change, ObjectId, Options, Volume, VolumeError, VolumeId};
use env::errno::{Errno, ErrorKind};
use env::sim::{Effect, Operation, Trouble, World};
use env::{Disk, Rng};
use std::sync::Arc;

const BYTES: u64 = 2 << 20;

fn disk(world: &World) -> Arc<dyn Disk> {
    world.disk("disk", BYTES)
}

fn open(world: &World) -> crate::Result<Volume> {
    Volume::open_read_only(vec![disk(world)], OPTIONS)
}

fn flip(disk: &dyn Disk, byte: u64, bit: u64) {
    let mut content = [0];
    disk.read_at(byte, &mut content).unwrap();
    content[0] ^= 1 << bit;
    disk.write_at(byte, &content).unwrap();
}

/// A volume with a history, and what it holds.
fn filled(world: &World, steps: u64) -> (Volume, Model) {
    filled_with(world, steps, OPTIONS)
}

fn filled_with(world: &World, steps: u64, options: Options) -> (Volume, Model) {
    let volume = Volume::create(vec![disk(world)], ID, options).unwrap();
    let mut rng = world.rng();
    let mut model = Model::new();
    for _ in 0..steps {
        let group = group(&mut rng, 3, 40);
        model::apply(&mut model, &group);
        commit(&volume, &group).unwrap();
    }
    volume.sync().unwrap();
    (volume, model)
}

/// How many blocks are lost; the others have to be right.
fn lost_blocks(volume: &Volume, expected: &Model) -> usize {
    let mut lost = 0;
    let found: Vec<u64> = volume
        .objects()
        .iter()
        .map(|(object, _)| object.0)
        .collect();
    assert_eq!(found, expected.keys().copied().collect::<Vec<u64>>());
    for (object, content) in expected {
        for (index, block) in content.chunks(4096).enumerate() {
            let mut buffer = vec![0; block.len()];
            let offset = index as u64 * 4096;
            match volume.read(ObjectId(*object), offset, &mut buffer) {
                Ok(()) => assert!(buffer == block, "object {object} block {index} is wrong"),
                Err(VolumeError::Corrupt {
                    object: named,
                    block,
                    ..
                }) => {
                    assert_eq!((named.0, block.0 as usize), (*object, index));
                    lost += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    let report = volume.check(&mut |_, _| {}).unwrap();
    assert_eq!(report.damaged.len(), lost);
    lost
}

/// Most blocks that one flipped bit loses, in 250 places of a closed volume.
fn most_lost(options: Options) -> usize {
    let world = World::new(1);
    let (volume, model) = filled_with(&world, 120, options);
    volume.close().unwrap();
    let disk = disk(&world);
    let mut rng = Rng::new(7);
    let (mut lost, mut most) = (0, 0);
    for _ in 0..250 {
        let (byte, bit) = (rng.below(BYTES), rng.below(8));
        flip(disk.as_ref(), byte, bit);
        let volume = open(&world).unwrap_or_else(|error| panic!("byte {byte}: {error}"));
        let here = lost_blocks(&volume, &model);
        lost += here;
        most = most.max(here);
        flip(disk.as_ref(), byte, bit);
    }
    assert!(lost > 10, "{lost}");
    assert_eq!(lost_blocks(&open(&world).unwrap(), &model), 0);
    most
}

#[test]
fn a_flipped_bit_of_a_closed_volume_loses_the_block_that_it_is_in_and_no_other() {
    assert_eq!(most_lost(UNPACKED), 1);
}

#[test]
fn a_flipped_bit_of_a_pack_loses_what_is_in_it_and_no_more() {
    let most = most_lost(OPTIONS);
    assert!((2..10).contains(&most), "{most}");
}

#[test]
fn a_flipped_bit_after_a_crash_never_lets_older_content_stand_for_what_is_lost() {
    let world = World::new(2);
    let volume = Volume::create(vec![disk(&world)], ID, OPTIONS).unwrap();
    let mut rng = world.rng();
    let mut states = vec![Model::new()];
    for _ in 0..30 {
        let group = group(&mut rng, 3, 40);
        let mut model = states.last().unwrap().clone();
        model::apply(&mut model, &group);
        commit(&volume, &group).unwrap();
        volume.sync().unwrap();
        states.push(model);
    }
    drop(volume);
    let disk = disk(&world);
    let (mut refused, mut whole, mut back) = (0, 0, 0);
    let mut rescued = std::collections::BTreeSet::new();
    for _ in 0..250 {
        let (byte, bit) = (rng.below(BYTES), rng.below(8));
        flip(disk.as_ref(), byte, bit);
        match open(&world) {
            Err(error @ VolumeError::FlightLost { .. }) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                refused += 1;
                // Who gives up what is behind the damage gets what was before it, and nothing else.
                let disks = vec![disk.clone()];
                let (volume, given_up) = Volume::rescue(disks, OPTIONS, true).unwrap();
                let given_up = given_up.expect("something is given up");
                let found = model::held(&volume).unwrap();
                let state = states.iter().rposition(|state| *state == found);
                let state = state.expect("one of the states that were synced");
                // Of the last flight nothing says that it was durable.
                assert!(state < 30 && given_up.flights() >= 29 - state as u64);
                rescued.insert(state);
            }
            Err(error) => panic!("byte {byte}: {error}"),
            Ok(volume) => match model::held(&volume) {
                Ok(found) if found == states[30] => whole += 1,
                // The last flight: as if a crash had cut it.
                Ok(found) if found == states[29] => back += 1,
                Ok(_) => panic!("byte {byte}: an older state, or none"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
            },
        }
        flip(disk.as_ref(), byte, bit);
    }
    assert!(
        refused > 0 && whole > 50 && back < 25,
        "{refused} {whole} {back}"
    );
    assert!(rescued.len() > 2, "{rescued:?}");
}

#[test]
fn a_rescued_volume_goes_on_from_where_it_was_before_the_damage() {
    let world = World::new(7);
    let volume = Volume::create(vec![disk(&world)], ID, UNPACKED).unwrap();
    let object = ObjectId(3);
    let mut places = Vec::new();
    // From 4 on, for blocks of zeros have no place.
    for value in 4..24_u8 {
        let range = u64::from(value % 4) * 4096;
        volume
            .atomic_write(&[(object, range, &[value; 4096])])
            .unwrap();
        volume.sync().unwrap();
        let block = BlockIndex(u32::from(value % 4));
        let (crate::map::Mapped::At(place), _) = volume.state.lock().map.find(object, block, 1)
        else {
            panic!("it has a place");
        };
        places.push(volume.geometry.locate(place).1);
    }
    drop(volume);
    // The header of the flight of value 16 is the block before its data.
    flip(disk(&world).as_ref(), places[12] - 4096 + 70, 2);
    let refused = Volume::open(vec![disk(&world)], UNPACKED).map(drop);
    assert!(matches!(refused, Err(VolumeError::FlightLost { .. })));
    let held = |volume: &Volume| {
        let mut content = vec![0; 4 * 4096];
        volume.read(object, 0, &mut content).unwrap();
        [0, 1, 2, 3].map(|block| content[block * 4096])
    };
    let rescue = |look| Volume::rescue(vec![disk(&world)], UNPACKED, look).unwrap();
    for look in [true, true, false] {
        let (volume, given_up) = rescue(look);
        assert_eq!(held(&volume), [12, 13, 14, 15]);
        assert_eq!(given_up.map(|given_up| given_up.flights() >= 7), Some(true));
    }
    // For good: what was behind the damage never comes back, whatever is written now.
    let volume = Volume::open(vec![disk(&world)], UNPACKED).unwrap();
    assert_eq!(held(&volume), [12, 13, 14, 15]);
    for value in 100..103_u8 {
        volume.atomic_write(&[(object, 0, &[value; 4096])]).unwrap();
        volume.sync().unwrap();
    }
    drop(volume);
    let (volume, given_up) = rescue(false);
    assert_eq!(given_up, None);
    assert_eq!(held(&volume), [102, 13, 14, 15]);
    volume.close().unwrap();
}

#[test]
fn the_cleaner_gives_up_a_damaged_block_by_name_and_a_new_write_heals_it() {
    let world = World::new(3);
    let volume = Volume::create(vec![disk(&world)], ID, UNPACKED).unwrap();
    let object = ObjectId(9);
    let content = vec![5; 60 * 4096];
    volume.atomic_write(&[(object, 0, &content)]).unwrap();
    for round in 0..30 {
        let offset = (round % 10) * 4096;
        volume
            .atomic_write(&[(object, offset, &[6; 4096])])
            .unwrap();
    }
    // Block 30: in the first segments, which are going to be cleaned.
    let (crate::map::Mapped::At(place), _) =
        volume.state.lock().map.find(object, BlockIndex(30), 1)
    else {
        panic!("block 30 has a place");
    };
    let (_, byte) = volume.geometry.locate(place);
    flip(disk(&world).as_ref(), byte + 77, 3);
    while volume.stats().counters.lost_blocks == 0 {
        assert!(volume.pass().unwrap().segments > 0, "it was never cleaned");
        volume.checkpoint().unwrap();
    }
    let read = |volume: &Volume| {
        let mut buffer = [0; 4096];
        volume
            .read(object, 30 * 4096, &mut buffer)
            .map(|()| buffer[0])
    };
    let lost = Err(VolumeError::Lost {
        object,
        block: BlockIndex(30),
    });
    assert_eq!(read(&volume), lost);
    volume.close().unwrap();
    let volume = Volume::open(vec![disk(&world)], UNPACKED).unwrap();
    assert_eq!(read(&volume), lost);
    assert_eq!(volume.check(&mut |_, _| {}).unwrap().damaged.len(), 1);
    volume
        .atomic_write(&[(object, 30 * 4096, &[8; 4096])])
        .unwrap();
    assert_eq!(read(&volume), Ok(8));
}

#[test]
fn after_a_write_that_fails_reads_go_on_and_recovery_finds_whole_groups() {
    for seed in 0..20 {
        let world = World::new(seed);
        let (volume, before) = filled(&world, 10);
        let mut model = before.clone();
        let what = [Operation::Write, Operation::Sync][seed as usize % 2];
        world.plan(Trouble::new(what, Effect::Fail(Errno::IO)).after(world.rng().below(6)));
        let mut states = vec![model.clone()];
        let mut rng = world.rng();
        let failed = loop {
            assert!(states.len() < 50, "it never fails");
            let group = group(&mut rng, 3, 40);
            model::apply(&mut model, &group);
            states.push(model.clone());
            if let Err(error) = commit(&volume, &group).and_then(|()| volume.sync()) {
                break error;
            }
        };
        assert_eq!(failed.kind(), ErrorKind::Fatal, "{failed}");
        let again = commit(&volume, &group(&mut rng, 1, 40));
        assert!(matches!(again, Err(VolumeError::Stopped { .. })));
        assert!(matches!(
            volume.checkpoint(),
            Err(VolumeError::Stopped { .. })
        ));
        model::held(&volume).expect("reads go on");
        world.calm();
        world.crash();
        let volume = Volume::open(vec![disk(&world)], OPTIONS).unwrap();
        let found = model::held(&volume).unwrap();
        // All but the last were synced.
        let last = &states[states.len() - 2..];
        assert!(last.contains(&found), "seed {seed}");
    }
}

#[test]
fn a_group_that_does_not_fit_is_refused_whole_and_a_full_volume_can_be_overwritten() {
    let world = World::new(5);
    let volume = Volume::create(vec![disk(&world)], ID, OPTIONS).unwrap();
    let (object, other) = (ObjectId(1), ObjectId(2));
    let capacity = volume.stats().capacity_blocks;
    let most = vec![1; (capacity * 4096) as usize];
    let too_many = [(other, 0, &b"first"[..]), (object, 4096, &most[..])];
    let refused = volume.atomic_write(&too_many).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    assert_eq!(volume.size(other), None);
    // Block by block to the last, then each of them many times, in any order.
    for block in 0..capacity {
        volume
            .atomic_write(&[(object, block * 4096, &[2; 4096])])
            .unwrap();
    }
    let full = volume.atomic_write(&[(other, 0, b"x")]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
    let mut rng = Rng::new(9);
    let mut expected = vec![2; capacity as usize];
    for round in 0..capacity * 10 {
        let block = rng.below(capacity);
        expected[block as usize] = round as u8;
        volume
            .atomic_write(&[(object, block * 4096, &[round as u8; 4096])])
            .unwrap();
    }
    let read = |block: u64| {
        let mut buffer = [0; 4096];
        volume.read(object, block * 4096, &mut buffer).unwrap();
        buffer[0]
    };
    for block in 0..capacity {
        assert_eq!(read(block), expected[block as usize], "block {block}");
    }
    // Discarded blocks give their room back.
    let discard = Change::Discard {
        object,
        offset: 0,
        length: 10 * 4096,
    };
    volume.commit(&[discard]).unwrap();
    volume.atomic_write(&[(other, 0, &[3; 10 * 4096])]).unwrap();
    assert_eq!(read(0), 0);
}

#[test]
fn disks_of_others_and_disks_in_disorder_are_refused_unchanged() {
    let world = World::new(6);
    let [a, b, c] = ["a", "b", "c"].map(|name| -> Arc<dyn Disk> { world.disk(name, BYTES) });
    let small: Arc<dyn Disk> = world.disk("small", 1 << 20);
    let create = |disks: &[&Arc<dyn Disk>], id| {
        Volume::create(
            disks.iter().map(|disk| Arc::clone(disk)).collect(),
            id,
            OPTIONS,
        )
    };
    let open = |disks: &[&Arc<dyn Disk>]| {
        Volume::open(disks.iter().map(|disk| Arc::clone(disk)).collect(), OPTIONS).map(|_| ())
    };
    assert!(matches!(open(&[&a]), Err(VolumeError::NotAVolume { .. })));
    assert!(matches!(
        create(&[&small], ID),
        Err(VolumeError::TooSmall { .. })
    ));
    let odd = Options {
        segment_blocks: 3,
        ..OPTIONS
    };
    let odd = Volume::create(vec![a.clone()], ID, odd).map(|_| ());
    assert!(matches!(odd, Err(VolumeError::Setting { .. })));
    drop(create(&[&a, &b], ID).unwrap());
    drop(create(&[&c], VolumeId(1)).unwrap());
    let exists = create(&[&c], ID).map(|_| ());
    assert!(matches!(
        exists,
        Err(VolumeError::Exists {
            volume: VolumeId(1),
            ..
        })
    ));
    for wrong in [&[&b, &a][..], &[&a], &[&a, &c], &[&a, &b, &c]] {
        assert!(matches!(open(wrong), Err(VolumeError::WrongDisks { .. })));
    }
    open(&[&a, &b]).unwrap();
    let read_only = Volume::open_read_only(vec![c.clone()], OPTIONS).unwrap();
    let refused = read_only.atomic_write(&[(ObjectId(1), 0, b"x")]);
    assert_eq!(refused, Err(VolumeError::ReadOnly));
}
