use super::*;

const CHUNK: u64 = CHUNK_BYTES;
const REGION: u64 = REGION_BYTES;

fn id(number: u64) -> ObjectId {
    ObjectId(number)
}

fn of(offset: u64, length: u64) -> Vec<(u32, u8)> {
    regions(offset, length).collect()
}

fn set(entries: &[(Entry, u8)]) -> DirtySet {
    let mut set = DirtySet::since(id(100));
    for (entry, mask) in entries {
        set.add(*entry, *mask, None);
    }
    set
}

fn place(name: &str) -> Place {
    Place {
        nodes: vec![
            (StoreIndex(0), Node::default()),
            (StoreIndex(1), Node::default()),
        ],
        parent: vec![(StoreIndex(1), Node::default())],
        name: name.into(),
    }
}

#[test]
fn a_range_touches_the_chunks_that_it_overlaps() {
    assert_eq!(of(0, 1), [(0, 1)]);
    assert_eq!(of(0, CHUNK), [(0, 1)]);
    assert_eq!(of(CHUNK - 1, 2), [(0, 0b11)]);
    assert_eq!(of(CHUNK, 1), [(0, 0b10)]);
    assert_eq!(of(0, REGION), [(0, 0xff)]);
    assert_eq!(of(REGION - 1, 2), [(0, 0x80), (1, 1)]);
    assert_eq!(
        of(REGION - CHUNK, REGION + 2 * CHUNK),
        [(0, 0x80), (1, 0xff), (2, 1)]
    );
}

#[test]
fn every_byte_of_a_range_and_no_chunk_beside_it_is_touched() {
    let mut rng = env::Rng::new(7);
    for _ in 0..500 {
        let offset = rng.below(5 * REGION);
        let length = 1 + rng.below(3 * REGION);
        let mut chunks: Vec<u64> = Vec::new();
        for (region, mask) in regions(offset, length) {
            let each = (0..8).filter(|c| mask & (1 << c) != 0);
            chunks.extend(each.map(|c| u64::from(region) * REGION_CHUNKS + c));
        }
        let expected: Vec<u64> = (offset / CHUNK..=(offset + length - 1) / CHUNK).collect();
        assert_eq!(chunks, expected, "offset {offset}, length {length}");
    }
}

#[test]
fn a_range_at_the_end_of_the_numbers_does_not_overflow() {
    assert!(regions(u64::MAX - 1, 10).next().is_some());
    assert_eq!(of(5, 0), [(0, 1)], "a length of 0 counts as 1");
}

#[test]
fn ranges_join_where_chunks_and_regions_meet() {
    let set = set(&[
        (Entry::Region(id(7), 0), 0b1000_0011),
        (Entry::Region(id(7), 1), 0b0000_0001),
        (Entry::Region(id(8), 0), 0xff),
    ]);
    let expected = [(0, 2 * CHUNK), (7 * CHUNK, REGION + CHUNK)];
    assert_eq!(set.ranges(id(7), 100 * REGION), expected);
    assert_eq!(set.ranges(id(8), 100 * REGION), [(0, REGION)]);
    assert_eq!(set.ranges(id(9), 100 * REGION), []);
}

#[test]
fn a_tail_covers_all_behind_it() {
    let set = set(&[
        (Entry::Region(id(7), 0), 1),
        (Entry::Region(id(7), 5), 0xff),
        (Entry::Tail(id(7), 2), 0xff),
        (Entry::Tail(id(7), 4), 0xff),
    ]);
    let end = 9 * REGION + 5;
    assert_eq!(set.ranges(id(7), end), [(0, CHUNK), (2 * REGION, end)]);
    // The file has become shorter than where the tail begins.
    assert_eq!(
        set.ranges(id(7), 10),
        [(0, CHUNK), (2 * REGION, 2 * REGION)]
    );
}

#[test]
fn a_tail_joins_a_range_that_reaches_it() {
    let set = set(&[
        (Entry::Region(id(7), 1), 0b1000_0000),
        (Entry::Region(id(7), 2), 0b0000_0011),
        (Entry::Tail(id(7), 2), 0xff),
    ]);
    let expected = [(2 * REGION - CHUNK, 3 * REGION)];
    assert_eq!(set.ranges(id(7), 3 * REGION), expected);
}

#[test]
fn merging_keeps_the_lower_mark_all_bits_and_the_later_place() {
    let mut one = set(&[(Entry::Region(id(7), 0), 1)]);
    one.add(Entry::Names(id(1)), 0xff, Some(&place("old")));
    let mut two = DirtySet::since(id(50));
    two.add(Entry::Region(id(7), 0), 4, None);
    two.add(Entry::Names(id(1)), 0xff, Some(&place("new")));
    one.merge(&two);
    assert_eq!(one.mark, id(50));
    assert_eq!(one.entries[&Entry::Region(id(7), 0)], 5);
    assert_eq!(one.places[&id(1)].name, b"new");
    assert_eq!(one.len(), 2);
    let before = one.clone();
    one.merge(&two);
    assert_eq!(one, before, "merging twice changes nothing");
    one.merge(&DirtySet::everything());
    assert!(one.is_everything());
}

#[test]
fn a_place_forgets_one_store_and_keeps_the_others() {
    let mut place = place("f");
    place.forget(StoreIndex(1));
    assert!(place.node(StoreIndex(0)).is_some());
    assert!(place.node(StoreIndex(1)).is_none());
    assert!(place.parent.is_empty());
}
