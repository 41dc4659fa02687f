//! Crashes anywhere, each followed by the loss of no more stores than may be lost.

use super::*;
use crate::stripes::tests::PAGES;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use std::collections::BTreeSet;

/// What the workload has begun, or was promised.
#[derive(Clone)]
enum Event {
    Created(Vec<Vec<u8>>),
    Stands,
    Writing(Shard, u64, Vec<u8>),
    /// All writes to this shard so far.
    Synced(Shard),
    GivingUp,
}

/// Which stores are members, as whoever runs this keeps it.
fn members(world: &World, all: StoreMask) -> StoreMask {
    let mask = world.dir("members").read("members").ok();
    let mask = mask.and_then(|bytes| bytes.try_into().ok());
    mask.map_or(all, |mask| StoreMask(u64::from_le_bytes(mask)))
}

fn set_members(world: &World, members: StoreMask) {
    let dir = world.dir("members");
    let written = dir.replace("members", &members.0.to_le_bytes());
    written.expect("writes the members");
}

fn work(rig: &Rig, rng: &mut Rng, steps: usize, note: &dyn Fn(Event)) {
    let data = rig.layout.geometry.data();
    let content: Vec<Vec<u8>> = (0..data).map(|_| random(rng, CHUNK as usize)).collect();
    rig.create(&content);
    set_members(&rig.world, rig.stores());
    note(Event::Created(content));
    let (stripes, delayed) = open(rig, rig.stores()).expect("opens");
    let prepared = rig.prepare(&stripes, STRIPE).expect("prepares");
    prepared.activate(|_| true).expect("stands");
    note(Event::Stands);
    let mut unsynced = vec![0; data.into()];
    let mut away = None;
    // A few pages that are written again and again, or some more; synced seldom, or often.
    let (pages, seldom) = [(3, 9), (6, 3)][rng.index(2)];
    for _ in 0..steps {
        match (rng.below(14), away) {
            (0, _) => {
                delayed.merge_some(64).expect("merges");
            }
            (1, None) => {
                let store = StoreIndex(rng.below(u64::from(rig.layout.geometry.shards())) as u8);
                leave(&stripes, &delayed, store);
                set_members(&rig.world, rig.stores().without(store));
                away = Some(store);
            }
            (1 | 2, Some(store)) => {
                join(rig, &stripes, &delayed, store).expect("joins");
                set_members(&rig.world, rig.stores());
                away = None;
            }
            _ => {
                let (shard, offset, bytes) = some_write(rng, data, pages);
                note(Event::Writing(shard, offset, bytes.clone()));
                let written = delayed.write(id(STRIPE), shard, offset, &bytes);
                written.expect("writes");
                let count = &mut unsynced[usize::from(shard.0)];
                *count += 1;
                if *count > 5 || rng.chance(1, seldom) {
                    delayed.sync(id(STRIPE), shard).expect("syncs");
                    note(Event::Synced(shard));
                    *count = 0;
                }
            }
        }
    }
    if rng.chance(1, 2) {
        if rng.chance(1, 2) {
            for shard in rig.data() {
                delayed.sync(id(STRIPE), shard).expect("syncs");
                note(Event::Synced(shard));
            }
        }
        note(Event::GivingUp);
        let present = away.map_or(rig.stores(), |away| rig.stores().without(away));
        give_up(rig, (&stripes, &delayed), present);
    }
}

/// The stores that get copies of a shard besides its home: as many as may be lost.
fn copy_stores(rig: &Rig, shard: Shard) -> impl Iterator<Item = StoreIndex> + use<> {
    let geometry = rig.layout.geometry;
    (1..=geometry.parity()).map(move |n| StoreIndex((shard.0 + n) % geometry.shards()))
}

/// As an engine does it: copies, note, bases, and then nothing of it is left.
fn give_up(rig: &Rig, (stripes, delayed): (&Stripes, &Delayed), present: StoreMask) {
    let plant = PLANT.get();
    let written = delayed.close_stripe(id(STRIPE)).expect("is there");
    for (shard, bytes) in rig.data().zip(read(rig, delayed).expect("reads")) {
        for store in copy_stores(rig, shard).filter(|store| present.has(*store)) {
            let copies = crate::stripes::tests::dir(&rig.world, "copy", store);
            let filled = copies.replace(&format!("{}", shard.0), &bytes);
            filled.expect("fills");
        }
    }
    if written && plant != Planted::GivesUpUnnoted {
        delayed.note_given_up(&[id(STRIPE)]).expect("notes");
    }
    if plant == Planted::ForgetsBeforeBases {
        stripes.remove(&[id(STRIPE)]).expect("removes");
        let runs = finish_bases(rig, delayed, StoreMask::default());
        delayed.forget(&[id(STRIPE)]).expect("forgets");
        assert_eq!(runs, 0, "no home is to have anything");
        return;
    }
    finish_bases(rig, delayed, present);
    stripes.remove(&[id(STRIPE)]).expect("removes");
    delayed.forget(&[id(STRIPE)]).expect("forgets");
}

/// Writes what is in differentials into the bases of some stores; how many runs.
fn finish_bases(rig: &Rig, delayed: &Delayed, present: StoreMask) -> usize {
    let mut runs = 0;
    for shard in rig.data().filter(|shard| present.has(StoreIndex(shard.0))) {
        let base = rig.base(shard);
        let each = |at: u64, bytes: &[u8]| {
            runs += 1;
            let written = base.write_at(crate::stripes::tests::BASE_AT + at, bytes);
            written.map_err(StripeError::io(StoreIndex(shard.0), "filling a base"))
        };
        delayed.each_run(id(STRIPE), shard, each).expect("fills");
        base.sync().expect("syncs");
    }
    runs
}

/// What the files of a stripe that was given up are: home and copies on the stores that are there
/// have to agree.
fn plain(rig: &Rig, present: StoreMask) -> std::result::Result<Vec<Vec<u8>>, String> {
    let shards = rig.data().map(|shard| {
        let mut found: Vec<Vec<u8>> = Vec::new();
        if present.has(StoreIndex(shard.0)) {
            let mut bytes = vec![0; CHUNK as usize];
            let read = rig
                .base(shard)
                .read_at(crate::stripes::tests::BASE_AT, &mut bytes);
            read.map_err(|errno| format!("{shard}: {errno}"))?;
            found.push(bytes);
        }
        for store in copy_stores(rig, shard).filter(|store| present.has(*store)) {
            let copies = crate::stripes::tests::dir(&rig.world, "copy", store);
            let copy = copies.read(&format!("{}", shard.0));
            found.push(copy.map_err(|errno| format!("copy of {shard}: {errno}"))?);
        }
        if found.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(format!("{shard}: its home and its copies differ"));
        }
        let first = found.into_iter().next();
        first.ok_or_else(|| format!("{shard}: nobody has it"))
    });
    shards.collect()
}

/// What may be found of each shard.
struct Expected {
    synced: Vec<Vec<u8>>,
    /// Writes since, in order.
    since: Vec<Vec<(u64, Vec<u8>)>>,
    stands: bool,
    giving_up: bool,
}

fn expected(events: &[Event]) -> Option<Expected> {
    let mut events = events.iter();
    let Some(Event::Created(content)) = events.next() else {
        return None;
    };
    let mut expected = Expected {
        since: vec![Vec::new(); content.len()],
        synced: content.clone(),
        stands: false,
        giving_up: false,
    };
    for event in events {
        match event {
            Event::Created(_) => {}
            Event::Stands => expected.stands = true,
            Event::Writing(shard, offset, bytes) => {
                expected.since[usize::from(shard.0)].push((*offset, bytes.clone()));
            }
            Event::Synced(shard) => {
                let shard = usize::from(shard.0);
                for (offset, bytes) in std::mem::take(&mut expected.since[shard]) {
                    let at = offset as usize;
                    expected.synced[shard][at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            Event::GivingUp => expected.giving_up = true,
        }
    }
    Some(expected)
}

impl Expected {
    /// Whether each page is the synced one with any of the writes since over it.
    fn allows(&self, found: &[Vec<u8>]) -> std::result::Result<(), String> {
        for (shard, found) in found.iter().enumerate() {
            for page in 0..PAGES as usize {
                let range = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
                let touching: Vec<_> = self.since[shard]
                    .iter()
                    .filter(|(offset, bytes)| {
                        let at = *offset as usize;
                        at < range.end && at + bytes.len() > range.start
                    })
                    .collect();
                let fits = (0..1u32 << touching.len()).any(|kept| {
                    let mut content = self.synced[shard].clone();
                    for (n, (offset, bytes)) in touching.iter().enumerate() {
                        if kept & 1 << n != 0 {
                            let at = *offset as usize;
                            content[at..at + bytes.len()].copy_from_slice(bytes);
                        }
                    }
                    content[range.clone()] == found[range.clone()]
                });
                if !fits {
                    let zeros = found[range].iter().filter(|byte| **byte == 0).count();
                    return Err(format!(
                        "page {page} of shard {shard} is neither as synced nor with any of {} \
                         writes since; {zeros} bytes of it are 0",
                        touching.len()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Recovers without some stores, then with them again, then without others.
fn check(rig: &Rig, events: &[Event]) -> std::result::Result<(), String> {
    let Some(expected) = expected(events) else {
        return Ok(());
    };
    let mut rng = rig.world.rng();
    let all = rig.stores();
    let may_be_lost = usize::from(rig.layout.geometry.parity());
    let lose = |rng: &mut Rng, away: StoreMask| {
        let mut lost = away;
        for _ in 0..rng.below(may_be_lost as u64 + 1) {
            let store = StoreIndex(rng.below(u64::from(rig.layout.geometry.shards())) as u8);
            if lost.count() < may_be_lost {
                lost = lost.with(store);
            }
        }
        lost
    };
    let away = all.minus(members(&rig.world, all));
    let lost = lose(&mut rng, away);
    let (stripes, delayed, found) =
        open_to(rig, all.minus(lost)).map_err(|e| format!("without {lost:?}: {e}"))?;
    set_members(&rig.world, all.minus(lost));
    let is_gone = stripes.get(id(STRIPE)).is_err();
    if is_gone && expected.stands && !expected.giving_up {
        return Err("the stripe is gone".to_owned());
    }
    if !expected.stands {
        // Nobody relies on what there is of it.
        return delayed.forget(&[id(STRIPE)]).map_err(|e| e.to_string());
    }
    if is_gone || found.given_up.contains(&id(STRIPE)) {
        if !is_gone {
            finish_bases(rig, &delayed, all.minus(lost));
            stripes.remove(&[id(STRIPE)]).map_err(|e| e.to_string())?;
        }
        delayed.forget(&[id(STRIPE)]).map_err(|e| e.to_string())?;
        let found = plain(rig, all.minus(lost))?;
        return expected
            .allows(&found)
            .map_err(|e| format!("given up, without {lost:?}: {e}"));
    }
    let found = read(rig, &delayed).map_err(|e| format!("without {lost:?}: reading: {e}"))?;
    expected
        .allows(&found)
        .map_err(|e| format!("without {lost:?}: {e}"))?;
    let same = |delayed: &Delayed, when: &str| match read(rig, delayed) {
        Ok(now) if now == found => Ok(()),
        Ok(_) => Err(format!("{when}: what was read before is something else")),
        Err(error) => Err(format!("{when}: {error}")),
    };
    for store in lost.iter() {
        join(rig, &stripes, &delayed, store)?;
        set_members(&rig.world, members(&rig.world, all).with(store));
    }
    same(&delayed, &format!("with {lost:?} again"))?;
    let others = lose(&mut rng, StoreMask::default());
    for store in others.iter() {
        leave(&stripes, &delayed, store);
    }
    same(&delayed, &format!("then without {others:?}"))?;
    if others.is_empty() {
        // It goes on, with what is there already, so that a crash in here changes nothing either.
        let rewritten: BTreeSet<u64> = (0..3).map(|_| rng.below(6)).collect();
        for page in rewritten {
            let at = page as usize * PAGE_BYTES;
            let bytes = &found[0][at..at + PAGE_BYTES];
            let written = delayed.write(id(STRIPE), Shard(0), at as u64, bytes);
            written.map_err(|error| format!("a write after all: {error}"))?;
        }
        let synced = delayed.sync(id(STRIPE), Shard(0));
        synced.map_err(|error| format!("a sync after all: {error}"))?;
        let merged = delayed.merge_stripe(id(STRIPE));
        let merged = merged.map_err(|error| format!("a merge after all: {error}"))?;
        if !merged.stuck.is_empty() || delayed.status().pages > 0 {
            return Err(format!("a merge after all: {merged:?}"));
        }
        same(&delayed, "after a merge")?;
        let report = stripes.scrub(id(STRIPE), false);
        let report = report.map_err(|error| format!("a scrub: {error}"))?;
        if report.lost + report.contradictions > 0 {
            return Err(format!("a scrub finds {report:?}"));
        }
    }
    Ok(())
}

fn look(geometry: Geometry, plant: Planted, look: &Look) -> std::result::Result<Report, Failure> {
    search(
        look,
        |world, notes: &Notes<Event>| {
            PLANT.set(plant);
            let rig = Rig::new(world, geometry);
            work(&rig, &mut world.rng(), 60, &|event| notes.note(event));
        },
        |world, events| check(&Rig::new(world, geometry), events),
    )
}

fn geometry(data: u8, parity: u8) -> Geometry {
    Geometry::new(data, parity).expect("a geometry")
}

fn look_at(data: u8, parity: u8, seed: u64, cuts: usize) -> Report {
    let options = Look {
        samples_per_cut: 2,
        cuts_max: cuts,
        ..Look::new(seed)
    };
    let looked = look(geometry(data, parity), Planted::Nothing, &options);
    looked.unwrap_or_else(|failure| panic!("{data}+{parity}: {failure}"))
}

/// With `HOLDFAST_SOAK=MINUTES` fresh seeds follow for that long.
#[test]
fn after_any_crash_synced_bytes_are_there_whichever_stores_are_lost() {
    for (seed, (data, parity)) in (1..).zip([(2, 1), (1, 1), (2, 2), (3, 1)]) {
        let report = look_at(data, parity, seed, 40);
        assert!(
            report.images > 80 && report.recovery_images > 20,
            "{report:?}"
        );
    }
    let minutes = std::env::var("HOLDFAST_SOAK").map_or(0, |minutes| {
        minutes
            .parse()
            .expect("HOLDFAST_SOAK is a number of minutes")
    });
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60 * minutes);
    let mut rng = Rng::from_kernel().expect("random bytes");
    while std::time::Instant::now() < end {
        let (data, parity) = (1 + rng.below(4) as u8, 1 + rng.below(2) as u8);
        look_at(data, parity, rng.next_u64(), 80);
    }
}

#[test]
fn planted_bugs_are_found() {
    let plants = [
        Planted::BelievesTornRecords,
        Planted::ClearsBeforeCommit,
        Planted::KeepsStaleLog,
        Planted::LeavesCopiesUnequal,
        Planted::SyncsOneCopy,
        Planted::GivesUpUnnoted,
        Planted::ForgetsBeforeBases,
    ];
    // What is found is the bug, and nothing else.
    let mut sound = BTreeSet::new();
    for plant in plants {
        let found = (1..=30).find_map(|seed| {
            let look_at = Look {
                samples_per_cut: 3,
                cuts_max: 30,
                ..Look::new(seed)
            };
            let found = look(geometry(2, 1), plant, &look_at).err()?;
            if sound.insert(seed) {
                let without = look(geometry(2, 1), Planted::Nothing, &look_at);
                without.unwrap_or_else(|failure| panic!("without {plant:?}: {failure}"));
            }
            Some(found)
        });
        PLANT.set(Planted::Nothing);
        let failure = found.unwrap_or_else(|| panic!("nobody noticed {plant:?}"));
        println!("{plant:?}: {failure}");
    }
}

fn page(number: u64) -> Vec<u8> {
    random(&mut Rng::new(number), PAGE_BYTES)
}

/// Writes to page 0 of shard 0, and what it may be after a crash behind them.
type Story = fn(&Delayed, &[u8]) -> Vec<Vec<u8>>;

/// Half of a page that is synced, all of it that is not, and a merge.
fn merged_unsynced(delayed: &Delayed, base: &[u8]) -> Vec<Vec<u8>> {
    let write = |bytes: &[u8]| {
        let written = delayed.write(id(STRIPE), Shard(0), 0, bytes);
        written.expect("writes");
    };
    write(&page(1)[..2000]);
    delayed.sync(id(STRIPE), Shard(0)).expect("syncs");
    write(&page(2));
    delayed.merge_stripe(id(STRIPE)).expect("merges");
    let mut half = base[..PAGE_BYTES].to_vec();
    half[..2000].copy_from_slice(&page(1)[..2000]);
    vec![half, page(2)]
}

/// A page that is synced, and so many writes to it that are not that its segment is dead.
fn trimmed_unsynced(delayed: &Delayed, _base: &[u8]) -> Vec<Vec<u8>> {
    for number in 1..40 {
        let written = delayed.write(id(STRIPE), Shard(0), 0, &page(number));
        written.expect("writes");
        if number == 1 {
            delayed.sync(id(STRIPE), Shard(0)).expect("syncs");
        }
    }
    delayed.merge_some(0).expect("frees");
    (1..40).map(page).collect()
}

/// Whether a page is something else than it may be, after a power cut and without a store.
fn is_wrong_after(seed: u64, plant: Planted, story: Story) -> bool {
    PLANT.set(plant);
    let scene = attack::scene(seed, 2, 1);
    let allowed = story(&scene.delayed, &scene.content[0]);
    PLANT.set(Planted::Nothing);
    scene.rig.world.crash();
    let present = scene.rig.stores().without(StoreIndex(2));
    let (_stripes, delayed) = open(&scene.rig, present).expect("opens");
    let mut found = vec![0; PAGE_BYTES];
    let read = delayed.read(id(STRIPE), Shard(0), 0, &mut found);
    read.expect("reads");
    !allowed.contains(&found)
}

#[test]
fn planted_bugs_in_the_order_of_syncs_are_found() {
    let stories: [(Planted, Story); 2] = [
        (Planted::MergesUnsynced, merged_unsynced),
        (Planted::TrimsUnsynced, trimmed_unsynced),
    ];
    for (plant, story) in stories {
        let found = (1..100).find(|seed| {
            assert!(!is_wrong_after(*seed, Planted::Nothing, story), "{seed}");
            is_wrong_after(*seed, plant, story)
        });
        let seed = found.unwrap_or_else(|| panic!("nobody noticed {plant:?}"));
        println!("{plant:?}: seed {seed}");
    }
}
