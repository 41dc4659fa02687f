//! The canary of the recorder: a log of one page each, and a count of them, by a writer that flushes
//! where it must, and by two that leave one flush out.

use super::{Memory, open, recorder};
use crate::trace::{Event, Loss, Recorder, Walk};
use env::Disk;

const PAGE: usize = 8192;
const PAGES: u8 = 12;

/// Which flush is left out.
#[derive(Clone, Copy, PartialEq)]
enum Omits {
    None,
    /// That of the page before the count says that it is there.
    Page,
    /// That of the count before it is said that all is done.
    Count,
}

fn page(number: u8) -> Vec<u8> {
    (0..PAGE).map(|at| (at / 512) as u8 ^ number).collect()
}

fn write(recorder: &Recorder, omits: Omits) {
    for number in 1..=PAGES {
        let place = u64::from(number) * PAGE as u64;
        recorder.write_at(place, &page(number)).unwrap();
        if omits != Omits::Page {
            recorder.sync().unwrap();
        }
        recorder.write_at(0, &[number; 512]).unwrap();
        if omits != Omits::Count {
            recorder.sync().unwrap();
        }
        recorder.mark(&[number]).unwrap();
    }
    recorder.finish().unwrap();
}

/// What is wrong with an image on which so many pages were said to be done.
fn broken(image: &dyn Disk, done: u8) -> bool {
    let mut count = [0];
    image.read_at(0, &mut count).unwrap();
    let whole = |number: u8| {
        let mut found = vec![0; PAGE];
        let place = u64::from(number) * PAGE as u64;
        image.read_at(place, &mut found).unwrap();
        found == page(number)
    };
    count[0] < done || !(1..=count[0]).all(whole)
}

/// Cuts at each event, of each several; how many broken images there are.
fn found(omits: Omits) -> usize {
    let zeros = || vec![0; PAGE * (usize::from(PAGES) + 1)];
    let (recorder, _, trace) = recorder(zeros());
    write(&recorder, omits);
    let mut walk = Walk::new(&open(&trace), Memory::new(zeros())).unwrap();
    let (mut done, mut count) = (0, 0);
    while let Some(found) = walk.step().unwrap() {
        if let Event::Mark(text) = found.event {
            done = text[0];
        }
        let random = (0..16).map(|seed| Loss::Random {
            seed,
            sector_bytes: 4096,
        });
        for loss in [Loss::Nothing, Loss::Everything].into_iter().chain(random) {
            let cut = walk.cut(&loss).unwrap();
            count += usize::from(broken(&cut.image, done));
        }
    }
    count
}

#[test]
fn a_writer_that_flushes_is_never_found() {
    assert_eq!(found(Omits::None), 0);
}

#[test]
fn a_writer_that_leaves_a_flush_out_is_found() {
    for omits in [Omits::Page, Omits::Count] {
        let count = found(omits);
        assert!(count > 20, "{count} broken images");
    }
}
