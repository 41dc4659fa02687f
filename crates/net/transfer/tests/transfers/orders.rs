//! What of a transfer goes on beside what.

use crate::place::{Place, files, harming, noise};
use holdfast_transfer::{Options, Order, local};
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FILE: u64 = 40 << 20;

#[test]
fn an_order_bounds_what_is_sent_before_an_earlier_file_is_proved() {
    // Files beyond the one that is proved; and how often each of them is proved: in the orders of
    // whole files once, in batches of 32 MiB more than once.
    for (order, beyond, once) in [
        (Order::Sequential, Some(0), true),
        (Order::Files, Some(1), true),
        (Order::Batches, None, false),
    ] {
        let place = Place::new();
        fs::create_dir(&place.source).unwrap();
        for number in 0..4 {
            let name = place.source.join(number.to_string());
            fs::write(name, noise(number, FILE as usize)).unwrap();
        }
        let sent = Arc::new(AtomicU64::new(0));
        let most = Arc::new(AtomicU64::new(0));
        let proofs = Arc::new(AtomicU64::new(0));
        let hook = {
            let (sent, most, proofs) = (sent.clone(), most.clone(), proofs.clone());
            move |_: &OwnedFd| {
                let before = proofs.fetch_add(1, Ordering::SeqCst) * FILE;
                let ahead = sent.load(Ordering::SeqCst).saturating_sub(before + FILE);
                most.fetch_max(ahead, Ordering::SeqCst);
            }
        };
        let options = Options {
            order,
            ..Options::default()
        };
        let (from, to, settings) = (&place.source, &place.destination, harming(hook));
        let mut show = |progress: holdfast_transfer::Progress| {
            sent.store(progress.bytes_sent, Ordering::SeqCst);
        };
        let report = local(from, to, &options, &settings, &mut show).unwrap();
        assert!(report.is_whole(), "{order:?}: {:?}", report.problems);
        assert!(files(to) == files(from), "{order:?}");
        let proofs = proofs.load(Ordering::SeqCst);
        assert_eq!(proofs == 4, once, "{order:?}: {proofs}");
        if let Some(beyond) = beyond {
            let most = most.load(Ordering::SeqCst);
            assert!(most <= beyond * FILE, "{order:?}: {most} bytes ahead");
        }
    }
}
