use super::*;

fn offsets(scene: &Scene, store: StoreIndex, node: &Node, from: u64) -> Vec<(u64, bool)> {
    let extents = scene.encoded.extents(store, node);
    let chunks = extents.iter().flat_map(|extents| extents.from(from));
    chunks
        .map(|chunk| (chunk.offset / CHUNK, chunk.is_base))
        .collect()
}

#[test]
fn a_copy_shows_its_chunks_in_order_from_where_it_is_asked() {
    let scene = Scene::new(1);
    for chunk in [5, 0, 3] {
        scene.encode(chunk);
    }
    let home = |from| offsets(&scene, HOME, &home_node(), from);
    assert_eq!(home(0), [(0, true), (3, true), (5, true)]);
    assert_eq!(home(CHUNK - 1).len(), 3, "its last byte is part of a chunk");
    assert_eq!(home(CHUNK), [(3, true), (5, true)]);
    assert_eq!(home(6 * CHUNK), []);
    assert_eq!(
        offsets(&scene, OTHER, &other_node(), 0),
        [(0, false), (3, false), (5, false)],
        "what is given up"
    );
    assert_eq!(offsets(&scene, HOME, &other_node(), 0), [], "another file");
}

#[test]
fn a_stripe_that_is_given_up_is_taken_out_first_of_the_copies_then_of_the_base() {
    let scene = Scene::new(2);
    let stripes = [2, 4].map(|chunk| scene.encode(chunk));
    let both = || {
        let copies = [(HOME, home_node()), (OTHER, other_node())];
        copies.map(|(store, node)| offsets(&scene, store, &node, 0).len())
    };
    assert_eq!(both(), [2, 2]);
    scene.encoded.refill(&stripes[0]);
    assert_eq!((both(), scene.encoded.len()), ([2, 1], 4));
    scene.encoded.remove(&stripes[0]);
    assert_eq!((both(), scene.encoded.len()), ([1, 1], 2));
    scene.encoded.remove(&stripes[1]);
    assert_eq!((both(), scene.encoded.len()), ([0, 0], 0));
    assert!(scene.encoded.extents(HOME, &home_node()).is_none());
    assert!(scene.encoded.is_idle());
}

#[test]
fn the_first_chunk_in_a_range_is_found_and_none_beside_it() {
    let scene = Scene::new(3);
    for chunk in [1, 2, 6] {
        scene.encode(chunk);
    }
    let first = |object, offset: u64, length: u64| {
        let found = scene.encoded.first_in(object, offset, length);
        found.map(|chunk| chunk.offset / CHUNK)
    };
    assert_eq!(first(FILE, 0, CHUNK), None);
    assert_eq!(first(FILE, 0, CHUNK + 1), Some(1));
    assert_eq!(first(FILE, 2 * CHUNK - 1, 1), Some(1));
    assert_eq!(first(FILE, 2 * CHUNK - 1, 100), Some(1));
    assert_eq!(first(FILE, 2 * CHUNK, 1), Some(2));
    assert_eq!(first(FILE, 3 * CHUNK, 3 * CHUNK), None);
    assert_eq!(first(FILE, 3 * CHUNK, u64::MAX), Some(6));
    assert_eq!(first(FILE, 7 * CHUNK, u64::MAX), None);
    assert_eq!(first(ObjectId(9), 0, u64::MAX), None);
    assert_eq!(
        first(ObjectId(20), 0, u64::MAX),
        Some(1),
        "the other data shard"
    );
}
