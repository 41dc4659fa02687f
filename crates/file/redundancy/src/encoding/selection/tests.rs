use super::*;
use crate::encoding::{ChunkBytes, ChunkIndex};
use crate::label::ObjectId;
use proptest::prelude::*;
use std::collections::HashMap;

mod rules;

const MIB: u64 = 1 << 20;

fn share(fraction: f64) -> Share {
    Share::new(fraction).expect("in range")
}

fn limits(load: f64, encoded: f64) -> Limits {
    Limits {
        load: share(load),
        encoded: share(encoded),
    }
}

fn stripe(number: u64) -> StripeId {
    StripeId(NonZeroU64::new(number).expect("not 0"))
}

fn chunk(number: u32) -> ChunkId {
    ChunkId {
        object: ObjectId(7),
        index: ChunkIndex(number),
    }
}

/// Chunks of 1 MiB, numbered as they come: home, load, stripe (0 for none).
fn list(chunks: &[(u8, u64, u64)]) -> ChunkList {
    let entries: Vec<Entry> = (0..)
        .zip(chunks)
        .map(|(number, (home, load, stripe))| {
            let stripe = NonZeroU64::new(*stripe).map(StripeId);
            Entry::new(chunk(number), StoreIndex(*home), Load(*load), stripe)
        })
        .collect();
    ChunkList {
        chunk: ChunkBytes::new(MIB).expect("a chunk size"),
        bytes_total: MIB * entries.len() as u64,
        load_total: entries.iter().map(|entry| u128::from(entry.load.0)).sum(),
        entries,
    }
}

/// 2+1 beside two copies on three stores.
fn three_stores() -> Geometry {
    Geometry::new(2, 1, 2, 3).expect("a geometry")
}

fn plan(list: ChunkList, stripes: &[(u64, u64)], limits: Limits) -> Vec<String> {
    let stripes = stripes
        .iter()
        .map(|(id, parity)| (stripe(*id), StoreMask(*parity)))
        .collect();
    let present = StoreMask::first(3);
    Plan::new(list, &stripes, three_stores(), present, limits)
        .map(|decision| words(&decision))
        .collect()
}

fn words(decision: &Decision) -> String {
    let name = |member: &Member| format!("{}@{}", member.chunk.index.0, member.home.0);
    match decision {
        Decision::Encode { members, parity } => {
            let members: Vec<String> = members.iter().map(name).collect();
            format!("encode {} parity {:b}", members.join(" "), parity.0)
        }
        Decision::Swap {
            stripe,
            leaves,
            joins,
        } => format!("swap in {}: {} for {}", stripe.0, name(leaves), name(joins)),
        Decision::Fill { stripe, joins } => format!("fill {} with {}", stripe.0, name(joins)),
        Decision::Return { stripe, leaves } => format!("return {} from {}", name(leaves), stripe.0),
    }
}

#[test]
fn the_coldest_chunks_of_different_homes_are_encoded_first() {
    let chunks = [
        (0, 5, 0),
        (0, 1, 0),
        (1, 2, 0),
        (1, 9, 0),
        (2, 3, 0),
        (2, 8, 0),
    ];
    let decisions = plan(list(&chunks), &[], limits(1.0, 0.7));
    // 1@0 and 2@1 have the least load, then 4@2 and 0@0; four of six chunks are 0.67.
    assert_eq!(
        decisions,
        ["encode 1@0 2@1 parity 100", "encode 4@2 0@0 parity 10"]
    );
}

#[test]
fn two_chunks_of_one_home_never_share_a_stripe() {
    let chunks = [(0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 99, 0)];
    let decisions = plan(list(&chunks), &[], limits(1.0, 1.0));
    assert_eq!(decisions, ["encode 0@0 3@1 parity 100"]);
}

#[test]
fn encoding_stops_before_the_load_limit_is_reached() {
    // Total 100; a pair of 2 and 3 has 5, the next pair 5 + 4 + 1 = 10 of 100.
    let chunks = [(0, 2, 0), (1, 3, 0), (0, 4, 0), (1, 1, 0), (2, 90, 0)];
    let at_limit = plan(list(&chunks), &[], limits(0.1, 1.0));
    assert_eq!(
        at_limit,
        ["encode 3@1 0@0 parity 100"],
        "10 of 100 reaches 0.1"
    );
    let above = plan(list(&chunks), &[], limits(0.100001, 1.0));
    assert_eq!(above.len(), 2);
}

#[test]
fn without_any_load_everything_may_be_encoded_but_for_r() {
    let chunks = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 0, 0)];
    assert_eq!(plan(list(&chunks), &[], limits(0.0, 1.0)).len(), 2);
    assert_eq!(plan(list(&chunks), &[], limits(0.0, 0.99)).len(), 1);
    assert!(plan(list(&chunks), &[], limits(1.0, 0.0)).is_empty());
}

#[test]
fn a_load_limit_of_0_encodes_what_was_not_touched() {
    let chunks = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)];
    let decisions = plan(list(&chunks), &[], limits(0.0, 1.0));
    assert_eq!(decisions, ["encode 0@0 1@1 parity 100"]);
}

#[test]
fn a_warmed_chunk_is_swapped_with_the_coldest_of_its_home() {
    let chunks = [(0, 50, 1), (1, 0, 1), (0, 3, 0), (0, 2, 0), (2, 0, 0)];
    let decisions = plan(list(&chunks), &[(1, 0b100)], limits(1.0, 0.4));
    assert_eq!(decisions, ["swap in 1: 0@0 for 3@0"]);
}

#[test]
fn equally_warm_chunks_are_not_swapped() {
    let chunks = [(0, 5, 1), (1, 5, 1), (0, 5, 0), (1, 5, 0)];
    assert!(plan(list(&chunks), &[(1, 0b100)], limits(1.0, 0.5)).is_empty());
}

#[test]
fn above_the_load_limit_the_warmest_returns_and_its_stripe_is_given_up_when_it_frees_nothing() {
    let chunks = [(0, 50, 1), (1, 1, 1), (2, 49, 0)];
    let decisions = plan(list(&chunks), &[(1, 0b100)], limits(0.1, 1.0));
    // A stripe of one chunk and one parity takes as much as two copies.
    assert_eq!(decisions, ["return 0@0 from 1", "return 1@1 from 1"]);
}

#[test]
fn a_lower_target_rate_returns_the_warmest() {
    let chunks = [(0, 5, 1), (1, 4, 1), (0, 1, 2), (1, 2, 2)];
    let decisions = plan(list(&chunks), &[(1, 0b100), (2, 0b100)], limits(1.0, 0.5));
    assert_eq!(decisions, ["return 0@0 from 1", "return 1@1 from 1"]);
}

#[test]
fn a_place_that_a_deleted_chunk_left_is_filled_by_the_coldest_that_fits() {
    // Stripe 1 has lost a member; 3@0 would share a store with the other one, 2@2 with parity.
    let chunks = [(0, 0, 1), (1, 4, 0), (2, 1, 0), (0, 0, 0), (1, 9, 0)];
    let decisions = plan(list(&chunks), &[(1, 0b100)], limits(1.0, 0.5));
    assert_eq!(decisions, ["fill 1 with 1@1"]);
}

#[test]
fn parity_goes_to_the_stores_with_least_of_it() {
    let geometry = Geometry::new(2, 1, 2, 5).unwrap();
    let chunks = [
        (0, 0, 0),
        (1, 0, 0),
        (0, 0, 0),
        (1, 0, 0),
        (0, 0, 0),
        (1, 0, 0),
    ];
    let present = StoreMask::first(5);
    let decisions: Vec<String> = Plan::new(
        list(&chunks),
        &BTreeMap::new(),
        geometry,
        present,
        limits(1.0, 1.0),
    )
    .map(|decision| words(&decision))
    .collect();
    assert_eq!(
        decisions,
        [
            "encode 0@0 1@1 parity 100",
            "encode 2@0 3@1 parity 1000",
            "encode 4@0 5@1 parity 10000"
        ]
    );
}

#[test]
fn what_is_on_an_absent_store_is_counted_and_left_alone() {
    let chunks = [(0, 50, 1), (1, 0, 1), (0, 0, 0), (1, 0, 0), (2, 0, 0)];
    let stripes = BTreeMap::from([(stripe(1), StoreMask(0b100))]);
    let plan = |present| {
        let list = list(&chunks);
        Plan::new(
            list,
            &stripes,
            three_stores(),
            StoreMask(present),
            limits(1.0, 1.0),
        )
    };
    assert_eq!(plan(0b111).count(), 2, "a swap and a stripe");
    // With store 2 away its chunk cannot be encoded, the stripe's parity cannot be reached, and
    // no third store is left for new parity.
    let mut degraded = plan(0b011);
    assert_eq!(degraded.encoded_share(), 0.4);
    assert_eq!(degraded.load_share(), 1.0);
    assert_eq!(degraded.next(), None);
}
