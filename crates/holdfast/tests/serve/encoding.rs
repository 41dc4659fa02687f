//! Cold data gives up its copies: it is read with any store gone, a change gives the copies back,
//! what a disk has damaged is mended, and without encoding every copy is plain again.

use super::place::Place;
use super::sync;
use redundancy::status::{Status, StoreEncodingStatus, StoreState};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

mod lost;
mod replaced;
mod scrub;

const CHUNK: u64 = 64 << 10;
const FILES: usize = 6;
const BYTES: usize = 5 * (CHUNK as usize) + 1000;

fn name(file: usize) -> String {
    format!("f{file}")
}

/// A set with files that are encoded, and what the files hold.
fn encoded() -> (Place, Vec<Vec<u8>>) {
    encoded_with(&[])
}

fn encoded_with(flags: &[&str]) -> (Place, Vec<Vec<u8>>) {
    let mut place = Place::new();
    place.flags = [
        "--encode-percent=90",
        "--encode-interval-s=1",
        "--encode-chunk-kb=64",
        "--checkpoint-ms=100",
    ]
    .iter()
    .chain(flags)
    .map(|flag| (*flag).to_owned())
    .collect();
    place.up();
    let mut rng = env::Rng::new(7);
    let files: Vec<Vec<u8>> = (0..FILES)
        .map(|file| {
            let mut content = vec![0; BYTES];
            rng.fill(&mut content);
            let path = place.path(&format!("mnt/{}", name(file)));
            fs::write(&path, &content).expect("a write");
            sync(&path);
            content
        })
        .collect();
    place.until("cold data to be encoded", |status| {
        let encoding = status.encoding.as_ref();
        encoding.is_some_and(|encoding| encoding.encoded_share.is_some_and(|share| share > 0.5))
    });
    (place, files)
}

fn reads_back(place: &Place, files: &[Vec<u8>]) {
    for (file, content) in files.iter().enumerate() {
        let read = fs::read(place.path(&format!("mnt/{}", name(file)))).expect("a read");
        assert!(read == *content, "file {file} reads wrong");
    }
}

fn stripes(place: &Place) -> u64 {
    place
        .status()
        .encoding
        .map_or(0, |encoding| encoding.stripes)
}

/// Bytes that a file takes on the stores.
fn taken(place: &Place, file: usize) -> u64 {
    let blocks = |store| {
        fs::metadata(place.copy(store, &name(file)))
            .expect("a copy")
            .blocks()
    };
    place
        .holders(&name(file))
        .into_iter()
        .map(|store| blocks(store) * 512)
        .sum()
}

#[test]
fn encoded_data_takes_less_and_outlives_any_store() {
    let (mut place, files) = encoded();
    let plain = 2 * FILES as u64 * BYTES as u64;
    let all: u64 = (0..FILES).map(|file| taken(&place, file)).sum();
    assert!(all < plain * 3 / 4, "{all} of {plain} bytes");
    figures_fit(&place.status());
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
    for store in ["a", "b", "c"] {
        let away = place.path(&format!("{store}.away"));
        fs::rename(place.path(store), &away).expect("taken away");
        place.until("the loss to be seen", |status| !status.redundant);
        reads_back(&place, &files);
        fs::rename(&away, place.path(store)).expect("brought back");
        place.until("redundancy", |status| status.redundant);
    }
    assert!(stripes(&place) > 0, "still encoded");
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
    // A stopped set cannot decode: it says so, and does not take holes for damage.
    place.down();
    let (code, said) = place.check();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("only a running set can compare"), "{said}");
}

#[test]
fn a_change_while_a_store_is_away_is_there_when_it_is_back() {
    let (mut place, mut files) = encoded();
    fs::rename(place.path("b"), place.path("b.away")).expect("taken away");
    place.until("the loss to be seen", |status| !status.redundant);
    for (file, content) in files.iter_mut().enumerate() {
        let path = place.path(&format!("mnt/{}", name(file)));
        let opened = fs::File::options()
            .write(true)
            .open(&path)
            .expect("the file");
        opened
            .write_all_at(b"changed", CHUNK * 2 + 77)
            .expect("a write");
        opened.sync_all().expect("durable");
        content[CHUNK as usize * 2 + 77..][..7].copy_from_slice(b"changed");
    }
    fs::remove_file(place.path("mnt/f5")).expect("removed");
    files.pop();
    place.signal(rustix::process::Signal::KILL);
    assert_eq!(place.ended(), None, "killed by a signal");
    place.up();
    reads_back(&place, &files);
    fs::rename(place.path("b.away"), place.path("b")).expect("brought back");
    place.until("redundancy", |status| status.redundant);
    reads_back(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}

/// Writes to encoded chunks, none of which gives a stripe up.
fn write_some(place: &Place, files: &mut [Vec<u8>], rng: &mut env::Rng) {
    for (file, content) in files.iter_mut().enumerate() {
        let path = place.path(&format!("mnt/{}", name(file)));
        let opened = fs::File::options().write(true).open(&path);
        let opened = opened.expect("the file");
        for _ in 0..20 {
            let at = rng.below(4 * CHUNK) as usize;
            let mut bytes = vec![0; 1 + rng.below(9000) as usize];
            rng.fill(&mut bytes);
            let before = fs::metadata(&path).expect("attributes");
            opened.write_all_at(&bytes, at as u64).expect("a write");
            let after = fs::metadata(&path).expect("attributes");
            let (before, after) = (before.modified(), after.modified());
            let (before, after) = (before.expect("a time"), after.expect("a time"));
            assert!(
                before < after,
                "{path:?}: a write shows in the time of a file: {before:?}, {after:?}"
            );
            content[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        opened.sync_all().expect("durable");
    }
}

fn differential_bytes(place: &Place) -> u64 {
    let encoding = place.status().encoding;
    encoding.map_or(0, |encoding| encoding.differential_bytes)
}

/// What the status says of stores and shares belongs together.
fn figures_fit(status: &Status) {
    let encoding = status.encoding.as_ref().expect("it encodes");
    let of_stores = || status.stores.iter().filter_map(|store| store.encoding);
    assert_eq!(of_stores().count(), 3);
    let sum = |of: fn(StoreEncodingStatus) -> u64| of_stores().map(of).sum::<u64>();
    assert_eq!(sum(|of| of.base_bytes), encoding.bytes);
    assert_eq!(sum(|of| of.freed_bytes), encoding.freed_bytes);
    assert_eq!(sum(|of| of.parity_bytes), encoding.parity_bytes);
    assert_eq!(sum(|of| of.metadata_bytes), encoding.metadata_bytes);
    assert_eq!(encoding.metadata_bytes, 3 * 4096 * encoding.stripes);
    let loads = of_stores().map(|of| of.load_share.expect("a round has ended"));
    let load = encoding.load_share.expect("a round has ended");
    assert!((loads.sum::<f64>() - load).abs() < 1e-9);
    let shares = encoding.shares.expect("a round has ended");
    // Between two whole copies and all of it as 2+1; metadata only makes it less.
    assert!(shares.capacity_formula > 0.5 && shares.capacity_formula < 0.667);
    assert!(shares.capacity_efficiency < shares.capacity_formula);
    let without = shares.capacity_efficiency / (1.0 - shares.metadata);
    assert!(
        (without / shares.capacity_formula - 1.0).abs() < 0.01,
        "{shares:?}"
    );
}

fn outlives_any_store(place: &Place, files: &[Vec<u8>]) {
    for store in ["a", "b", "c"] {
        let away = place.path(&format!("{store}.away"));
        fs::rename(place.path(store), &away).expect("taken away");
        place.until("the loss to be seen", |status| !status.redundant);
        reads_back(place, files);
        fs::rename(&away, place.path(store)).expect("brought back");
        place.until("redundancy", |status| status.redundant);
    }
}

#[test]
fn a_write_to_encoded_data_leaves_it_encoded_and_is_merged_later() {
    let (mut place, mut files) = encoded();
    place.down();
    // From here on nothing is encoded or given back by the policy.
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    let stood = stripes(&place);
    assert!(stood > 0, "encoded");
    let mut rng = env::Rng::new(8);
    write_some(&place, &mut files, &mut rng);
    assert!(differential_bytes(&place) > 0, "{:?}", place.status());
    reads_back(&place, &files);
    outlives_any_store(&place, &files);
    place.signal(rustix::process::Signal::KILL);
    assert_eq!(place.ended(), None, "killed by a signal");
    // Everything is merged at once.
    place
        .flags
        .push("--encode-differential-permille=0".to_owned());
    place.up();
    place.until("a merge", |status| {
        let encoding = status.encoding.as_ref();
        encoding.is_some_and(|encoding| encoding.differential_bytes == 0)
    });
    reads_back(&place, &files);
    write_some(&place, &mut files, &mut rng);
    reads_back(&place, &files);
    outlives_any_store(&place, &files);
    assert_eq!(stripes(&place), stood, "no stripe was given up for a write");
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
    // Without encoding what is in differentials reaches every copy.
    write_some(&place, &mut files, &mut rng);
    place.down();
    place.flags = vec!["--encode-percent=0".to_owned()];
    place.up();
    place.until("plain copies", |status| {
        status.encoding.as_ref().is_none_or(|e| e.stripes == 0)
    });
    reads_back(&place, &files);
    place.down();
    let (code, said) = place.check();
    assert_eq!(code, Some(0), "{said}");
}

/// A set that had differentials goes on without them, and one that has none begins with them.
#[test]
fn a_write_at_once_is_in_parity_when_it_is_answered() {
    let (mut place, mut files) = encoded_with(&["--encode-at-once"]);
    let mut rng = env::Rng::new(9);
    place.down();
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    let stood = stripes(&place);
    write_some(&place, &mut files, &mut rng);
    assert_eq!(differential_bytes(&place), 0, "{:?}", place.status());
    assert_eq!(stripes(&place), stood, "no stripe was given up for a write");
    reads_back(&place, &files);
    place.signal(rustix::process::Signal::KILL);
    assert_eq!(place.ended(), None, "killed by a signal");
    let at_once = place.flags.pop().expect("the flag");
    for flags in [vec![], vec![at_once]] {
        place.flags.extend(flags);
        place.up();
        reads_back(&place, &files);
        write_some(&place, &mut files, &mut rng);
        reads_back(&place, &files);
        outlives_any_store(&place, &files);
        place.signal(rustix::process::Signal::KILL);
        assert_eq!(place.ended(), None, "killed by a signal");
    }
    place.up();
    reads_back(&place, &files);
    fs::rename(place.path("c"), place.path("c.away")).expect("taken away");
    place.until("the loss to be seen", |status| !status.redundant);
    write_some(&place, &mut files, &mut rng);
    reads_back(&place, &files);
    fs::rename(place.path("c.away"), place.path("c")).expect("brought back");
    place.until("redundancy", |status| status.redundant);
    reads_back(&place, &files);
    outlives_any_store(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}

/// The base has a hole where the differentials have bytes.
#[test]
fn what_is_written_into_an_encoded_hole_is_data() {
    use rustix::fs::SeekFrom;
    let (mut place, _) = encoded();
    let path = place.path("mnt/sparse");
    let sparse = fs::File::create_new(&path).expect("a file");
    sparse.set_len(4 * CHUNK).expect("a length");
    drop(sparse);
    sync(&path);
    let before = stripes(&place);
    place.until("the hole to be encoded", |status| {
        status.encoding.as_ref().is_some_and(|e| e.stripes > before)
    });
    place.down();
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    let opened = fs::File::options().read(true).write(true).open(&path);
    let opened = opened.expect("the file");
    // Which of them are encoded is the policy's choice.
    for chunk in 0..4 {
        let at = chunk * CHUNK + 5000;
        opened.write_all_at(b"data", at).expect("a write");
        let data = rustix::fs::seek(&opened, SeekFrom::Data(chunk * CHUNK));
        let data = data.expect("data");
        assert!((chunk * CHUNK..=at).contains(&data), "data from {data}");
        let hole = rustix::fs::seek(&opened, SeekFrom::Hole(at)).expect("a hole");
        assert!(hole > at && hole <= 4 * CHUNK, "a hole from {hole}");
    }
    assert!(differential_bytes(&place) > 0, "some are encoded");
}

/// Nothing can be merged while a store is away: what is written to then is given up, once more waits
/// than four times what may stay.
#[test]
fn what_waits_for_a_merge_is_bounded() {
    let (mut place, files) = encoded_with(&["--encode-differential-permille=0"]);
    let path = |place: &Place, file: usize| place.path(&format!("mnt/large{file}"));
    let mut large = vec![vec![0; 2 << 20]; 6];
    for (file, content) in large.iter_mut().enumerate() {
        env::Rng::new(8 + file as u64).fill(content);
        fs::write(path(&place, file), content).expect("a write");
        sync(&path(&place, file));
    }
    place.until("the large files to be encoded", |status| {
        status.encoding.as_ref().is_some_and(|e| e.stripes > 80)
    });
    place.down();
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    fs::rename(place.path("c"), place.path("c.away")).expect("taken away");
    place.until("the loss to be seen", |status| !status.redundant);
    let mut most = 0;
    for (file, content) in large.iter_mut().enumerate() {
        let opened = fs::File::options().write(true).open(path(&place, file));
        let opened = opened.expect("it");
        for (page, old) in content.chunks_mut(4096).enumerate() {
            let written = opened.write_all_at(b"new", page as u64 * 4096);
            written.expect("a write");
            old[..3].copy_from_slice(b"new");
            if page % 128 == 127 {
                opened.sync_all().expect("a sync");
                most = most.max(differential_bytes(&place));
            }
        }
    }
    assert!(most > 3 << 20 && most < 5 << 20, "{most} bytes wait");
    let reads = |place: &Place| {
        for (file, content) in large.iter().enumerate() {
            assert!(fs::read(path(place, file)).expect("a read") == *content);
        }
    };
    reads(&place);
    fs::rename(place.path("c.away"), place.path("c")).expect("brought back");
    place.until("redundancy", |status| status.redundant);
    place.until("what can be merged to be merged", |status| {
        let encoding = status.encoding.as_ref();
        encoding.is_some_and(|e| e.differential_bytes == 0)
    });
    reads(&place);
    outlives_any_store(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}

/// A removed file's bytes are what others are computed from, until these have copies again.
#[test]
fn a_removed_file_is_held_until_nobody_needs_it() {
    let (mut place, mut files) = encoded();
    place.down();
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    let open = fs::File::open(place.path("mnt/f5")).expect("the file");
    for removed in ["f4", "f5"] {
        fs::remove_file(place.path(&format!("mnt/{removed}"))).expect("removed");
    }
    let gone = files.split_off(4);
    reads_back(&place, &files);
    let mut read = vec![0; BYTES];
    open.read_exact_at(&mut read, 0).expect("a read");
    assert!(read == gone[1], "an open file without a name reads wrong");
    assert_eq!(open.metadata().expect("attributes").nlink(), 0);
    place.signal(rustix::process::Signal::KILL);
    assert_eq!(place.ended(), None, "killed by a signal");
    drop(open);
    place.up();
    let held = |place: &Place| {
        let stores = ["a", "b", "c"].iter();
        let held = stores.map(|store| {
            let aside = place.path(&format!("{store}/.holdfast/aside"));
            fs::read_dir(aside).expect("a directory").count()
        });
        held.sum::<usize>()
    };
    place.until("what was held to be let go", |_| held(&place) == 0);
    reads_back(&place, &files);
    outlives_any_store(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}

/// Under the name that would hold a removed file another one stands already, as after a recovery that
/// made the file again: its stripes are given up before its bytes go.
#[test]
fn a_removed_file_that_cannot_be_held_gives_its_stripes_up_first() {
    let (mut place, mut files) = encoded();
    place.down();
    place.flags[1] = "--encode-interval-s=3600".to_owned();
    place.up();
    let home = place.home("f5");
    let object = place.label("f5", "object");
    let object = u64::from_str_radix(object.trim_start_matches("0x"), 16).expect("a number");
    let aside = place.path(&place.stores[home]).join(".holdfast/aside");
    fs::write(aside.join(format!("held-{object:016x}")), "another").expect("a file");
    let away = place.path(&place.stores[(home + 1) % 3]);
    fs::rename(&away, away.with_extension("away")).expect("taken away");
    place.until("the loss to be seen", |status| !status.redundant);
    let before = stripes(&place);
    fs::remove_file(place.path("mnt/f5")).expect("removed");
    assert!(stripes(&place) < before, "the bytes of f5 are needed");
    files.truncate(5);
    reads_back(&place, &files);
    fs::rename(away.with_extension("away"), &away).expect("brought back");
    place.until("redundancy", |status| status.redundant);
    outlives_any_store(&place, &files);
}

/// More than the set can lose at once: what is left may refuse, but nobody gets wrong bytes, and all
/// is there when the stores are.
#[test]
fn two_stores_away_at_once_never_leave_holes_for_content() {
    let (place, mut files) = encoded();
    let (first, second) = ("a", "b");
    for (away, store) in [first, second].iter().enumerate() {
        fs::rename(place.path(store), place.path(&format!("{store}.away"))).expect("taken away");
        place.until("the loss to be seen", |status| {
            let fenced = status
                .stores
                .iter()
                .filter(|s| s.state == StoreState::Fenced);
            fenced.count() == away + 1
        });
    }
    for (file, content) in files.iter_mut().enumerate() {
        let path = place.path(&format!("mnt/{}", name(file)));
        let Ok(opened) = fs::File::options().write(true).open(&path) else {
            continue;
        };
        if opened.write_all_at(b"changed", 77).is_ok() && opened.sync_all().is_ok() {
            content[77..][..7].copy_from_slice(b"changed");
        }
    }
    fs::rename(place.path("b.away"), place.path(second)).expect("brought back");
    for (file, content) in files.iter().enumerate() {
        if let Ok(read) = fs::read(place.path(&format!("mnt/{}", name(file)))) {
            assert!(
                read == *content,
                "file {file} reads wrong with one store away"
            );
        }
    }
    fs::rename(place.path("a.away"), place.path(first)).expect("brought back");
    place.until("redundancy", |status| status.redundant);
    reads_back(&place, &files);
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
}

#[test]
fn a_scrub_mends_a_damaged_base_and_a_damaged_shard() {
    let (place, files) = encoded();
    let home = place.home(&name(0));
    flip(&place.copy(home, &name(0)), 5000);
    let mut shards = ["a", "b", "c"]
        .into_iter()
        .flat_map(|store| {
            fs::read_dir(place.path(&format!("{store}/.holdfast/shards"))).expect("a directory")
        })
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| fs::metadata(path).expect("a file").len() > CHUNK);
    let parity = shards.next().expect("a parity shard");
    flip(&parity, fs::metadata(&parity).expect("a file").len() - 10);
    assert_eq!(
        place.check().0,
        Some(3),
        "a comparison sees that they differ"
    );
    let (code, said) = place.of(&["scrub"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("2 pages were damaged: made right again"),
        "{said}"
    );
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
    let base = fs::read(place.copy(home, &name(0))).expect("the home's copy");
    assert!(base == files[0], "the base is right again");
    let (code, said) = place.of(&["scrub"]);
    assert!(
        code == Some(0) && said.contains("every page is as it was written"),
        "{said}"
    );
}

#[test]
fn without_encoding_every_copy_is_plain_again() {
    let (mut place, files) = encoded();
    place.down();
    place.flags = vec!["--encode-percent=0".to_owned()];
    place.up();
    place.until("copies in the place of parity", |status| {
        status
            .encoding
            .as_ref()
            .is_none_or(|encoding| encoding.stripes == 0)
    });
    place.down();
    for (file, content) in files.iter().enumerate() {
        let holders = place.holders(&name(file));
        assert_eq!(holders.len(), 2);
        for store in holders {
            let plain = fs::read(place.copy(store, &name(file))).expect("a plain file");
            assert!(plain == *content, "file {file} on store {store}");
        }
    }
}

fn flip(path: &std::path::Path, at: u64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("the file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("a byte");
}
