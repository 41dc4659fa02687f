//! A store that is replaced by an empty one, or comes back in doubt, and gets its part anew.

use super::*;
use env::Rng;
use env::errno::Errno;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};

type Result<T, E = String> = std::result::Result<T, E>;

/// What the workload has begun, or was promised.
#[derive(Clone)]
enum Event {
    /// The content, and the store that is to be replaced.
    Stands(Content, StoreIndex),
    Lost,
    Joined,
    Merging(Content),
    Merged(Content),
}

/// The name of the file with the base on a store that was replaced.
const OTHER: &str = "other";

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Empties a store: another disk in its place.
fn empty(rig: &Rig, store: StoreIndex) -> Result<()> {
    for what in ["base", "shards", "objects", "journal"] {
        let dir = dir(&rig.world, what, store);
        for file in dir.list().map_err(text)? {
            dir.remove(&file).map_err(text)?;
        }
        dir.sync().map_err(text)?;
    }
    Ok(())
}

/// Gives a store its part anew, in a file that is not the one before.
fn rebuild(rig: &Rig, stripes: &Stripes, store: StoreIndex) -> Result<Rebuilt> {
    for what in ["objects", "journal"] {
        let dir = dir(&rig.world, what, store);
        for file in dir.list().map_err(text)? {
            dir.remove(&file).map_err(text)?;
        }
    }
    let number = StoreId(1 + u128::from(store.0));
    let made = filemeta::Store::create(&rig.places(store), number, c"trusted.hfm", small());
    made.map_err(text)?.close().map_err(text)?;
    let files = dir(&rig.world, "base", store);
    match files.open(OTHER, Open::Create(BASE_AT + CHUNK)) {
        Ok(_) | Err(Errno::EXIST) => files.sync().map_err(text)?,
        Err(errno) => return Err(text(errno)),
    }
    let (site, notes) = rig.site(store)?;
    let node = || Node(OTHER.as_bytes().into());
    let rebuilt = stripes.rebuild_parts(&site, &[id(7)], &|_| Some(node()));
    let rebuilt = rebuilt.map_err(text)?;
    stripes.join(site, notes).map_err(text)?;
    Ok(rebuilt)
}

fn work(rig: &Rig, rng: &mut Rng, note: &dyn Fn(Event)) {
    let mut content = Content::new(rng, rig.layout.geometry.data());
    rig.create(&content.0);
    let (stripes, _) = rig.open(rig.stores()).expect("opens");
    let prepared = rig.prepare(&stripes, 7).expect("prepares");
    prepared.activate(|_| true).expect("stands");
    let store = StoreIndex(rng.below(u64::from(rig.layout.geometry.shards())) as u8);
    note(Event::Stands(content.clone(), store));
    let mut merge = || {
        let (next, pages) = content.change(rng);
        note(Event::Merging(next.clone()));
        stripes.merge(id(7), &writes(&pages)).expect("merges");
        note(Event::Merged(next.clone()));
        content = next;
    };
    merge();
    note(Event::Lost);
    stripes.leave(store);
    empty(rig, store).expect("empties");
    rebuild(rig, &stripes, store).expect("gets its part");
    note(Event::Joined);
    merge();
}

fn check(rig: &Rig, events: &[Event]) -> Result<()> {
    let (mut must, mut may, mut replaced, mut away) = (None, None, StoreIndex(0), false);
    for event in events {
        match event {
            Event::Stands(content, store) => (must, replaced) = (Some(content.clone()), *store),
            Event::Lost => away = true,
            Event::Joined => away = false,
            Event::Merging(content) => may = Some(content.clone()),
            Event::Merged(content) => (must, may) = (Some(content.clone()), None),
        }
    }
    let Some(must) = must else { return Ok(()) };
    let fits = |found: &Content| *found == must || Some(found) == may.as_ref();
    let mut rng = rig.world.rng();
    let (data, parity) = (rig.layout.geometry.data(), rig.layout.geometry.parity());
    let mut lost = StoreMask::default();
    if away {
        // Nobody believes it before it has joined.
        lost = StoreMask::only(replaced);
    }
    while lost.count() < usize::from(parity) && rng.chance(2, 3) {
        lost = lost.with(StoreIndex(rng.below(u64::from(data + parity)) as u8));
    }
    let (stripes, _) = rig.open(rig.stores().minus(lost))?;
    let found = read_all(&stripes, 7, data, true).map_err(|e| format!("without {lost:?}: {e}"))?;
    if !fits(&found) {
        return Err(format!("without {lost:?}: neither as before nor as after"));
    }
    for store in lost.iter().filter(|store| !(away && *store == replaced)) {
        let (site, notes) = rig.site(store)?;
        stripes.join(site, notes).map_err(text)?;
    }
    if away {
        rebuild(rig, &stripes, replaced)?;
    }
    let again = read_all(&stripes, 7, data, true).map_err(|e| format!("with all again: {e}"))?;
    let others = read_all(&stripes, 7, data, false).map_err(|e| format!("decoding: {e}"))?;
    if again != found || others != found {
        return Err("with all again something else is read".to_owned());
    }
    let report = stripes.scrub(id(7), false).map_err(text)?;
    match report.lost + report.contradictions + report.unread {
        0 => Ok(()),
        _ => Err(format!("a scrub finds {report:?}")),
    }
}

fn look(geometry: Geometry, plant: Planted, look: &Look) -> Result<Report, Failure> {
    search(
        look,
        |world, notes: &Notes<Event>| {
            let rig = Rig {
                plant,
                ..Rig::new(world, geometry)
            };
            work(&rig, &mut world.rng(), &|event| notes.note(event));
        },
        |world, events| check(&Rig::new(world, geometry), events),
    )
}

fn options(seed: u64) -> Look {
    Look {
        samples_per_cut: 2,
        cuts_max: 60,
        ..Look::new(seed)
    }
}

#[test]
fn a_store_gets_its_part_anew_whenever_a_crash_comes() {
    for seed in 1..=2 {
        for (data, parity) in [(2, 1), (1, 1), (3, 2)] {
            let geometry = Geometry::new(data, parity).expect("a geometry");
            let looked = look(geometry, Planted::Nothing, &options(seed));
            let report = looked.unwrap_or_else(|failure| panic!("{data}+{parity}: {failure}"));
            assert!(report.images > 80, "{report:?}");
        }
    }
}

#[test]
fn a_part_that_is_not_synced_is_found() {
    let geometry = Geometry::new(2, 1).expect("a geometry");
    let found =
        (1..=8).find_map(|seed| look(geometry, Planted::RebuildsUnsynced, &options(seed)).err());
    println!("{}", found.expect("somebody notices"));
}

/// A start that finds the headers of the others as they were before believes the store's own, and
/// mends them.
#[test]
fn the_word_of_a_store_counts_for_its_own_files() {
    for replaced in [StoreIndex(0), StoreIndex(1)] {
        let world = World::new(11);
        let rig = Rig::new(&world, Geometry::new(2, 1).expect("a geometry"));
        let content = Content::new(&mut world.rng(), 2);
        rig.create(&content.0);
        let (stripes, _) = rig.open(rig.stores()).expect("opens");
        let prepared = rig.prepare(&stripes, 7).expect("prepares");
        prepared.activate(|_| true).expect("stands");
        let header = |store: u8| {
            let shards = dir(&world, "shards", StoreIndex(store));
            let disk = shards.open(&shard::name(id(7), Shard(store)), Open::Write);
            disk.expect("a shard")
        };
        let mut before = vec![0; shard::Form::default().header_bytes(&rig.layout) as usize];
        header(2).read_at(0, &mut before).expect("reads");
        stripes.leave(replaced);
        empty(&rig, replaced).expect("empties");
        let rebuilt = rebuild(&rig, &stripes, replaced).expect("gets its part");
        assert_eq!((rebuilt.made.len(), rebuilt.left.len()), (1, 0));
        header(2).write_at(0, &before).expect("writes");
        drop(stripes);
        for _ in 0..2 {
            let (stripes, report) = rig.open(rig.stores()).expect("opens");
            assert_eq!((report.whole, report.incomplete.len()), (1, 0));
            assert!(read_all(&stripes, 7, 2, true).expect("reads") == content);
            assert_eq!(stripes.scrub(id(7), false).expect("scrubs").unread, 0);
        }
        let mut after = vec![0; before.len()];
        header(2).read_at(0, &mut after).expect("reads");
        assert!(after != before, "the header is as it was");
    }
}

#[test]
fn a_store_without_the_file_has_no_part_and_too_little_is_an_error() {
    let world = World::new(12);
    let rig = Rig::new(&world, Geometry::new(2, 1).expect("a geometry"));
    rig.create(&Content::new(&mut world.rng(), 2).0);
    let (stripes, _) = rig.open(rig.stores()).expect("opens");
    let prepared = rig.prepare(&stripes, 7).expect("prepares");
    let stripe = prepared.activate(|_| true).expect("stands");
    let (away, other) = (StoreIndex(0), StoreIndex(1));
    stripes.leave(away);
    let (site, _notes) = rig.site(away).expect("a site");
    let rebuilt = stripes.rebuild_parts(&site, &[id(7)], &|_| None);
    assert_eq!(rebuilt.expect("nothing failed").left, [id(7)]);
    assert!(stripes.stands_without(&stripe[0], away));
    stripes.leave(other);
    assert!(!stripes.stands_without(&stripe[0], away));
    let node = || Some(Node(b"file".as_slice().into()));
    let rebuilt = stripes.rebuild_parts(&site, &[id(7)], &|_| node());
    let error = rebuilt.expect_err("one shard is left");
    assert!(matches!(error, StripeError::TooFew { .. }), "{error}");
}

/// Lays the shard files of a stripe out as version 1 does.
fn as_version_1(rig: &Rig) {
    for (shard, slot) in rig.layout.shards() {
        let store = slot.store().expect("one for each shard");
        let (shards, file) = (dir(&rig.world, "shards", store), shard::name(id(7), shard));
        let disk = shards.open(&file, Open::Read).expect("a shard");
        let mut bytes = vec![0; disk.len().expect("a length") as usize];
        disk.read_at(0, &mut bytes).expect("reads");
        let mut header = shard::Header::decode(&bytes[..4096], Some(SET)).expect("a header");
        assert_eq!(header.form, shard::Form::Together);
        let sums = header.form.sums_offset(&rig.layout) as usize;
        let parity = header.form.data_offset(&rig.layout) as usize;
        header.form = shard::Form::Apart;
        let mut old = header.encode(SET).expect("fits");
        old.extend_from_slice(&bytes[sums..parity]);
        old.resize(8192, 0);
        old.extend_from_slice(&bytes[parity..]);
        drop(disk);
        shards.remove(&file).expect("removes");
        let disk = shards.open(&file, Open::Create(old.len() as u64));
        let disk = disk.expect("a file");
        disk.write_at(0, &old).expect("writes");
        disk.sync().expect("syncs");
        shards.sync().expect("syncs");
    }
}

#[test]
fn shards_of_version_1_are_read_mended_and_made_again_as_such() {
    let world = World::new(13);
    let rig = Rig::new(&world, Geometry::new(2, 1).expect("a geometry"));
    let content = Content::new(&mut world.rng(), 2);
    rig.create(&content.0);
    let (stripes, _) = rig.open(rig.stores()).expect("opens");
    let prepared = rig.prepare(&stripes, 7).expect("prepares");
    prepared.activate(|_| true).expect("stands");
    drop(stripes);
    as_version_1(&rig);
    let replaced = StoreIndex(2);
    for anew in [true, false] {
        let (stripes, report) = rig.open(rig.stores()).expect("opens");
        assert_eq!((report.whole, report.damaged), (1, Vec::new()));
        let parity = shard::name(id(7), Shard(2));
        assert!(world.rot("shards2", &parity, 8192 + 17, 3));
        assert!(world.rot("base0", "file", BASE_AT + 4096, 3));
        let mended = stripes.scrub(id(7), true).expect("scrubs");
        assert_eq!((mended.mended, mended.lost, mended.unread), (2, 0, 0));
        assert!(read_all(&stripes, 7, 2, true).expect("reads") == content);
        if anew {
            stripes.leave(replaced);
            empty(&rig, replaced).expect("empties");
            let rebuilt = rebuild(&rig, &stripes, replaced).expect("gets its part");
            assert_eq!(rebuilt.made.len(), 1);
        }
    }
}
