//! A scrub is paced, goes on where a kill or a stop has cut it, and begins by itself.

use super::{CHUNK, encoded_with, flip, reads_back, stripes};
use crate::place::Place;
use redundancy::status::ScrubScheduleStatus;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

/// Chosen so that a pass over the files of these tests takes seconds: time to cut it.
const SLOW: &str = "--scrub-mb-per-s=1";

fn scrub_of(place: &Place) -> ScrubScheduleStatus {
    place.status().scrub.unwrap_or_default()
}

/// Stripes that are durably done in the pass that is under way.
fn done(scrub: Option<&ScrubScheduleStatus>) -> u64 {
    let pass = scrub.and_then(|scrub| scrub.pass.as_ref());
    pass.map_or(0, |pass| pass.stripes)
}

/// The parity shards by the number of their stripe.
fn parities(place: &Place) -> BTreeMap<String, PathBuf> {
    ["a", "b", "c"]
        .into_iter()
        .flat_map(|store| {
            fs::read_dir(place.path(&format!("{store}/.holdfast/shards"))).expect("a directory")
        })
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| fs::metadata(path).expect("a file").len() > CHUNK)
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name[..16].to_owned(), path.clone())
        })
        .collect()
}

/// Damages the parity of the first or the last stripe that a pass comes to; where it lies, and what
/// was there.
fn rot(place: &Place, first: bool) -> (PathBuf, Vec<u8>) {
    let all = parities(place);
    let mut paths = all.into_values();
    let path = if first {
        paths.next()
    } else {
        paths.next_back()
    };
    let path = path.expect("a parity shard");
    let content = fs::read(&path).expect("a shard");
    flip(&path, content.len() as u64 - 10);
    (path, content)
}

/// A flag of the next start, in the place of what it was.
fn set(place: &mut Place, flag: &str) {
    let name = flag.split('=').next().unwrap_or(flag);
    place.flags.retain(|known| !known.starts_with(name));
    place.flags.push(flag.to_owned());
}

/// No more rounds: the stripes stay as they are.
fn keep_stripes(place: &mut Place) {
    place.down();
    set(place, "--encode-interval-s=100000");
    place.up();
}

fn report(said: &str) -> serde_json::Value {
    serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn a_scrub_that_is_killed_goes_on_where_it_was() {
    let (mut place, files) = encoded_with(&[SLOW, "--scrub-interval-s=0"]);
    keep_stripes(&mut place);
    let all = stripes(&place);
    let mut asked = place
        .of_set(&["scrub"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary can be run");
    place.until("some of it to be done", |status| {
        done(status.scrub.as_ref()) > 0
    });
    // Behind the position and before it.
    rot(&place, true);
    rot(&place, false);
    place.signal(rustix::process::Signal::KILL);
    assert_eq!(place.ended(), None, "killed by a signal");
    assert_ne!(asked.wait().expect("a child").code(), Some(0));
    place.up();
    place.until("the position to be read", |status| {
        done(status.scrub.as_ref()) > 0
    });
    let before = done(Some(&scrub_of(&place)));
    assert!(
        before < all,
        "{before} of {all} stripes: it was cut too late"
    );
    let (code, said) = place.of(&["scrub", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let pass = report(&said);
    let counts = (pass["before"].as_u64(), pass["objects"].as_u64());
    assert_eq!(
        counts,
        (Some(before), Some(all - before)),
        "nothing twice, nothing left out"
    );
    let bytes = (all - before) * 3 * CHUNK;
    assert_eq!(
        pass["bytes"].as_u64(),
        Some(bytes),
        "read no more than was left"
    );
    assert_eq!(
        pass["mended"].as_u64(),
        Some(1),
        "what lay before the position"
    );
    let (code, said) = place.of(&["scrub", "--json"]);
    let pass = report(&said);
    assert_eq!(
        (code, pass["before"].as_u64(), pass["objects"].as_u64()),
        (Some(0), Some(0), Some(all)),
        "the next one begins anew: {said}"
    );
    assert_eq!(
        pass["mended"].as_u64(),
        Some(1),
        "what lay behind the position"
    );
    assert_eq!(place.check().0, Some(0), "{}", place.check().1);
    reads_back(&place, &files);
}

#[test]
fn a_scrub_begins_by_itself_and_a_stop_does_not_wait_for_it() {
    let (mut place, _files) = encoded_with(&["--scrub-interval-s=0"]);
    keep_stripes(&mut place);
    place.down();
    let (path, content) = rot(&place, true);
    set(&mut place, "--scrub-interval-s=1");
    place.up();
    place.until("a scrub that mends, to its end", |status| {
        let ended = status
            .scrub
            .as_ref()
            .and_then(|scrub| scrub.last_finished_s);
        ended.is_some() && fs::read(&path).expect("a shard") == content
    });
    place.down();
    set(&mut place, SLOW);
    place.up();
    place.until("another one", |status| done(status.scrub.as_ref()) > 0);
    place.down();
    set(&mut place, "--scrub-interval-s=0");
    place.up();
    place.until("the position to be read", |status| {
        done(status.scrub.as_ref()) > 0
    });
    let scrub = scrub_of(&place);
    let pass = scrub.pass.expect("it was cut");
    assert!(
        pass.progress.is_none() && pass.stripes < stripes(&place),
        "{pass:?}"
    );
    assert_eq!(scrub.next_s, None, "nothing begins by itself");
}

#[test]
fn who_asks_while_a_scrub_runs_gets_its_result() {
    let (mut place, _files) = encoded_with(&[SLOW, "--scrub-interval-s=0"]);
    keep_stripes(&mut place);
    rot(&place, false);
    place.down();
    set(&mut place, "--scrub-interval-s=1");
    place.up();
    place.until("a scrub by itself", |status| {
        done(status.scrub.as_ref()) > 0
    });
    let (code, said) = place.of(&["scrub", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let pass = report(&said);
    assert_eq!(pass["mended"].as_u64(), Some(1), "{said}");
    assert_eq!(
        pass["before"]
            .as_u64()
            .zip(pass["objects"].as_u64())
            .map(|(a, b)| a + b),
        Some(stripes(&place)),
        "{said}"
    );
}

#[test]
fn a_shard_that_is_gone_is_said_to_be_unreadable() {
    let (mut place, _files) = encoded_with(&["--scrub-interval-s=0"]);
    keep_stripes(&mut place);
    let path = parities(&place)
        .into_values()
        .next()
        .expect("a parity shard");
    fs::remove_file(&path).expect("removed");
    let (code, said) = place.of(&["scrub"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("16 pages cannot be read"), "{said}");
}
