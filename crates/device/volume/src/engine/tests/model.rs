//! A volume as it would be with memory that never fails, and random groups for both.

use crate::{Change, ObjectId, Options, Result, Volume, VolumeId};
use env::Rng;
use env::sim::World;
use std::collections::BTreeMap;

pub(super) const ID: VolumeId = VolumeId(0xab);

/// Small, so that a short run fills segments and needs the cleaner.
pub(super) const OPTIONS: Options = Options {
    segment_blocks: 16,
    sums_bytes_max: 0,
    packs: true,
};

pub(super) const BLOCK: u64 = 4096;

/// The same, and each block has a block of the log for itself.
pub(super) const UNPACKED: Options = Options {
    packs: false,
    ..OPTIONS
};

/// Objects and their content.
pub(super) type Model = BTreeMap<u64, Vec<u8>>;

/// A change that owns its bytes.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(u64, u64, Vec<u8>),
    Zero(u64, u64, u64),
    Discard(u64, u64, u64),
    Resize(u64, u64),
    Remove(u64),
}

impl Step {
    fn change(&self) -> Change<'_> {
        match self {
            Step::Write(object, offset, bytes) => Change::Write {
                object: ObjectId(*object),
                offset: *offset,
                bytes,
            },
            Step::Zero(object, offset, length) => Change::Zero {
                object: ObjectId(*object),
                offset: *offset,
                length: *length,
            },
            Step::Discard(object, offset, length) => Change::Discard {
                object: ObjectId(*object),
                offset: *offset,
                length: *length,
            },
            Step::Resize(object, size) => Change::Resize {
                object: ObjectId(*object),
                size: *size,
            },
            Step::Remove(object) => Change::Remove {
                object: ObjectId(*object),
            },
        }
    }

    /// Does to the model what the volume promises to do.
    fn apply(&self, model: &mut Model) {
        match self {
            Step::Write(object, offset, bytes) => {
                let content = model.entry(*object).or_default();
                let end = *offset as usize + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset as usize..end].copy_from_slice(bytes);
            }
            Step::Zero(object, offset, length) => {
                if let Some(content) = model.get_mut(object) {
                    let end = ((offset + length) as usize).min(content.len());
                    let start = (*offset as usize).min(end);
                    content[start..end].fill(0);
                }
            }
            Step::Discard(object, offset, length) => {
                let start = offset.div_ceil(BLOCK) * BLOCK;
                let end = (offset + length) / BLOCK * BLOCK;
                if start < end {
                    Step::Zero(*object, start, end - start).apply(model);
                }
            }
            Step::Resize(object, size) => {
                model.entry(*object).or_default().resize(*size as usize, 0);
            }
            Step::Remove(object) => {
                model.remove(object);
            }
        }
    }
}

pub(super) fn apply(model: &mut Model, group: &[Step]) {
    group.iter().for_each(|step| step.apply(model));
}

pub(super) fn changes(group: &[Step]) -> Vec<Change<'_>> {
    group.iter().map(Step::change).collect()
}

pub(super) fn commit(volume: &Volume, group: &[Step]) -> Result<()> {
    volume.commit(&changes(group))
}

/// Content that no other write has; every other time most of it compresses.
fn content(rng: &mut Rng, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    rng.fill(&mut bytes);
    if rng.chance(1, 2) {
        let kept = 20 + rng.below(1500) as usize;
        for block in bytes.chunks_mut(BLOCK as usize) {
            block.iter_mut().skip(kept).for_each(|byte| *byte = 7);
        }
    }
    bytes
}

/// A group of one to four changes of `objects` objects of up to `blocks` blocks.
pub(super) fn group(rng: &mut Rng, objects: u64, blocks: u64) -> Vec<Step> {
    let steps = 1 + rng.below(4);
    let step = |rng: &mut Rng| {
        let object = 1 + rng.below(objects);
        let whole = rng.chance(2, 3);
        let unit = if whole { BLOCK } else { 1 };
        let limit = blocks * BLOCK;
        let offset = rng.below(limit - BLOCK) / unit * unit;
        let most = (limit - offset).min(3 * BLOCK);
        let length = (1 + rng.below(most)).next_multiple_of(unit).min(most);
        match rng.below(20) {
            0 => Step::Zero(object, offset, length),
            1 => Step::Discard(object, offset, length + rng.below(4 * BLOCK)),
            2 => Step::Resize(object, offset),
            3 if rng.chance(1, 3) => Step::Remove(object),
            _ => Step::Write(object, offset, content(rng, length)),
        }
    };
    (0..steps).map(|_| step(rng)).collect()
}

/// What a volume holds.
pub(super) fn held(volume: &Volume) -> Result<Model> {
    let mut model = Model::new();
    for (object, size) in volume.objects() {
        let mut content = vec![0; size as usize];
        volume.read(object, 0, &mut content)?;
        model.insert(object.0, content);
    }
    Ok(model)
}

/// Where two states differ, in a few words.
pub(super) fn difference(found: &Model, expected: &Model) -> Option<String> {
    if found == expected {
        return None;
    }
    for (object, expected) in expected {
        let Some(found) = found.get(object) else {
            return Some(format!("object {object} is missing"));
        };
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            return Some(format!("object {object} has {found} bytes, not {expected}"));
        }
        if let Some(at) = (0..found.len()).find(|at| found[*at] != expected[*at]) {
            return Some(format!("object {object} differs at byte {at}"));
        }
    }
    Some("there are objects too many".to_owned())
}

fn open(world: &World, bytes: u64) -> Result<Volume> {
    Volume::open(
        vec![world.disk("a", bytes), world.disk("b", bytes)],
        OPTIONS,
    )
}

#[test]
fn a_volume_does_what_a_model_does() {
    let bytes = 2 << 20;
    for seed in 0..12 {
        let world = World::new(seed);
        let mut rng = world.rng();
        let disks: Vec<std::sync::Arc<dyn env::Disk>> =
            vec![world.disk("a", bytes), world.disk("b", bytes)];
        let mut volume = Volume::create(disks, ID, OPTIONS).unwrap();
        let mut model = Model::new();
        let mut spared = 0;
        for step in 0..400 {
            let group = group(&mut rng, 3, 60);
            apply(&mut model, &group);
            commit(&volume, &group).unwrap();
            match rng.below(40) {
                0 => volume.sync().unwrap(),
                1 => volume.checkpoint().unwrap(),
                2 => drop(volume.clean(u64::MAX).unwrap()),
                3 => {
                    volume = if rng.chance(1, 2) {
                        volume.close().unwrap();
                        open(&world, bytes).unwrap()
                    } else {
                        drop(volume);
                        world.kill();
                        open(&world, bytes).unwrap()
                    }
                }
                4 => {
                    volume.sync().unwrap();
                    world.crash();
                    volume = open(&world, bytes).unwrap();
                }
                _ => {}
            }
            if step % 10 == 0 {
                let found = held(&volume).unwrap();
                assert_eq!(difference(&found, &model), None, "seed {seed} step {step}");
                spared += volume.stats().counters.spared_blocks;
            }
        }
        assert!(volume.check(&mut |_, _| {}).unwrap().damaged.is_empty());
        assert!(spared > 0, "nothing was packed");
    }
}
