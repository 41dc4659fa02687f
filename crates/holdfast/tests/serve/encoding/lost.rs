//! More stores are lost than the set may lose.

use super::*;

const PAGE: usize = 4096;

/// How many pages of a file are as they were; the others are zeros, or cannot be read.
fn intact(place: &Place, file: usize, content: &[u8], zeroes: bool) -> usize {
    let opened = fs::File::open(place.path(&format!("mnt/{}", name(file))));
    let Ok(opened) = opened else { return 0 };
    let pages = content.chunks(PAGE).enumerate();
    let whole = pages.filter(|(at, wanted)| {
        let mut read = vec![1; wanted.len()];
        match opened.read_exact_at(&mut read, (*at * PAGE) as u64) {
            Ok(()) if read == *wanted => true,
            Ok(()) => {
                let zero = read.iter().all(|byte| *byte == 0);
                assert!(zeroes && zero, "file {file}, page {at}: wrong bytes");
                false
            }
            Err(error) => {
                assert!(!zeroes, "file {file}, page {at}: {error}");
                assert_eq!(error.raw_os_error(), Some(5), "file {file}, page {at}");
                false
            }
        }
    });
    whole.count()
}

fn all_intact(place: &Place, files: &[Vec<u8>], zeroes: bool) -> Vec<usize> {
    let each = files.iter().enumerate();
    each.map(|(file, content)| intact(place, file, content, zeroes))
        .collect()
}

#[test]
fn what_is_left_gets_its_copies_again_once_the_rest_is_given_up() {
    let (mut place, mut files) = encoded();
    place.down();
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    let mut rng = env::Rng::new(5);
    write_some(&place, &mut files, &mut rng);
    place.down();
    for store in ["b", "c"] {
        fs::remove_dir_all(place.path(store)).expect("lost");
        fs::create_dir(place.path(store)).expect("an empty directory");
    }
    let refused = place.try_up().expect_err("no majority");
    assert_eq!(refused.0, Some(14), "{}", refused.1);
    let usual = place.flags.clone();
    place
        .flags
        .extend(["--without=1".to_owned(), "--without=2".to_owned()]);
    place.up();
    place.flags = usual;
    let before = all_intact(&place, &files, false);
    assert!(before.iter().any(|pages| *pages > 0), "{before:?}");
    let lost = |place: &Place| place.status().encoding.map_or(0, |e| e.lost_chunks);
    let unread = lost(&place);
    assert!(unread > 0, "{:?}", place.status());
    let (code, said) = place.of(&["check"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("cannot be read") && said.contains("--accept-loss"),
        "{said}"
    );
    // Nothing is given up by itself.
    assert_eq!(
        (lost(&place), all_intact(&place, &files, false)),
        (unread, before.clone())
    );
    let (code, said) = place.of(&["repair", "--accept-loss"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("zeros from now on") && said.contains("inode "),
        "{said}"
    );
    assert_eq!(lost(&place), 0);
    assert_eq!(all_intact(&place, &files, true), before);
    for store in ["b", "c"] {
        let attached = place.run(&["attach", store]);
        let said = crate::place::text(&attached.stderr);
        assert!(attached.status.success(), "{said}");
    }
    place.until("redundancy", |status| status.redundant);
    assert_eq!(all_intact(&place, &files, true), before);
    let (code, said) = place.of(&["repair", "--accept-loss"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(place.of(&["check"]).0, Some(0));
    place.signal(rustix::process::Signal::KILL);
    assert_eq!(place.ended(), None, "killed by a signal");
    place.up();
    assert_eq!(all_intact(&place, &files, true), before);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}
