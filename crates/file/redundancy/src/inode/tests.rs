use super::*;
use crate::label::StoreMask;

fn inode() -> Inode {
    let label = Label {
        id: ObjectId(7),
        home: StoreIndex(0),
        copies: StoreMask::first(2),
        set: 1,
    };
    Inode::new(label, Kind::File)
}

#[test]
fn ranges_that_do_not_overlap_are_written_at_the_same_time() {
    let inode = inode();
    let first = inode.write_range(0, 10);
    let second = inode.write_range(10, 5);
    let last = inode.write_range(u64::MAX - 1, 100);
    assert_eq!(inode.content.lock().writing.len(), 3);
    drop((first, second, last));
    assert!(inode.content.lock().writing.is_empty());
}

#[test]
fn a_range_that_overlaps_waits_until_the_other_is_done() {
    let inode = inode();
    let first = inode.write_range(0, 10);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let second = inode.write_range(9, 10);
            assert_eq!(inode.content.lock().writing, [(9, 19)]);
            drop(second);
        });
        while inode.content.lock().waiting.is_none() {
            assert!(!other.is_finished(), "it did not wait");
            std::thread::yield_now();
        }
        drop(first);
        other.join().unwrap();
    });
}

#[test]
fn a_touch_is_remembered_for_its_epoch_region_and_chunks() {
    let inode = inode();
    assert!(!inode.recently_touched(1, 0, 1));
    inode.set_touched(1, 5, 0b0011);
    assert!(inode.recently_touched(1, 5, 0b0001));
    assert!(inode.recently_touched(1, 5, 0b0011));
    assert!(!inode.recently_touched(1, 5, 0b0100), "another chunk");
    assert!(!inode.recently_touched(1, 4, 0b0001), "another region");
    assert!(!inode.recently_touched(2, 5, 0b0001), "another epoch");
    inode.set_touched(1, 5, 0b0100);
    assert!(inode.recently_touched(1, 5, 0b0111), "chunks add up");
    inode.set_touched(2, 5, 0b1000);
    assert!(
        !inode.recently_touched(2, 5, 0b0001),
        "a new epoch begins anew"
    );
}

#[test]
fn regions_and_epochs_at_their_ends_are_kept_apart() {
    let inode = inode();
    inode.set_touched(0xff_ffff, u32::MAX, 0xff);
    assert!(inode.recently_touched(0xff_ffff, u32::MAX, 0xff));
    assert!(!inode.recently_touched(0xff_fffe, u32::MAX, 1));
    assert!(!inode.recently_touched(0xff_ffff, u32::MAX - 1, 1));
    assert!(!inode.recently_touched(0, u32::MAX, 1));
}

#[test]
fn times_are_stale_after_a_write_until_they_are_taken() {
    let inode = inode();
    assert!(!inode.take_stale_times());
    drop(inode.write_range(0, 1));
    assert!(inode.take_stale_times());
    assert!(!inode.take_stale_times());
}

#[test]
fn a_store_that_joins_anew_is_forgotten() {
    let inode = inode();
    inode.set_node(StoreIndex(0), Node::default());
    inode.set_node(StoreIndex(1), Node::default());
    inode.drop_store(StoreIndex(1));
    assert!(inode.node(StoreIndex(0)).is_some());
    assert!(inode.node(StoreIndex(1)).is_none());
}

#[test]
fn content_is_durable_only_as_far_as_it_was_when_the_sync_began() {
    let inode = inode();
    assert!(!inode.is_durable(), "nobody knows what was written before");
    inode.set_durable(inode.changes());
    assert!(inode.is_durable());
    let writing = inode.write_range(0, 1);
    let begun = inode.changes();
    drop(writing);
    inode.set_durable(begun);
    assert!(!inode.is_durable(), "the write ended after the sync began");
    inode.set_durable(inode.changes());
    assert!(inode.is_durable());
}
