use super::dirty::Manner;
use super::*;
use env::Dir;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};

const SET: u128 = 0x5e7;
const NAMES: [&str; 3] = ["a", "b", "c"];

fn index(place: usize) -> StoreIndex {
    StoreIndex(place as u8)
}

fn dir(world: &World, place: usize) -> Arc<dyn Dir> {
    world.dir(NAMES[place])
}

fn id_of(place: usize) -> LogId {
    log_id(SET, index(place), 0)
}

fn made(world: &World, place: usize) -> (StoreIndex, Arc<Log>) {
    let log = Journal::create_log(dir(world, place), id_of(place)).unwrap();
    (index(place), log)
}

/// What the journal of a store says after a restart.
fn replayed(world: &World, place: usize) -> Result<DirtySet, JournalError> {
    open_log(dir(world, place), id_of(place)).map(|(_, state)| state)
}

fn region(id: u64, number: u32) -> Entry {
    Entry::Region(ObjectId(id), number)
}

fn place(name: &str) -> Place {
    Place {
        name: name.into(),
        ..Place::default()
    }
}

fn rename() -> Rename {
    Rename {
        moving: ObjectId(7),
        target: ObjectId(8),
        from: ObjectId(1),
        from_name: b"a".to_vec(),
        to: ObjectId(1),
        to_name: b"b".to_vec(),
        manner: Manner::Replace { both: StoreMask(2) },
    }
}

/// A journal on the first two stores.
fn pair(world: &World) -> Journal {
    let logs = vec![made(world, 0), made(world, 1)];
    Journal::new(logs, ObjectId(100), 0, false)
}

fn touch(journal: &Journal, entry: Entry) {
    journal.touch(entry, 0xff, || place("f")).unwrap();
}

/// What the workload has been promised, or is about to give up.
#[derive(Clone, Debug)]
enum Note {
    Touched(Entry),
    Renamed,
    /// A checkpoint that is about to end drops these.
    Dropping(DirtySet),
    Joined(usize),
    Left(usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// A touch does not wait until its record is durable.
    ForgetsTheCommit,
    /// A checkpoint drops what was touched while it ran, too.
    DropsTooMuch,
}

fn workload(world: &World, notes: &Notes<Note>, bug: Bug) {
    let journal = pair(world);
    for store in 0..2 {
        notes.note(Note::Joined(store));
    }
    let touched = |entry| {
        if bug == Bug::ForgetsTheCommit {
            let record = Record::Touch(vec![(entry, 0xff)], Vec::new());
            journal.active.lock().append(&record).unwrap();
        } else {
            touch(&journal, entry);
        }
        notes.note(Note::Touched(entry));
    };
    touched(Entry::Names(ObjectId(1)));
    touched(region(7, 0));
    journal.rename(rename()).unwrap();
    notes.note(Note::Renamed);
    let sweep = journal.begin_sweep(ObjectId(200));
    touched(region(7, 0));
    touched(region(7, 1));
    if bug == Bug::DropsTooMuch {
        journal.active.lock().entries.clear();
    }
    notes.note(Note::Dropping(sweep.settled.clone()));
    journal.end_sweep(&sweep).unwrap();
    notes.note(Note::Touched(region(7, 0)));
    journal.leave(index(1));
    notes.note(Note::Left(1));
    touched(Entry::Tail(ObjectId(9), 3));
    let (store, log) = made(world, 2);
    journal.join(store, log).unwrap();
    notes.note(Note::Joined(2));
    touched(Entry::Attributes(ObjectId(9)));
}

/// Every store that is a member says all that was acknowledged and not dropped.
fn check(world: &World, notes: &[Note]) -> Result<(), String> {
    let mut members = Vec::new();
    let mut expected = Vec::new();
    let mut renamed = false;
    for (at, note) in notes.iter().enumerate() {
        match note {
            Note::Joined(store) => members.push(*store),
            Note::Left(store) => members.retain(|s| s != store),
            Note::Renamed => renamed = true,
            Note::Touched(entry) => expected.push((at, *entry)),
            Note::Dropping(settled) => {
                // What was touched again since the sweep began is still wanted.
                let begun = notes.iter().position(|n| matches!(n, Note::Renamed));
                expected.retain(|(at, e)| Some(*at) > begun || !settled.entries.contains_key(e));
                renamed = false;
            }
        }
    }
    for store in members {
        let state = replayed(world, store).map_err(|e| format!("store {store}: {e}"))?;
        if let Some((_, lost)) = expected
            .iter()
            .find(|(_, e)| !state.entries.contains_key(e))
        {
            return Err(format!("store {store} lost {lost:?}"));
        }
        if renamed && state.renames.is_empty() {
            return Err(format!("store {store} lost the rename"));
        }
    }
    Ok(())
}

fn look(bug: Bug) -> Result<Report, Failure> {
    let mut options = Look::new(11);
    options.samples_per_cut = 2;
    options.cuts_max = 150;
    options.crash_in_recovery = false;
    search(&options, |world, notes| workload(world, notes, bug), check)
}

#[test]
fn no_crash_loses_a_touch_that_was_acknowledged_and_not_dropped() {
    let report = look(Bug::None).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 50, "{report:?}");
}

#[test]
fn a_touch_that_does_not_wait_is_found() {
    let failure = look(Bug::ForgetsTheCommit).expect_err("the canary was not found");
    assert!(failure.complaint.contains("lost"), "{failure}");
}

#[test]
fn a_checkpoint_that_drops_too_much_is_found() {
    let failure = look(Bug::DropsTooMuch).expect_err("the canary was not found");
    assert!(failure.complaint.contains("lost"), "{failure}");
}

#[test]
fn a_checkpoint_keeps_what_was_touched_since_it_began() {
    let world = World::new(1);
    let journal = pair(&world);
    touch(&journal, region(7, 0));
    touch(&journal, region(8, 0));
    let sweep = journal.begin_sweep(ObjectId(200));
    assert_eq!(sweep.settled.entries.len(), 2);
    assert_eq!(sweep.settled.mark, ObjectId(100), "younger objects, too");
    touch(&journal, region(8, 0));
    journal.end_sweep(&sweep).unwrap();
    let active = journal.active();
    assert!(active.entries.keys().eq([&region(8, 0)]));
    assert_eq!(active.mark, ObjectId(200));
    drop(journal);
    for store in 0..2 {
        let state = replayed(&world, store).unwrap();
        assert_eq!(state.entries, active.entries);
        assert_eq!(state.places, active.places, "its place is kept with it");
        assert_eq!(state.mark, ObjectId(200));
    }
}

#[test]
fn objects_from_the_mark_on_need_no_touch() {
    let world = World::new(1);
    let journal = pair(&world);
    assert!(!journal.implicit(ObjectId(99)));
    assert!(journal.implicit(ObjectId(100)));
    let sweep = journal.begin_sweep(ObjectId(200));
    // The journal still says 100, so these would be compared: but the new epoch needs its touches.
    assert!(!journal.implicit(ObjectId(150)));
    assert_eq!(journal.durable_mark(), ObjectId(100));
    journal.end_sweep(&sweep).unwrap();
    assert_eq!(journal.durable_mark(), ObjectId(200));
}

#[test]
fn a_second_touch_of_an_entry_writes_nothing() {
    let world = World::new(1);
    let journal = pair(&world);
    touch(&journal, region(7, 0));
    let next = |journal: &Journal| journal.active.lock().logs[0].1.next_sequence();
    let before = next(&journal);
    touch(&journal, region(7, 0));
    assert_eq!(next(&journal), before);
    assert_eq!(journal.len(), 1);
}

#[test]
fn a_failing_store_is_named_and_the_touch_is_repeated_without_it() {
    let world = World::new(1);
    let journal = pair(&world);
    world.set_present("b", false);
    let Err(Failed(stores)) = journal.touch(region(7, 0), 1, || place("f")) else {
        panic!("the touch must not be acknowledged");
    };
    assert!(stores.iter().all(|(s, _)| *s == index(1)), "{stores:?}");
    journal.leave(index(1));
    touch(&journal, region(7, 0));
    drop(journal);
    let state = replayed(&world, 0).unwrap();
    assert!(state.entries.contains_key(&region(7, 0)));
}

#[test]
fn a_store_that_joins_gets_what_is_active() {
    let world = World::new(1);
    let journal = pair(&world);
    touch(&journal, region(7, 0));
    journal.rename(rename()).unwrap();
    let (store, log) = made(&world, 2);
    journal.join(store, log).unwrap();
    touch(&journal, region(7, 1));
    drop(journal);
    let state = replayed(&world, 2).unwrap();
    let first = replayed(&world, 0).unwrap();
    assert_eq!(state.mark, ObjectId(100));
    assert_eq!(
        (state.entries, state.renames),
        (first.entries, first.renames)
    );
}

#[test]
fn an_object_that_moved_is_found_at_its_new_place() {
    let world = World::new(1);
    let journal = pair(&world);
    touch(&journal, region(7, 0));
    journal.moved(ObjectId(7), place("new")).unwrap();
    journal.moved(ObjectId(8), place("unknown")).unwrap();
    assert_eq!(journal.active().places.len(), 1);
    assert_eq!(journal.active().places[&ObjectId(7)].name, b"new");
}

#[test]
fn a_journal_in_place_of_a_damaged_one_says_that_everything_may_differ() {
    let world = World::new(1);
    drop(made(&world, 0));
    drop(Journal::replace_log(dir(&world, 0), id_of(0)).unwrap());
    assert!(replayed(&world, 0).unwrap().is_everything());
}

#[test]
fn a_journal_of_another_version_is_refused() {
    let world = World::new(1);
    let (_, log) = made(&world, 0);
    let sequence = log.append(KIND + 1, b"").unwrap();
    log.commit(sequence).unwrap();
    drop(log);
    let refused = replayed(&world, 0);
    assert!(
        matches!(
            refused,
            Err(JournalError::Record(RecordError::Kind { kind: 2, .. }))
        ),
        "{refused:?}"
    );
}

#[test]
fn a_dirty_log_grows_and_belongs_to_one_departure() {
    let world = World::new(1);
    let dirs = || vec![(index(0), dir(&world, 0)), (index(1), dir(&world, 1))];
    let away = |generation| Away {
        set: SET,
        store: index(2),
        generation,
    };
    let mut known = DirtySet::since(ObjectId(50));
    known.add(region(7, 0), 0b101, Some(&place("f")));
    let log = DirtyLog::start(away(5), 1, dirs(), &known).unwrap();
    assert!(log.covers(StoreMask(0b011)) && !log.covers(StoreMask(0b111)));
    let mut more = DirtySet::since(ObjectId(90));
    for number in 0..200 {
        more.add(region(8, number), 1, None);
    }
    more.add(region(7, 0), 0b010, None);
    more.renames.push(rename());
    log.append(&more, StoreMask(0b011)).unwrap();
    drop(log);
    known.merge(&more);
    for store in 0..2 {
        let read = DirtyLog::read(&dir(&world, store), away(5)).unwrap();
        assert_eq!(read.as_ref(), Some(&known));
    }
    let later = DirtyLog::read(&dir(&world, 0), away(6)).unwrap();
    assert_eq!(later, None, "another departure has a log of its own");
    // Its successor takes its place, and what the first one knew is not lost meanwhile.
    let next = DirtyLog::start(away(5), 2, dirs(), &known).unwrap();
    drop(next);
    let files = dir(&world, 0).list().unwrap();
    assert!(
        files.iter().all(|f| !f.starts_with("dirty-2-5-1.")),
        "{files:?}"
    );
    let read = DirtyLog::read(&dir(&world, 0), away(5)).unwrap();
    assert_eq!(read.as_ref(), Some(&known));
    DirtyLog::remove_others(index(2), &dirs(), None);
    let gone = DirtyLog::read(&dir(&world, 0), away(5)).unwrap();
    assert_eq!(gone, None);
}
