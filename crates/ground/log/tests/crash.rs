//! Every crash that a log can meet on a simulated machine.

use env::errno::Errno;
use env::sim::crash::{Notes, Options as Look, enumerate};
use env::sim::{Effect, Operation, Trouble, World};
use env::{Dir, Rng};
use holdfast_log::{Log, LogError, LogId, Options, Record, Sequence};
use std::sync::Arc;

const ID: LogId = LogId(0x10c);
/// Small, so that a short workload rolls and recycles.
const OPTIONS: Options = Options {
    segment_bytes: 20 << 10,
};

/// What the workload was promised, or began.
#[derive(Clone, Copy, Debug)]
enum Event {
    Created,
    /// Records up to here were appended, not more: nothing later may be found.
    Appended(Sequence),
    Committed(Sequence),
    /// Records before this one may be gone.
    Truncating(Sequence),
}

/// The content of a record follows from its sequence.
fn content(sequence: Sequence) -> (u16, Vec<u8>) {
    let mut rng = Rng::new(sequence.0);
    let length = match rng.below(4) {
        0 => rng.index(50),
        1 => rng.index(600),
        2 => 4096 - 32,
        _ => rng.index(7000),
    };
    let mut payload = vec![0; length];
    rng.fill(&mut payload);
    (sequence.0 as u16, payload)
}

fn append(log: &Log, events: &Notes<Event>) -> Result<Sequence, LogError> {
    let expected = log.next_sequence();
    let (kind, payload) = content(expected);
    events.note(Event::Appended(expected));
    let sequence = log.append(kind, &payload)?;
    assert_eq!(sequence, expected);
    Ok(sequence)
}

/// Appends, commits, truncates and reopens, as the seed says.
fn work(world: &World, events: &Notes<Event>, steps: usize) {
    let mut rng = world.rng();
    let open = || {
        let dir: Arc<dyn Dir> = world.dir("store");
        Log::open(dir, "j", ID, OPTIONS)
    };
    let mut log = Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap();
    events.note(Event::Created);
    for _ in 0..steps {
        match rng.below(12) {
            0..6 => {
                append(&log, events).unwrap();
            }
            6..10 => {
                let last = append(&log, events).unwrap();
                log.commit(last).unwrap();
                events.note(Event::Committed(last));
            }
            10 => {
                let to = Sequence(log.durable_sequence().0.saturating_sub(rng.below(6)).max(1));
                events.note(Event::Truncating(to));
                log.truncate_before(to).unwrap();
            }
            _ => {
                // What was appended and not committed is gone with the process.
                let durable = log.durable_sequence();
                drop(log);
                log = open().unwrap().0;
                assert_eq!(log.next_sequence(), durable);
            }
        }
    }
}

/// Recovers and compares with what `events` promise.
fn check(world: &World, events: &[Event]) -> Result<(), String> {
    let opened = Log::open(world.dir("store"), "j", ID, OPTIONS);
    let (log, records) = match opened {
        Ok(opened) => opened,
        Err(LogError::Missing { .. }) if events.is_empty() => {
            // A creation that the crash cut must not stand in the way of another.
            let made = Log::create(world.dir("store"), "j", ID, OPTIONS);
            return made.map(drop).map_err(|error| error.to_string());
        }
        Err(error) => return Err(format!("{error}")),
    };
    let (mut appended, mut committed, mut truncated) = (0, 0, 1);
    for event in events {
        match event {
            Event::Created => {}
            Event::Appended(sequence) => appended = appended.max(sequence.0),
            Event::Committed(sequence) => committed = committed.max(sequence.0),
            Event::Truncating(sequence) => truncated = truncated.max(sequence.0),
        }
    }
    let files = world.dir("store").list().unwrap();
    if files.iter().any(|name| name.ends_with(".new")) {
        return Err(format!("half-made files are left: {files:?}"));
    }
    compare(&log, &records, truncated, committed, appended)
}

fn compare(
    log: &Log,
    records: &[Record],
    truncated: u64,
    committed: u64,
    appended: u64,
) -> Result<(), String> {
    let first = log.held().first.0;
    let next = log.next_sequence().0;
    if first > truncated.max(1) {
        return Err(format!(
            "starts at {first}, truncated only before {truncated}"
        ));
    }
    if next <= committed {
        return Err(format!("ends before {next}, committed up to {committed}"));
    }
    if next > appended + 1 {
        return Err(format!("next is {next}, appended only {appended}"));
    }
    if records.len() as u64 != next - first {
        return Err(format!("{} records for {first}..{next}", records.len()));
    }
    for (sequence, record) in (first..).zip(records) {
        let (kind, payload) = content(Sequence(sequence));
        if record.sequence.0 != sequence || record.kind != kind || record.payload != payload {
            return Err(format!("record {sequence} is not what was appended"));
        }
    }
    Ok(())
}

#[test]
fn at_every_crash_committed_records_are_there_in_order_and_whole() {
    let mut images = 0;
    for seed in 0..4 {
        let look = Look::new(seed);
        images += enumerate(&look, |world, events| work(world, events, 60), check).images;
    }
    assert!(
        images > 500 || std::env::var(env::sim::crash::SEED_VARIABLE).is_ok(),
        "{images}"
    );
}

#[test]
fn a_log_that_crashes_again_and_again_keeps_its_promises_and_its_size() {
    for seed in 0..30 {
        let world = World::new(seed);
        let mut rng = world.rng();
        drop(Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap());
        let (mut committed, mut truncated) = (0, 1);
        for _ in 0..20 {
            let (log, records) = Log::open(world.dir("store"), "j", ID, OPTIONS).unwrap();
            let next = log.next_sequence().0;
            compare(&log, &records, truncated, committed, next).unwrap();
            // What recovery returned once it must return again.
            committed = next - 1;
            for _ in 0..rng.below(8) {
                let (kind, payload) = content(log.next_sequence());
                let last = log.append(kind, &payload).unwrap();
                if rng.chance(1, 2) {
                    log.commit(last).unwrap();
                    committed = last.0;
                }
            }
            truncated = truncated.max(committed.saturating_sub(rng.below(5)));
            log.truncate_before(Sequence(truncated)).unwrap();
            let files = world.dir("store").list().unwrap().len();
            assert!(files <= 2 + 8 + 2, "{files} files");
            world.crash();
        }
    }
}

#[test]
fn a_write_that_fails_poisons_the_log_and_recovery_finds_what_was_committed() {
    for seed in 0..40 {
        let world = World::new(seed);
        let log = Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap();
        world.plan(
            Trouble::new(Operation::Write, Effect::Fail(Errno::IO)).after(world.rng().below(12)),
        );
        let mut committed = 0;
        let failed = loop {
            assert!(committed < 100, "it never fails");
            let (kind, payload) = content(log.next_sequence());
            let last = log.append(kind, &payload).unwrap();
            match log.commit(last) {
                Ok(()) => committed = last.0,
                Err(error) => break error,
            }
        };
        assert_eq!(failed.kind(), env::errno::ErrorKind::Fatal, "{failed}");
        let next = log.next_sequence();
        assert_eq!(log.durable_sequence().0, committed + 1);
        assert!(log.commit(Sequence(next.0 - 1)).is_err(), "never retried");
        assert!(matches!(log.append(1, b""), Err(LogError::Poisoned { .. })));
        assert!(matches!(
            log.truncate_before(next),
            Err(LogError::Poisoned { .. })
        ));
        if committed > 0 {
            log.commit(Sequence(committed))
                .expect("what was durable stays so");
        }
        assert_eq!(log.held().next, next, "reads go on");
        world.crash();
        let (log, records) = Log::open(world.dir("store"), "j", ID, OPTIONS).unwrap();
        compare(&log, &records, 1, committed, next.0).unwrap();
    }
}

#[test]
fn a_full_disk_loses_nothing_and_truncation_makes_room() {
    let world = World::new(1);
    let dir = world.dir("store");
    let log = Log::create(dir.clone(), "j", ID, OPTIONS).unwrap();
    world.set_capacity(Some(3 * OPTIONS.segment_bytes));
    let mut committed = 0;
    let full = loop {
        assert!(committed < 100, "it never fills");
        let (kind, payload) = content(log.next_sequence());
        let last = log.append(kind, &payload).unwrap();
        match log.commit(last) {
            Ok(()) => committed = last.0,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), env::errno::ErrorKind::NoSpace, "{full}");
    let waiting = log.next_sequence().0 - 1;
    assert_eq!(waiting, committed + 1);
    assert!(log.commit(Sequence(waiting)).is_err());
    let (kind, payload) = content(log.next_sequence());
    let last = log.append(kind, &payload).unwrap();
    log.truncate_before(Sequence(committed)).unwrap();
    log.commit(last).expect("there is room now");
    world.crash();
    let (log, records) = Log::open(world.dir("store"), "j", ID, OPTIONS).unwrap();
    compare(&log, &records, committed, last.0, last.0).unwrap();
}

#[test]
fn opening_works_on_a_full_disk() {
    let world = World::new(1);
    let log = Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap();
    let (kind, payload) = content(Sequence(1));
    log.append(kind, &payload).unwrap();
    log.commit(Sequence(1)).unwrap();
    world.set_capacity(Some(0));
    world.crash();
    let (log, records) = Log::open(world.dir("store"), "j", ID, OPTIONS).unwrap();
    compare(&log, &records, 1, 1, 1).unwrap();
}

#[test]
fn what_a_process_that_died_had_in_the_cache_and_recovery_returned_survives_a_crash() {
    let mut kept = 0;
    for seed in 0..40 {
        let world = World::new(seed);
        let log = Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap();
        // The write fails half way: part of it is in the machine's cache, nothing is promised.
        world.plan(Trouble::new(Operation::Write, Effect::Fail(Errno::IO)));
        log.append(1, b"in one sector").unwrap();
        log.commit(Sequence(1)).unwrap_err();
        world.kill();
        let found = Log::open(world.dir("store"), "j", ID, OPTIONS).unwrap().1;
        world.crash();
        let again = Log::open(world.dir("store"), "j", ID, OPTIONS).unwrap().1;
        assert_eq!(found, again);
        kept += found.len();
    }
    assert!(kept > 5, "some were found: {kept}");
}
