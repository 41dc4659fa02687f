//! Which level finds a fault in which layer: table 4.2 of the source of verified transfer, on a file
//! system on a loop device whose image is changed behind its back.
//!
//! The device has a write cache as the table's has: what was written to it last is returned as it
//! was written, whatever the medium has. For a fault of the medium the image, which stands for what
//! the device returns, changes at the moment that this cache would have let the page go.

use crate::place::{Mounted, Place, harming, noise};
use holdfast_transfer::{Level, Options, Report, local};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const LENGTH: usize = 64 << 10;

/// Bytes that the device's write cache holds: more than a batch, so that a file is read at level
/// `device` while it is in there.
const WRITE_CACHE: u64 = 40 << 20;

/// Where a byte goes bad, between the sync and the proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    Nowhere,
    /// What the kernel has of the file, which it writes to the device in the end.
    Memory,
    /// What the device has: its own copy changes, the kernel's does not.
    Device,
    /// What the medium has: the device's write cache returns the right bytes as long as it has
    /// them.
    Medium,
}

/// Changes a byte of the page with this content, wherever it is in the image.
fn rot(image: &Path, page: &[u8]) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(image)
        .unwrap();
    let mut found = vec![0; 4096];
    let mut pages = (0..file.metadata().unwrap().len()).step_by(4096);
    let at = pages.find(|at| {
        file.read_exact_at(&mut found, *at).unwrap();
        found == page
    });
    let at = at.expect("what was synced is on the device");
    file.write_all_at(&[!page[9]], at + 9).unwrap();
}

/// Sends a file, and more behind it, while one of its bytes goes bad once; what was reported, and
/// whether the file in place is right when it is read from the device.
fn transfer(level: Level, layer: Layer) -> (Report, bool) {
    let content = noise(17, LENGTH);
    let place = Place::with_file(&content);
    let behind = noise(18, 32 << 20);
    if layer == Layer::Medium {
        for name in ["file b", "file c", "file d"] {
            fs::write(place.source.join(name), &behind).unwrap();
        }
    }
    let image = place.path("image");
    let mounted = Mounted::in_file(place.path("mounted"), &image);
    let page = content[8192..12288].to_vec();
    let (calls, since) = (AtomicU64::new(0), AtomicU64::new(0));
    let harm = move |file: &OwnedFd| {
        let first = calls.fetch_add(1, Ordering::SeqCst) == 0;
        match layer {
            Layer::Memory if first => {
                rustix::io::pwrite(file, &[!page[9]], 8192 + 9).unwrap();
            }
            Layer::Device if first => rot(&image, &page),
            Layer::Medium if !first => {
                let length = rustix::fs::fstat(file).unwrap().st_size as u64;
                let before = since.fetch_add(length, Ordering::SeqCst);
                if before <= WRITE_CACHE && before + length > WRITE_CACHE {
                    rot(&image, &page);
                }
            }
            _ => {}
        }
    };
    let options = Options {
        level,
        write_cache: (level == Level::Medium).then_some(WRITE_CACHE),
        settle: level == Level::Medium && layer != Layer::Medium,
        ..Options::default()
    };
    let (destination, settings) = (mounted.0.join("to"), harming(harm));
    let sent = local(
        &place.source,
        &destination,
        &options,
        &settings,
        &mut |_| (),
    );
    let file = fs::File::open(destination.join("file")).unwrap();
    file.sync_all().unwrap();
    env::page_cache::evict(&file, 0, 0).unwrap();
    let right = fs::read(destination.join("file")).unwrap() == content;
    (sent.unwrap(), right)
}

#[test]
fn each_level_finds_the_faults_that_it_claims_to_and_no_others() {
    use Layer::{Device, Medium, Memory, Nowhere};
    // What each level finds, from wire to medium.
    for (layer, finds) in [
        (Nowhere, [false; 4]),
        (Memory, [false, true, true, true]),
        (Device, [false, false, true, true]),
        (Medium, [false, false, false, true]),
    ] {
        for (level, found) in Level::ALL.into_iter().zip(finds) {
            let (report, right) = transfer(level, layer);
            let what = format!("level {level}, fault of {layer:?}: {report:?}");
            if layer == Medium {
                // The file is in place by then: it is sent again before the transfer ends.
                assert!(report.is_whole(), "{what}");
                assert_eq!(report.files_resent, u64::from(found), "{what}");
                assert_eq!(right, found, "{what}");
            } else {
                assert!(report.is_whole(), "{what}");
                assert_eq!(report.pages_resent, u64::from(found), "{what}");
                assert_eq!(right, found || layer == Nowhere, "{what}");
            }
        }
    }
}
