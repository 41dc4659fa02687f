//! Blocks that are written again as they are.

use super::model::{self, ID, Model, OPTIONS, Step};
use crate::engine::Plant;
use crate::{BLOCK_BYTES, Change, ObjectId, Volume};
use env::Rng;
use env::sim::World;

const OBJECT: ObjectId = ObjectId(1);

fn volume(world: &World) -> Volume {
    Volume::create(vec![world.disk("disk", 2 << 20)], ID, OPTIONS).unwrap()
}

#[test]
fn a_block_that_is_as_it_was_is_not_written_again() {
    let world = World::new(1);
    let volume = volume(&world);
    let write = |first: u8, second: u8| {
        let bytes = [[first; BLOCK_BYTES], [second; BLOCK_BYTES]].concat();
        let before = volume.stats().counters.written_blocks;
        volume.atomic_write(&[(OBJECT, 4096, &bytes)]).unwrap();
        let mut found = vec![0; bytes.len()];
        volume.read(OBJECT, 4096, &mut found).unwrap();
        assert_eq!(found, bytes);
        volume.stats().counters.written_blocks - before
    };
    let pages = [(1, 2), (1, 3), (4, 3), (4, 3), (1, 2)];
    let written = pages.map(|(first, second)| write(first, second));
    assert_eq!(written, [2, 1, 1, 0, 2]);
    // What has been taken away is not there any more.
    for change in [
        Change::Resize {
            object: OBJECT,
            size: 0,
        },
        Change::Remove { object: OBJECT },
        Change::Discard {
            object: OBJECT,
            offset: 0,
            length: 12_288,
        },
    ] {
        volume.commit(&[change]).unwrap();
        assert_eq!(write(1, 2), 2, "{change:?}");
    }
}

/// Few blocks with few contents, so that many are written again; whether all that is read is right.
fn history(seed: u64, plant: Option<Plant>) -> bool {
    let world = World::new(seed);
    let mut volume = volume(&world);
    volume.plant = plant;
    let mut rng = Rng::new(seed);
    let mut model = Model::new();
    for _ in 0..300 {
        let object = 1 + rng.below(2);
        let offset = rng.below(4) * BLOCK_BYTES as u64;
        let step = match rng.below(8) {
            0 => Step::Resize(object, offset),
            1 => Step::Remove(object),
            2 => Step::Zero(object, offset, BLOCK_BYTES as u64),
            _ => {
                let blocks = 1 + rng.below(3) as usize;
                let bytes: Vec<u8> = (0..blocks)
                    .flat_map(|_| [1 + rng.below(2) as u8; BLOCK_BYTES])
                    .collect();
                Step::Write(object, offset, bytes)
            }
        };
        let group = vec![step];
        volume.commit(&model::changes(&group)).unwrap();
        model::apply(&mut model, &group);
    }
    let found = model::held(&volume).unwrap();
    model::difference(&found, &model).is_none()
}

#[test]
fn what_is_written_again_is_what_is_read() {
    assert!((0..20).all(|seed| history(seed, None)));
}

#[test]
fn blocks_that_are_remembered_for_too_long_are_found() {
    let plant = Some(Plant::RememberRemoved);
    assert!((0..20).any(|seed| !history(seed, plant)));
}
