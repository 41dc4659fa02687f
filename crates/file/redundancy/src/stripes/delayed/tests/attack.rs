//! Damage, loss, misuse and failing stores, without crashes.

use super::*;
use crate::stripes::tests::PAGES;
use env::errno::Errno;
use env::sim::{Effect, Operation, Trouble};

pub(super) struct Scene {
    pub(super) rig: Rig,
    stripes: Arc<Stripes>,
    pub(super) delayed: Delayed,
    pub(super) content: Vec<Vec<u8>>,
    rng: Rng,
}

pub(super) fn scene(seed: u64, data: u8, parity: u8) -> Scene {
    let world = World::new(seed);
    let rig = Rig::new(&world, Geometry::new(data, parity).expect("a geometry"));
    let mut rng = world.rng();
    let content: Vec<Vec<u8>> = (0..data)
        .map(|_| random(&mut rng, CHUNK as usize))
        .collect();
    rig.create(&content);
    let (stripes, delayed) = open(&rig, rig.stores()).expect("opens");
    let prepared = rig.prepare(&stripes, STRIPE).expect("prepares");
    prepared.activate(|_| true).expect("stands");
    Scene {
        rig,
        stripes,
        delayed,
        content,
        rng,
    }
}

impl Scene {
    fn write(&mut self, pages: u64) {
        let data = self.rig.layout.geometry.data();
        let (shard, offset, bytes) = some_write(&mut self.rng, data, pages);
        let written = self.delayed.write(id(STRIPE), shard, offset, &bytes);
        written.expect("writes");
        self.put(shard, offset, &bytes);
    }

    fn put(&mut self, shard: Shard, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        self.content[usize::from(shard.0)][at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn check(&self, when: &str) {
        let found = read(&self.rig, &self.delayed).expect("reads");
        assert!(found == self.content, "{when}");
    }

    /// Ends the process as kill -9 does: what the page cache has stays.
    fn reopen(self, present: StoreMask) -> Scene {
        let Scene {
            rig,
            stripes,
            delayed,
            content,
            rng,
        } = self;
        drop((stripes, delayed));
        let (stripes, delayed) = open(&rig, present).expect("opens");
        Scene {
            rig,
            stripes,
            delayed,
            content,
            rng,
        }
    }
}

#[test]
fn what_was_written_is_read_through_merges_and_a_killed_process() {
    for seed in 1..6 {
        let mut scene = scene(seed, 2, 1);
        for step in 0..200 {
            scene.write(u64::from(PAGES));
            match step % 20 {
                7 => {
                    scene.delayed.merge_some(5).expect("merges");
                }
                13 => {
                    let all = scene.rig.stores();
                    scene = scene.reopen(all);
                }
                19 => {
                    scene.delayed.close().expect("closes");
                }
                _ => {}
            }
            scene.check(&format!("seed {seed}, step {step}"));
        }
        let before = scene.delayed.status().pages;
        let report = scene.delayed.merge_stripe(id(STRIPE)).expect("merges");
        assert_eq!((report.merged, report.again), (before, 0));
        assert_eq!(scene.delayed.status().pages, 0);
        scene.check("after all is merged");
        let report = scene.stripes.scrub(id(STRIPE), false).expect("scrubs");
        assert_eq!((report.lost, report.contradictions), (0, 0));
        let logs = scene.delayed.status().logs;
        assert!(logs.values().all(|(_, live)| *live == 0), "{logs:?}");
    }
}

#[test]
fn reads_of_any_part_are_the_bytes_of_that_part() {
    let mut scene = scene(3, 2, 1);
    for _ in 0..40 {
        scene.write(u64::from(PAGES));
    }
    for _ in 0..300 {
        let shard = scene.rng.below(2) as u8;
        let offset = scene.rng.below(CHUNK);
        let length = scene.rng.below((CHUNK - offset + 1).min(20_000)) as usize;
        let mut bytes = vec![0; length];
        let read = scene
            .delayed
            .read(id(STRIPE), Shard(shard), offset, &mut bytes);
        read.expect("reads");
        let at = offset as usize;
        assert!(bytes == scene.content[usize::from(shard)][at..at + length]);
    }
}

#[test]
fn writes_to_the_same_pages_are_merged_once_and_leave_no_long_log() {
    let mut scene = scene(4, 2, 1);
    for _ in 0..2000 {
        let bytes = random(&mut scene.rng, PAGE_BYTES);
        let page = scene.rng.below(3) * PAGE_BYTES as u64;
        let written = scene.delayed.write(id(STRIPE), Shard(0), page, &bytes);
        written.expect("writes");
        scene.put(Shard(0), page, &bytes);
        let report = scene.delayed.merge_some(64).expect("frees");
        assert_eq!(report.merged, 0);
    }
    let status = scene.delayed.status();
    assert_eq!(status.pages, 3);
    let segment = u64::from(options().segment_bytes);
    for (bytes, live) in status.logs.values() {
        assert!(*bytes <= 2 * live + 5 * segment, "{status:?}");
    }
    scene.check("after many writes");
    let report = scene.delayed.merge_stripe(id(STRIPE)).expect("merges");
    assert_eq!((report.merged, report.merges), (3, 1));
}

#[test]
fn a_page_that_is_written_seldom_does_not_hold_a_log_of_hot_ones() {
    let mut scene = scene(5, 2, 1);
    let cold = random(&mut scene.rng, PAGE_BYTES);
    let written = scene.delayed.write(id(STRIPE), Shard(1), 0, &cold);
    written.expect("writes");
    scene.put(Shard(1), 0, &cold);
    let mut moved = 0;
    for _ in 0..500 {
        let bytes = random(&mut scene.rng, PAGE_BYTES);
        let written = scene.delayed.write(id(STRIPE), Shard(0), 0, &bytes);
        written.expect("writes");
        scene.put(Shard(0), 0, &bytes);
        let report = scene.delayed.merge_some(64).expect("frees");
        moved += report.moved;
    }
    assert!(moved > 0);
    let segment = u64::from(options().segment_bytes);
    let status = scene.delayed.status();
    for (bytes, live) in status.logs.values() {
        assert!(*bytes <= 2 * live + 5 * segment, "{status:?}");
    }
    scene.check("after many writes");
}

#[test]
fn merges_begin_above_the_limit_with_the_oldest_and_stop_at_the_low_mark() {
    let scene = scene(6, 2, 1);
    let page = |number: u64| vec![number as u8; PAGE_BYTES];
    let write = |number: u64| {
        let at = number * PAGE_BYTES as u64;
        let written = scene.delayed.write(id(STRIPE), Shard(0), at, &page(number));
        written.expect("writes");
    };
    (0..8).for_each(write);
    let report = scene.delayed.merge_some(100).expect("merges");
    assert_eq!((report.merged, scene.delayed.status().pages), (0, 8));
    write(0);
    write(8);
    let report = scene.delayed.merge_some(4).expect("merges");
    assert_eq!((report.merged, scene.delayed.status().pages), (4, 5));
    let report = scene.delayed.merge_some(4).expect("merges");
    assert_eq!((report.merged, scene.delayed.status().pages), (2, 3));
    // Page 0 was written again, so 1 to 6 were the oldest.
    let mut base = vec![0; PAGE_BYTES];
    for number in 1..7 {
        let at = number * PAGE_BYTES as u64;
        let read = scene.stripes.read(id(STRIPE), Shard(0), at, &mut base);
        read.expect("reads");
        assert!(base == page(number), "page {number}");
    }
    let read = scene.stripes.read(id(STRIPE), Shard(0), 0, &mut base);
    read.expect("reads");
    assert!(base != page(0));
}

/// All bytes of all logs.
fn log_files(world: &World, stores: u8) -> Vec<(String, String, u64)> {
    let mut files = Vec::new();
    for store in 0..stores {
        let name = format!("differential{store}");
        let dir = world.dir(&name);
        for file in dir.list().expect("lists") {
            let length = dir.read(&file).expect("reads").len() as u64;
            files.push((name.clone(), file, length));
        }
    }
    files
}

#[test]
fn no_flipped_bit_of_a_log_gives_a_wrong_byte() {
    for seed in 0..80 {
        let mut scene = scene(100 + seed, 2, 1);
        for _ in 0..25 {
            scene.write(6);
        }
        let shards = [Shard(0), Shard(1)];
        for shard in shards {
            scene.delayed.sync(id(STRIPE), shard).expect("syncs");
        }
        scene.delayed.close().expect("closes");
        let files = log_files(&scene.rig.world, 3);
        let (dir, file, length) = &files[scene.rng.index(files.len())];
        let (at, bit) = (scene.rng.below(*length), scene.rng.below(8) as u8);
        assert!(scene.rig.world.rot(dir, file, at, bit));
        scene.check("while it runs");
        let all = scene.rig.stores();
        let mut scene = scene.reopen(all);
        scene.check(&format!("seed {seed}: {dir}/{file} {at}"));
        // With one more store lost there may be an error, never a wrong byte.
        let lost = StoreIndex(scene.rng.below(3) as u8);
        assert!(scene.rig.world.rot(dir, file, at, bit ^ 1));
        let Scene {
            rig,
            stripes,
            delayed,
            content,
            ..
        } = scene;
        drop((stripes, delayed));
        let Ok((_stripes, delayed)) = open(&rig, all.without(lost)) else {
            continue;
        };
        for (shard, content) in content.iter().enumerate() {
            for (page, expected) in content.chunks(PAGE_BYTES).enumerate() {
                let mut bytes = vec![0; PAGE_BYTES];
                let at = (page * PAGE_BYTES) as u64;
                let read = delayed.read(id(STRIPE), Shard(shard as u8), at, &mut bytes);
                assert!(read.is_err() || bytes == expected, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_damaged_log_is_made_anew_from_the_others_or_named() {
    let mut scene = scene(9, 2, 1);
    for _ in 0..10 {
        scene.write(6);
    }
    scene.delayed.close().expect("closes");
    // The head of the first record of the store with parity.
    let file = record::name(1);
    let at = u64::from(record::SEGMENT_HEADER_BYTES) + 9;
    assert!(scene.rig.world.rot("differential2", &file, at, 3));
    let Scene {
        rig,
        stripes,
        delayed,
        content,
        ..
    } = scene;
    drop((stripes, delayed));
    let error = open(&rig, rig.stores().without(StoreIndex(0))).expect_err("nobody has the rest");
    assert!(
        error.contains("store 2: its log of differentials is damaged"),
        "{error}"
    );
    let (stripes, _) = rig.open(rig.stores()).expect("opens");
    let sites = rig.stores();
    let sites = sites.iter().map(|store| log_site(&rig.world, store));
    let (delayed, found) = Delayed::open(Arc::new(stripes), sites, options()).expect("opens");
    assert_eq!((found.renewed, found.lost), (vec![StoreIndex(2)], 0));
    delayed.leave(StoreIndex(0));
    delayed.leave(StoreIndex(1));
    assert!(read(&rig, &delayed).expect("reads") == content);
}

#[test]
fn a_page_that_no_copy_has_is_an_error_and_the_others_are_not_concerned() {
    let mut scene = scene(10, 2, 1);
    let page = random(&mut scene.rng, PAGE_BYTES);
    for at in [0, PAGE_BYTES as u64] {
        let written = scene.delayed.write(id(STRIPE), Shard(0), at, &page);
        written.expect("writes");
    }
    let file = record::name(1);
    let at = u64::from(record::SEGMENT_HEADER_BYTES) + 500;
    for dir in ["differential0", "differential2"] {
        assert!(scene.rig.world.rot(dir, &file, at, 3));
    }
    let mut bytes = vec![0; PAGE_BYTES];
    let error = scene.delayed.read(id(STRIPE), Shard(0), 0, &mut bytes);
    let error = error.expect_err("both are damaged");
    assert!(
        matches!(error, StripeError::Lost { page: 0, .. }),
        "{error}"
    );
    let at = PAGE_BYTES as u64;
    let read = scene.delayed.read(id(STRIPE), Shard(0), at, &mut bytes);
    read.expect("reads");
    assert!(bytes == page);
    // Nothing is merged that cannot be read; a write of the whole page mends it.
    let report = scene.delayed.merge_stripe(id(STRIPE)).expect("goes on");
    assert_eq!((report.merged, report.stuck), (0, vec![id(STRIPE)]));
    let written = scene.delayed.write(id(STRIPE), Shard(0), 0, &page);
    written.expect("writes");
    let report = scene.delayed.merge_stripe(id(STRIPE)).expect("merges");
    assert_eq!(report.merged, 2);
}

#[test]
fn a_store_that_fails_a_write_or_a_sync_is_named_and_the_others_have_it() {
    for operation in [Operation::Write, Operation::Sync] {
        let mut scene = scene(11, 2, 1);
        scene.write(6);
        let before = scene.content.clone();
        scene
            .rig
            .world
            .plan(Trouble::new(operation, Effect::Fail(Errno::IO)).within("differential2"));
        let bytes = random(&mut scene.rng, PAGE_BYTES);
        let written = scene.delayed.write(id(STRIPE), Shard(0), 0, &bytes);
        let done = written.and_then(|()| scene.delayed.sync(id(STRIPE), Shard(0)));
        let error = done.expect_err("the store fails");
        assert_eq!(error.failed(), Some(StoreIndex(2)), "{error}");
        leave(&scene.stripes, &scene.delayed, StoreIndex(2));
        let again = scene.delayed.write(id(STRIPE), Shard(0), 0, &bytes);
        again.expect("the others take it");
        scene.delayed.sync(id(STRIPE), Shard(0)).expect("syncs");
        scene.content = before;
        scene.put(Shard(0), 0, &bytes);
        scene.check("without it");
        join(&scene.rig, &scene.stripes, &scene.delayed, StoreIndex(2)).expect("joins");
        leave(&scene.stripes, &scene.delayed, StoreIndex(0));
        scene.check("from the one that came back");
    }
}

#[test]
fn a_full_store_that_nobody_told_to_leave_brings_no_older_bytes_back() {
    let mut scene = scene(15, 2, 1);
    let page = |seed| random(&mut Rng::new(seed), PAGE_BYTES);
    let written = scene.delayed.write(id(STRIPE), Shard(0), 0, &page(1));
    written.expect("writes");
    scene.delayed.sync(id(STRIPE), Shard(0)).expect("syncs");
    let full = Trouble::new(Operation::Write, Effect::Fail(Errno::NOSPC));
    scene.rig.world.plan(full.within("differential2"));
    let written = scene.delayed.write(id(STRIPE), Shard(0), 0, &page(2));
    assert_eq!(
        written.expect_err("store 2 is full").failed(),
        Some(StoreIndex(2))
    );
    scene.put(Shard(0), 0, &page(2));
    scene.check("the other copy has it");
    let report = scene.delayed.merge_stripe(id(STRIPE)).expect("waits");
    assert_eq!((report.merged, report.waiting), (0, 1));
    let all = scene.rig.stores();
    let scene = scene.reopen(all);
    scene.check("after a start with the store that lacks it");
    scene.delayed.leave(StoreIndex(0));
    scene.check("from the copy that was mended");
    assert_eq!(scene.delayed.status().pages, 1);
}

#[test]
fn what_a_stripe_that_was_given_up_left_is_named_until_it_is_forgotten() {
    let mut scene = scene(12, 2, 1);
    for _ in 0..10 {
        scene.write(6);
    }
    scene.stripes.remove(&[id(STRIPE)]).expect("removes");
    let all = scene.rig.stores();
    for round in 0..2 {
        let sites = all.iter().map(|store| log_site(&scene.rig.world, store));
        drop((scene.stripes, scene.delayed));
        let (stripes, _) = scene.rig.open(all).expect("opens");
        let stripes = Arc::new(stripes);
        let (delayed, found) = Delayed::open(stripes.clone(), sites, options()).expect("opens");
        let expected = if round == 0 { vec![id(STRIPE)] } else { vec![] };
        assert_eq!(found.unknown, expected);
        delayed.merge_some(10).expect("keeps it");
        delayed.forget(&[id(STRIPE)]).expect("forgets");
        (scene.stripes, scene.delayed) = (stripes, delayed);
    }
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let scene = scene(13, 2, 1);
    let write = |stripe, shard, at, length| {
        let bytes = vec![0; length];
        scene.delayed.write(id(stripe), Shard(shard), at, &bytes)
    };
    assert!(matches!(write(8, 0, 0, 1), Err(StripeError::NoStripe(_))));
    assert!(matches!(
        write(STRIPE, 2, 0, 1),
        Err(StripeError::Misuse(_))
    ));
    assert!(matches!(
        write(STRIPE, 9, 0, 1),
        Err(StripeError::Misuse(_))
    ));
    assert!(matches!(
        write(STRIPE, 0, CHUNK, 1),
        Err(StripeError::Misuse(_))
    ));
    assert!(matches!(
        write(STRIPE, 0, u64::MAX, 2),
        Err(StripeError::Misuse(_))
    ));
    write(STRIPE, 0, CHUNK, 0).expect("nothing is written");
    let sites = scene.rig.stores();
    for store in sites.iter() {
        leave(&scene.stripes, &scene.delayed, store);
    }
    assert!(matches!(
        write(STRIPE, 0, 0, 1),
        Err(StripeError::NotWritten { .. })
    ));
}

#[test]
fn the_other_methods_write_the_same_bytes() {
    for method in [Method::Naive, Method::ParityLogging] {
        let mut scene = scene(14, 2, 1);
        let all = scene.rig.stores();
        let sites = all.iter().map(|store| log_site(&scene.rig.world, store));
        let options = Options {
            method,
            ..options()
        };
        let (delayed, _) = Delayed::open(scene.stripes.clone(), sites, options).expect("opens");
        scene.delayed = delayed;
        for _ in 0..30 {
            scene.write(6);
        }
        scene.check("as written");
        scene.delayed.settle_parity_log().expect("settles");
        scene.check("with its parity");
        let report = scene.stripes.scrub(id(STRIPE), false).expect("scrubs");
        assert_eq!((report.lost, report.contradictions), (0, 0), "{method:?}");
        scene.stripes.leave(StoreIndex(0));
        scene.check("from parity");
    }
}
