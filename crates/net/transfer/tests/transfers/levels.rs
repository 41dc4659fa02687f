//! Which level finds a fault in which layer: table 4.2 of the source of verified transfer, on a file
//! system on a loop device whose image is changed behind its back.

use crate::place::{Mounted, Place, harming, noise, send};
use holdfast_transfer::{Level, Report};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const LENGTH: usize = 64 << 10;

/// Where a byte goes bad, between the sync and the proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    Nowhere,
    /// What the kernel has of the file, which it writes to the device in the end.
    Memory,
    /// What the device has: its own copy changes, the kernel's does not.
    Device,
}

/// Changes a byte of the page with this content, wherever it is in the image.
fn rot(image: &Path, page: &[u8]) {
    let bytes = fs::read(image).unwrap();
    let found = bytes.chunks(4096).position(|chunk| chunk == page);
    let at = found.expect("what was synced is on the device") as u64 * 4096;
    let file = fs::File::options().write(true).open(image).unwrap();
    file.write_all_at(&[!page[9]], at + 9).unwrap();
}

/// Sends one file while one of its bytes goes bad once; what was reported, and whether the file in
/// place is right when it is read from the device.
fn transfer(level: Level, layer: Layer) -> (Report, bool) {
    let content = noise(17, LENGTH);
    let place = Place::with_file(&content);
    let image = place.path("image");
    let mounted = Mounted::in_file(place.path("mounted"), &image);
    let page = content[8192..12288].to_vec();
    let done = AtomicBool::new(false);
    let harm = move |file: &OwnedFd| {
        if done.swap(true, Ordering::SeqCst) {
            return;
        }
        match layer {
            Layer::Nowhere => {}
            Layer::Memory => {
                rustix::io::pwrite(file, &[!page[9]], 8192 + 9).unwrap();
            }
            Layer::Device => rot(&image, &page),
        }
    };
    let destination = mounted.0.join("to");
    let report = send(&place.source, &destination, level, &harming(harm)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
    let file = fs::File::open(destination.join("file")).unwrap();
    file.sync_all().unwrap();
    env::page_cache::evict(&file, 0, 0).unwrap();
    let right = fs::read(destination.join("file")).unwrap() == content;
    (report, right)
}

#[test]
fn each_level_finds_the_faults_that_it_claims_to_and_no_others() {
    for (level, layer, found) in [
        (Level::Wire, Layer::Nowhere, false),
        (Level::Cache, Layer::Nowhere, false),
        (Level::Device, Layer::Nowhere, false),
        (Level::Wire, Layer::Memory, false),
        (Level::Cache, Layer::Memory, true),
        (Level::Device, Layer::Memory, true),
        (Level::Wire, Layer::Device, false),
        (Level::Cache, Layer::Device, false),
        (Level::Device, Layer::Device, true),
    ] {
        let (report, right) = transfer(level, layer);
        assert_eq!(report.pages_resent, u64::from(found), "{level} {layer:?}");
        assert_eq!(right, found || layer == Layer::Nowhere, "{level} {layer:?}");
    }
}
