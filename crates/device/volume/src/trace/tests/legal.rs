//! Every cut is legal, and what is legal comes up.

use super::{Memory, open, recorder};
use crate::trace::{Event, EventNumber, Kept, Loss, Walk};
use env::{Disk, Rng};
use std::collections::{BTreeMap, BTreeSet};

const SECTORS: usize = 64;
const SECTOR: usize = 512;

/// What a sector may be, said a second time and without ranges: the value that is durable, and those
/// written since, in order. A value is the number of a write, 0 for zeros, 255 for the base.
#[derive(Clone)]
struct Model {
    durable: [u8; SECTORS],
    now: [u8; SECTORS],
    since: Vec<BTreeSet<u8>>,
}

impl Model {
    fn new() -> Model {
        Model {
            durable: [255; SECTORS],
            now: [255; SECTORS],
            since: vec![BTreeSet::new(); SECTORS],
        }
    }

    fn write(&mut self, sectors: std::ops::Range<usize>, value: u8) {
        for sector in sectors {
            self.now[sector] = value;
            self.since[sector].insert(value);
        }
    }

    fn sync(&mut self) {
        self.durable = self.now;
        self.since = vec![BTreeSet::new(); SECTORS];
    }
}

/// The value of each sector, each of which is of one piece.
fn values(image: &dyn Disk) -> [u8; SECTORS] {
    let mut bytes = vec![0; SECTORS * SECTOR];
    image.read_at(0, &mut bytes).unwrap();
    let mut values = [0; SECTORS];
    for (value, sector) in values.iter_mut().zip(bytes.chunks(SECTOR)) {
        assert!(
            sector.iter().all(|byte| *byte == sector[0]),
            "a torn sector"
        );
        *value = sector[0];
    }
    values
}

/// Does requests one after the other; gives the model as of each event.
fn run(seed: u64) -> (std::sync::Arc<Memory>, Vec<Model>) {
    let mut rng = Rng::new(seed);
    let (recorder, _, trace) = recorder(vec![255; SECTORS * SECTOR]);
    let mut model = Model::new();
    let mut models = vec![model.clone()];
    for value in 1..60_u8 {
        let first = rng.index(SECTORS);
        let sectors = first..(first + 1 + rng.index(12)).min(SECTORS);
        let offset = (sectors.start * SECTOR) as u64;
        let bytes = sectors.len() * SECTOR;
        match rng.below(5) {
            0 => {
                recorder.sync().unwrap();
                models.push(model.clone());
                model.sync();
                models.push(model.clone());
                continue;
            }
            1 => {
                recorder.discard(offset, bytes as u64).unwrap();
                model.write(sectors, 0);
            }
            _ => {
                recorder.write_at(offset, &vec![value; bytes]).unwrap();
                model.write(sectors, value);
            }
        }
        models.push(model.clone());
        models.push(model.clone());
    }
    recorder.finish().unwrap();
    models.push(model);
    (trace, models)
}

#[test]
fn each_sector_of_a_cut_is_what_it_may_be() {
    let (mut kinds, mut torn_sectors) = ([0_u64; 3], 0);
    for seed in 0..8 {
        let (trace, models) = run(seed);
        let base = Memory::new(vec![255; SECTORS * SECTOR]);
        let mut walk = Walk::new(&open(&trace), base).unwrap();
        for (event, model) in models.iter().enumerate() {
            assert_eq!(walk.at(), EventNumber(event as u64));
            let all = walk.cut(&Loss::Nothing).unwrap();
            assert_eq!(values(&all.image), model.now);
            let none = walk.cut(&Loss::Everything).unwrap();
            assert_eq!(values(&none.image), model.durable);
            for seed in 0..12 {
                let loss = Loss::Random {
                    seed,
                    sector_bytes: 512,
                };
                let cut = walk.cut(&loss).unwrap();
                let found = values(&cut.image);
                for (sector, value) in found.iter().enumerate() {
                    let durable = *value == model.durable[sector];
                    assert!(durable || model.since[sector].contains(value));
                    torn_sectors += u64::from(!durable && *value != model.now[sector]);
                }
                for fate in cut.fates {
                    kinds[match fate.kept {
                        Kept::Whole => 0,
                        Kept::Nothing => 1,
                        Kept::Part(_) => 2,
                    }] += 1;
                }
                // The same seed is the same cut.
                let again = walk.cut(&loss).unwrap();
                assert_eq!(values(&again.image), found);
            }
            walk.step().unwrap();
        }
        assert!(walk.step().unwrap().is_none());
    }
    // All that may happen did: whole, lost and torn writes, and an older value under a newer one.
    assert!(kinds.iter().all(|count| *count > 1000), "{kinds:?}");
    assert!(torn_sectors > 100, "{torn_sectors}");
}

#[test]
fn chosen_writes_are_lost_and_no_others() {
    let (recorder, _, trace) = recorder(vec![255; SECTORS * SECTOR]);
    for (value, at) in [(1, 0), (2, 4096), (3, 2048)] {
        recorder.write_at(at, &[value; 4096]).unwrap();
    }
    recorder.finish().unwrap();
    let base = Memory::new(vec![255; SECTORS * SECTOR]);
    let mut walk = Walk::new(&open(&trace), base).unwrap();
    walk.advance(EventNumber(6)).unwrap();
    let lose = |events: &[u64]| {
        let events = events.iter().copied().map(EventNumber).collect();
        walk.cut(&Loss::Writes(events))
            .map(|cut| values(&cut.image))
    };
    let found = lose(&[3]).unwrap();
    assert_eq!((found[0], found[4], found[8], found[12]), (1, 3, 3, 255));
    let found = lose(&[5]).unwrap();
    assert_eq!((found[4], found[8], found[12]), (1, 2, 2));
    assert!(lose(&[2]).is_err(), "an answer is no write");
    assert!(
        walk.advance(EventNumber(5)).is_err(),
        "it goes forward only"
    );
    assert!(walk.advance(EventNumber(9)).is_err(), "there are 7 events");
}

#[test]
fn what_threads_write_over_each_other_ends_in_the_trace_as_on_the_disk() {
    let (recorder, image, trace) = recorder(vec![255; SECTORS * SECTOR]);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let recorder = &recorder;
            scope.spawn(move || {
                let mut rng = Rng::new(thread.into());
                for round in 0..50 {
                    let first = rng.index(SECTORS - 8);
                    let bytes = [thread * 50 + round; 8 * SECTOR];
                    let offset = (first * SECTOR) as u64;
                    recorder.write_at(offset, &bytes).unwrap();
                    if round % 10 == 9 {
                        recorder.sync().unwrap();
                    }
                }
            });
        }
    });
    recorder.finish().unwrap();
    let base = Memory::new(vec![255; SECTORS * SECTOR]);
    let mut walk = Walk::new(&open(&trace), base).unwrap();
    let mut answers = BTreeMap::new();
    while let Some(found) = walk.step().unwrap() {
        if let Event::Done { request, .. } = found.event {
            assert_eq!(answers.insert(request, found.number), None);
        }
    }
    assert_eq!(answers.len(), 4 * (50 + 5));
    let cut = walk.cut(&Loss::Nothing).unwrap();
    let mut found = vec![0; SECTORS * SECTOR];
    cut.image.read_at(0, &mut found).unwrap();
    assert_eq!(found, image.content());
    // What is written to an image is on the image alone.
    cut.image.write_at(1000, &[9; 5000]).unwrap();
    cut.image.discard(2000, 8000).unwrap();
    found[1000..6000].fill(9);
    found[2000..10_000].fill(0);
    let mut again = vec![0; SECTORS * SECTOR];
    cut.image.read_at(0, &mut again).unwrap();
    assert_eq!(again, found);
    let copy = Memory::new(vec![0; SECTORS * SECTOR]);
    cut.image.copy_to(copy.as_ref()).unwrap();
    assert_eq!(copy.content(), found);
    let fresh = walk.cut(&Loss::Nothing).unwrap();
    fresh.image.read_at(0, &mut found).unwrap();
    assert_eq!(found, image.content());
}
