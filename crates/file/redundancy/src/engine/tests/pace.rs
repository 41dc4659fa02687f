//! The rate that a rebuild is held to.

use crate::resync::pace::Pace;
use env::errno::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn without_a_limit_nothing_waits() {
    let pace = Pace::unlimited(Arc::default());
    // At any rate this would take longer than a test can run.
    pace.bytes(u64::MAX / 2, 0).unwrap();
    assert_eq!(pace.progress().bytes_done, u64::MAX / 2);
}

#[test]
fn a_limit_is_never_exceeded() {
    let started = Instant::now();
    let pace = Pace::new(Arc::default(), 1_000_000);
    for _ in 0..10 {
        pace.bytes(5_000, 1).unwrap();
    }
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert_eq!(pace.progress().bytes_written, 10);
}

#[test]
fn a_pass_that_waits_can_be_stopped_and_let_go() {
    let stop = Arc::new(AtomicBool::new(false));
    let pace = Pace::new(stop.clone(), 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| pace.bytes(1 << 40, 0));
        while pace.progress().bytes_done == 0 {
            std::thread::yield_now();
        }
        pace.lift();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    let pace = Pace::new(stop.clone(), 1);
    stop.store(true, Ordering::Release);
    assert_eq!(pace.bytes(1 << 40, 0), Err(Errno::INTR));
    assert_eq!(pace.check(), Err(Errno::INTR));
}

#[test]
fn progress_counts_what_was_done_and_what_is_left() {
    let pace = Pace::unlimited(Arc::default());
    assert_eq!(pace.progress().bytes_total, None);
    assert_eq!(pace.progress().eta_s, None);
    pace.set_phase("copying");
    pace.set_total(100);
    pace.object();
    pace.bytes(40, 10).unwrap();
    let progress = pace.progress();
    assert_eq!(progress.phase, "copying");
    assert_eq!((progress.objects_done, progress.bytes_done), (1, 40));
    assert_eq!(progress.bytes_total, Some(100));
    assert!(progress.eta_s.is_some());
    // More than was counted before: files grew meanwhile.
    pace.bytes(100, 0).unwrap();
    let progress = pace.progress();
    assert_eq!(progress.bytes_total, Some(140));
    assert_eq!(progress.eta_s, Some(0));
}
