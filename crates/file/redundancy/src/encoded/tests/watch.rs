use super::*;
use crate::encoded::watch::Watch;
use std::sync::atomic::{AtomicBool, Ordering};

const OBJECT: ObjectId = ObjectId(3);

#[test]
fn a_change_of_a_watched_range_lets_the_stripe_go() {
    for (offset, length, touches) in [
        (99, 1, false),
        (99, 2, true),
        (100, 1, true),
        (149, 1, true),
        (150, 10, false),
        (0, u64::MAX, true),
    ] {
        let watch = Watch::default();
        let watched = watch.begin([(OBJECT, 100, 50)]);
        watch.change(OBJECT, offset, length);
        let ready = watched.ready().is_some();
        assert_eq!(ready, !touches, "{length} bytes at {offset}");
    }
}

#[test]
fn a_change_of_another_file_or_another_watch_does_not() {
    let watch = Watch::default();
    let one = watch.begin([(OBJECT, 0, 10), (ObjectId(4), 0, 10)]);
    let two = watch.begin([(OBJECT, 10, 10)]);
    watch.change(OBJECT, 10, 1);
    watch.change(ObjectId(5), 0, 10);
    assert!(one.ready().is_some());
    assert!(two.ready().is_none());
}

#[test]
fn a_watch_that_ends_leaves_nothing_behind() {
    let watch = Watch::default();
    assert!(watch.is_empty());
    let watched = watch.begin([(OBJECT, 0, 10)]);
    assert!(!watch.is_empty());
    drop(watched);
    assert!(watch.is_empty());
    let ready = watch.begin([(OBJECT, 0, 10)]).ready();
    assert!(ready.is_some() && !watch.is_empty());
    drop(ready);
    assert!(watch.is_empty());
    watch.change(OBJECT, 0, 10);
}

#[test]
fn a_change_waits_while_the_stripe_begins_to_stand() {
    let watch = Watch::default();
    let (arrived, stands) = (AtomicBool::new(false), AtomicBool::new(false));
    let ready = watch.begin([(OBJECT, 0, 10)]).ready().expect("no change");
    // Another range of the file does not wait.
    watch.change(OBJECT, 10, 10);
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            arrived.store(true, Ordering::Release);
            watch.change(OBJECT, 5, 1);
            stands.load(Ordering::Acquire)
        });
        // A change that does not wait is back long before this is over. One that waits passes however
        // the threads run.
        while !arrived.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        (0..1000).for_each(|_| std::thread::yield_now());
        stands.store(true, Ordering::Release);
        drop(ready);
        assert!(change.join().expect("no panic"), "it did not wait");
    });
}
