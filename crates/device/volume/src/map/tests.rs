use super::*;

const DISK: ObjectId = ObjectId(1);

fn at(place: u32) -> Mapped {
    Mapped::At(Place(place))
}

#[test]
fn blocks_are_counted_whatever_happens_to_them() {
    let mut map = Map::default();
    let mut gone = 0;
    map.set(DISK, BlockIndex(500), 30, at(100), &mut |_, count| {
        gone += count
    });
    map.set(DISK, BlockIndex(510), 4, at(900), &mut |_, count| {
        gone += count
    });
    assert_eq!((map.mapped_blocks(), gone), (30, 4));
    map.set(DISK, BlockIndex(0), 505, Mapped::Hole, &mut |_, count| {
        gone += count
    });
    assert_eq!((map.mapped_blocks(), gone), (25, 9));
    map.grow(DISK, 5000);
    map.resize(DISK, 515 * 4096, &mut |_, count| gone += count);
    assert_eq!((map.mapped_blocks(), gone), (10, 24));
    assert_eq!(map.count_mapped(DISK, BlockIndex(0), 2000), 10);
    map.remove(DISK, &mut |_, count| gone += count);
    assert_eq!((map.mapped_blocks(), map.encoded_bytes(), gone), (0, 0, 34));
}

#[test]
fn a_block_that_was_written_meanwhile_is_not_exchanged() {
    let mut map = Map::default();
    map.set(DISK, BlockIndex(0), 10, at(100), &mut |_, _| {});
    map.set(DISK, BlockIndex(3), 2, at(50), &mut |_, _| {});
    map.set(DISK, BlockIndex(7), 1, Mapped::Hole, &mut |_, _| {});
    let moved = map.exchange(DISK, BlockIndex(0), 10, Place(100), at(200), &mut |_, _| {});
    assert_eq!(moved, [(0, 3), (5, 2), (8, 2)]);
    assert_eq!(map.find(DISK, BlockIndex(0), 10), (at(200), 3));
    assert_eq!(map.find(DISK, BlockIndex(3), 10), (at(50), 2));
    assert_eq!(map.find(DISK, BlockIndex(5), 10), (at(205), 2));
    assert_eq!(map.find(DISK, BlockIndex(7), 10), (Mapped::Hole, 1));
    assert_eq!(map.find(DISK, BlockIndex(8), 10), (at(208), 2));
}

#[test]
fn the_encoded_size_is_that_of_what_the_walk_shows() {
    let mut map = Map::default();
    for step in 0..5000u32 {
        let block = BlockIndex(step.wrapping_mul(2_654_435_761) % 4000);
        map.set(
            ObjectId((step % 3).into()),
            block,
            1 + step % 5,
            at(step * 8),
            &mut |_, _| {},
        );
        if step % 11 == 0 {
            map.set(ObjectId(2), block, 300, Mapped::Hole, &mut |_, _| {});
        }
    }
    let mut shown = 0;
    let mut position = Some((ObjectId(0), None));
    let mut turns = 0;
    while let Some(from) = position {
        let mut left = 3;
        position = map.walk(from, &mut |_, _, leaf| {
            left -= 1;
            if left < 0 {
                return false;
            }
            shown += match leaf {
                None => OBJECT_ENCODED_BYTES,
                Some((_, leaf)) => leaf.encoded_bytes() + LEAF_HEAD_BYTES,
            };
            true
        });
        turns += 1;
    }
    assert!(turns > 3);
    assert_eq!(shown, map.encoded_bytes());
    let live: u64 = map.places().map(|(.., count, _)| u64::from(count)).sum();
    assert_eq!(live, map.mapped_blocks());
}

#[test]
fn memory_is_at_most_8_bytes_for_a_block_in_any_order_and_next_to_none_in_order() {
    let blocks = 200_000u32;
    let mut map = Map::default();
    for step in 0..blocks {
        // Every block once, far from the one before: 2^31 - 1 is prime.
        let block = BlockIndex((u64::from(step) * 1_999_999_973 % u64::from(blocks)) as u32);
        map.set(DISK, block, 1, at(step), &mut |_, _| {});
        if step % 1000 == 999 || step < 100 {
            let leaves = (blocks / LEAF_BLOCKS + 1).min(step + 1) as usize;
            let most = 8 * map.mapped_blocks() as usize + leaves * 128 + 256;
            assert!(
                map.memory_bytes() <= most,
                "{} at {step}",
                map.memory_bytes()
            );
        }
    }
    assert_eq!(map.mapped_blocks(), u64::from(blocks));
    let each = map.memory_bytes() as f64 / f64::from(blocks);
    assert!(each < 4.5, "{each} bytes a block, all written");
    map.set(DISK, BlockIndex(0), blocks, at(0), &mut |_, _| {});
    let each = map.memory_bytes() as f64 / f64::from(blocks);
    assert!(each < 0.3, "{each} bytes a block, in order");
}
