//! Damage, loss and misuse, without crashes.

use super::*;
use env::Rng;
use env::errno::Errno;
use env::sim::{Effect, Operation, Trouble};

fn rig(seed: u64, data: u8, parity: u8) -> (Rig, Content, Rng) {
    let world = World::new(seed);
    let rig = Rig::new(&world, Geometry::new(data, parity).expect("a geometry"));
    let mut rng = world.rng();
    let content = Content::new(&mut rng, data);
    rig.create(&content.0);
    (rig, content, rng)
}

fn standing(rig: &Rig) -> Stripes {
    let (stripes, _) = rig.open(rig.stores()).expect("opens");
    rig.prepare(&stripes, 7)
        .expect("prepares")
        .activate(|_| true)
        .expect("stands");
    stripes
}

#[test]
fn any_lost_shards_are_computed_as_many_as_may_be_lost() {
    for (data, parity) in [(2, 1), (4, 2), (1, 2)] {
        let (rig, content, _) = rig(3, data, parity);
        let stripes = standing(&rig);
        drop(stripes);
        let all = data + parity;
        for lost in 0..1u64 << all {
            let lost = StoreMask(lost);
            let (stripes, _) = rig.open(rig.stores().minus(lost)).expect("opens");
            let read = read_all(&stripes, 7, data, true);
            let lost_data = rig.data().any(|shard| lost.has(StoreIndex(shard.0)));
            let count = lost.iter().count();
            if count <= usize::from(parity) || (!lost_data && count < usize::from(all)) {
                assert!(
                    read.expect("enough") == content,
                    "{data}+{parity} without {lost:?}"
                );
            } else {
                assert!(read.is_err(), "{data}+{parity} without {lost:?}");
            }
        }
    }
}

#[test]
fn no_flipped_bit_gives_a_wrong_byte_and_a_scrub_mends_it() {
    let (rig, content, mut rng) = rig(5, 2, 2);
    let stripes = standing(&rig);
    for _ in 0..200 {
        let store = StoreIndex(rng.below(4) as u8);
        let (place, file, length) = if store.0 < 2 && rng.chance(1, 2) {
            ("base", "file".to_owned(), BASE_AT + CHUNK)
        } else {
            let file = shard::name(id(7), Shard(store.0));
            let parity = if store.0 >= 2 { CHUNK } else { 0 };
            (
                "shards",
                file,
                shard::Form::default().data_offset(&rig.layout) + parity,
            )
        };
        // The header is of no account to a stripe that stands.
        let first = if place == "base" {
            BASE_AT
        } else {
            shard::Form::default().sums_offset(&rig.layout)
        };
        let at = first + rng.below(length - first);
        let (name, bit) = (format!("{place}{}", store.0), rng.below(8) as u8);
        assert!(rig.world.rot(&name, &file, at, bit));
        assert!(read_all(&stripes, 7, 2, true).expect("reads") == content);
        assert!(read_all(&stripes, 7, 2, false).expect("decodes") == content);
        let before = stripes.scrub(id(7), false).expect("scrubs");
        let mended = stripes.scrub(id(7), true).expect("scrubs");
        assert_eq!(
            (mended.mended, mended.lost),
            (before.lost, 0),
            "{name} {at}"
        );
        let after = stripes.scrub(id(7), false).expect("scrubs");
        assert_eq!((after.lost, after.contradictions), (0, 0));
    }
}

#[test]
fn checksums_that_nobody_looks_at_are_found() {
    let (rig, content, _) = rig(5, 2, 1);
    let stripes = standing(&rig);
    *stripes.planted.lock() = Planted::BelievesEveryPage;
    assert!(rig.world.rot("base0", "file", BASE_AT + 5, 1));
    assert!(read_all(&stripes, 7, 2, true).expect("reads") != content);
}

#[test]
fn what_is_damaged_twice_is_an_error() {
    let (rig, _, _) = rig(6, 2, 1);
    let stripes = standing(&rig);
    for store in ["base0", "base1"] {
        assert!(rig.world.rot(store, "file", BASE_AT + 9, 0));
    }
    let mut page = vec![0; PAGE_BYTES];
    let read = stripes.read(id(7), Shard(0), 0, &mut page);
    let error = read.expect_err("two of three are wrong");
    assert!(
        matches!(
            error,
            StripeError::TooFew {
                right: 1,
                needed: 2,
                ..
            }
        ),
        "{error}"
    );
    // The pages behind it are not concerned.
    stripes
        .read(id(7), Shard(0), PAGE_BYTES as u64, &mut page)
        .expect("reads");
    let merged = stripes.merge(
        id(7),
        &[PageWrite {
            shard: Shard(0),
            page: 0,
            bytes: &page,
        }],
    );
    assert!(matches!(merged, Err(StripeError::Rotten { page: 0, .. })));
}

#[test]
fn a_merge_whose_store_fails_is_decided_by_the_others() {
    for seed in 0..60 {
        let (rig, content, mut rng) = rig(seed, 2, 2);
        let stripes = standing(&rig);
        let store = rng.below(4);
        let place = ["journal", "shards", "base"][rng.index(3)];
        let after = rng.below(4);
        for operation in [Operation::Write, Operation::Sync, Operation::Open] {
            let fails = Trouble::new(operation, Effect::Fail(Errno::IO));
            let fails = fails.within(&format!("{place}{store}"));
            rig.world.plan(fails.after(after).times(u64::MAX));
        }
        let (next, pages) = content.change(&mut rng);
        let merged = stripes.merge(id(7), &writes(&pages));
        rig.world.calm();
        // The store that failed is fenced.
        stripes.leave(StoreIndex(store as u8));
        let read = read_all(&stripes, 7, 2, true).expect("two of four may be lost");
        match merged {
            Ok(()) => assert!(read == next, "seed {seed}"),
            Err(error) => assert!(read == content || read == next, "seed {seed}: {error}"),
        }
        let (site, notes) = rig.site(StoreIndex(store as u8)).expect("opens");
        stripes.join(site, notes).expect("joins");
        assert!(
            read_all(&stripes, 7, 2, false).expect("decodes") == read,
            "seed {seed}"
        );
        let report = stripes.scrub(id(7), false).expect("scrubs");
        assert_eq!((report.lost, report.contradictions), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_stripe_given_up_while_a_store_was_away_does_not_come_back() {
    let (rig, _, _) = rig(8, 2, 1);
    drop(standing(&rig));
    let away = StoreIndex(2);
    let (stripes, _) = rig
        .open(rig.stores().minus(StoreMask::only(away)))
        .expect("opens");
    stripes.remove(&[id(7)]).expect("removes");
    let (site, notes) = rig.site(away).expect("opens");
    assert_eq!(stripes.join(site, notes).expect("joins").unmade, 1);
    drop(stripes);
    let (stripes, report) = rig.open(rig.stores()).expect("opens");
    assert_eq!((stripes.all().len(), report), (0, Recovered::default()));
}

#[test]
fn a_lost_parity_shard_is_made_anew() {
    let (rig, content, _) = rig(9, 2, 1);
    let stripes = standing(&rig);
    let file = shard::name(id(7), Shard(2));
    dir(&rig.world, "shards", StoreIndex(2))
        .remove(&file)
        .expect("it was there");
    assert!(
        stripes
            .reconstruct(id(7), Shard(0), 0, &mut [0; 8])
            .is_err()
    );
    stripes.rebuild_parity(id(7), Shard(2)).expect("rebuilds");
    assert!(read_all(&stripes, 7, 2, false).expect("decodes") == content);
    assert_eq!(stripes.scrub(id(7), false).expect("scrubs").lost, 0);
}

#[test]
fn layouts_that_make_no_sense_are_refused() {
    let (rig, _, _) = rig(10, 2, 1);
    let (stripes, _) = rig.open(rig.stores()).expect("opens");
    let twice = |mut layout: Layout| {
        layout.slots[2] = Slot::Parity {
            store: StoreIndex(0),
        };
        layout
    };
    let swapped = |mut layout: Layout| {
        layout.slots.swap(0, 2);
        layout
    };
    let short = |mut layout: Layout| {
        layout.slots.pop();
        layout
    };
    let empty = |mut layout: Layout| {
        layout.slots[0] = Slot::Vacant;
        layout.slots[1] = Slot::Vacant;
        layout
    };
    for layout in [
        twice(rig.layout.clone()),
        swapped(rig.layout.clone()),
        short(rig.layout.clone()),
        empty(rig.layout.clone()),
    ] {
        let bases = Vec::new();
        let prepared = stripes.prepare([Draft {
            id: id(1),
            layout,
            bases,
        }]);
        assert!(matches!(prepared, Err(StripeError::Misuse(_))));
    }
    assert_eq!(
        dir(&rig.world, "shards", StoreIndex(0))
            .list()
            .expect("lists"),
        [""; 0]
    );
}
