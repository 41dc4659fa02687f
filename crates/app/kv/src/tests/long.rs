//! Entries that are longer than the log takes, with a bound that a test reaches.

use super::{ask, open_with, send};
use crate::{Config, Engine, Policy, Token};
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};

const BYTES_MAX: usize = 4000;

fn open(world: &World) -> (Engine, Token) {
    let mut config = Config::default();
    config.entry_bytes_max = BYTES_MAX;
    let (mut engine, client) = open_with(world, Policy::Always, config);
    engine.session_mut(client).unwrap().reply.clear();
    (engine, client)
}

#[test]
fn what_would_be_too_long_is_refused_and_all_else_goes_on() {
    let world = World::new(1);
    let (mut engine, client) = open(&world);
    let piece = "x".repeat(100);
    let mut count = 0;
    let refused = loop {
        let said = ask(&mut engine, client, &format!("RPUSH l {count}{piece}"));
        if said.starts_with('-') {
            break said;
        }
        count += 1;
        assert!(count < 100);
    };
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(count > 25, "{count}");
    assert_eq!(ask(&mut engine, client, "LLEN l"), format!(":{count}"));
    assert_eq!(ask(&mut engine, client, "SET k v"), "+OK");
    // What only the result shows is made in memory, and is said; nothing else is held up by it.
    let copied = ask(&mut engine, client, "SORT l BY none STORE m");
    assert_eq!(copied, format!(":{count}"));
    send(&mut engine, client, "MULTI");
    for at in 0..60 {
        send(&mut engine, client, &format!("SADD s {at}{piece}"));
    }
    engine.session_mut(client).unwrap().reply.clear();
    let made = ask(&mut engine, client, "EXEC");
    assert!(made.starts_with("-MISCONF"), "{made}");
    assert!(ask(&mut engine, client, "SADD s more").starts_with("-ERR"));
    assert_eq!(ask(&mut engine, client, "SET k w"), "+OK");
    // It is in the log again as soon as it fits.
    let before = ask(&mut engine, client, "SCARD s");
    assert_eq!(before, ":60");
    send(&mut engine, client, "SPOP s 40");
    engine.session_mut(client).unwrap().reply.clear();
    assert_eq!(ask(&mut engine, client, "SADD s more"), ":1");
    let contents = engine.contents();
    engine.close().unwrap();
    let (engine, _) = open(&world);
    assert_eq!(engine.contents(), contents);
}

#[test]
fn a_transaction_of_more_than_a_group_takes_is_in_the_log() {
    let world = World::new(2);
    let (mut engine, client) = open(&world);
    send(&mut engine, client, "SET gone v");
    send(&mut engine, client, "MULTI");
    for key in ["a", "b", "c"] {
        let piece = "x".repeat(3000);
        send(&mut engine, client, &format!("HSET {key} f {piece}"));
    }
    send(&mut engine, client, "DEL gone");
    engine.session_mut(client).unwrap().reply.clear();
    assert_eq!(ask(&mut engine, client, "EXEC"), "*4 :1 :1 :1 :1");
    let contents = engine.contents();
    engine.close().unwrap();
    let (engine, _) = open(&world);
    assert_eq!(engine.contents(), contents);
}

#[derive(Clone, Debug)]
enum Event {
    /// A command ran, and all entries together are this now.
    Ran(String),
    /// All that ran is answered.
    Answered,
}

/// Grows and shrinks a few collections around the bound.
fn work(world: &World, notes: &Notes<Event>) {
    let mut rng = world.rng();
    let (mut engine, client) = open(world);
    let mut refused = 0;
    for _ in 0..120 {
        let key = rng.below(2);
        let piece = "y".repeat(rng.index(600));
        let line = match rng.below(9) {
            0..6 => format!("RPUSH l{key} {piece}"),
            6 => format!("LTRIM l{key} 0 {}", rng.below(20)),
            7 => format!("SET k{key} {}", rng.below(1000)),
            _ => format!("LPOP l{key}"),
        };
        send(&mut engine, client, &line);
        notes.note(Event::Ran(engine.contents()));
        if rng.chance(1, 2) {
            engine.log().unwrap().flush(0).unwrap();
            engine.log().unwrap().sync(0).unwrap();
        }
        engine.note_durable();
        let ready = engine.ready(client);
        let session = engine.session(client).unwrap();
        refused += usize::from(session.reply.bytes().first() == Some(&b'-'));
        if ready == session.reply.len() {
            notes.note(Event::Answered);
        }
        engine.sent(client, ready);
    }
    assert!(refused > 0, "the bound is reached");
}

fn check(world: &World, events: &[Event]) -> Result<(), String> {
    let (engine, _) = open(world);
    let found = engine.contents();
    let mut allowed = vec![String::new()];
    for event in events {
        match event {
            Event::Ran(state) => allowed.push(state.clone()),
            Event::Answered => allowed.drain(..allowed.len() - 1).for_each(drop),
        }
    }
    match allowed.contains(&found) {
        true => Ok(()),
        false => Err(format!("none of {} states:\n{found}", allowed.len())),
    }
}

fn run(seed: u64) -> Result<Report, Failure> {
    let mut look = Look::new(seed);
    look.cuts_max = 150;
    search(&look, work, check)
}

#[test]
fn at_every_crash_around_the_bound_a_start_finds_what_was_answered() {
    let report = run(3).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 100 || std::env::var(env::sim::crash::SEED_VARIABLE).is_ok());
}

#[test]
fn a_read_is_answered_while_a_change_waits_for_the_log() {
    let world = World::new(4);
    let (mut engine, client) = open(&world);
    assert_eq!(ask(&mut engine, client, "SET k v"), "+OK");
    engine.log().unwrap().flush(0).unwrap();
    world.set_capacity(Some(1));
    let mut count = 0;
    let refused = loop {
        let said = ask(
            &mut engine,
            client,
            &format!("SET k{count} {}", "x".repeat(3000)),
        );
        if said.starts_with('-') {
            break said;
        }
        count += 1;
        assert!(count < 1000);
    };
    // It came between a disk that was full and the answer that it is.
    assert!(
        refused.contains("made in memory, and not in the log"),
        "{refused}"
    );
    assert_eq!(ask(&mut engine, client, "GET k"), "$1 v");
    let again = ask(&mut engine, client, "SET k w");
    assert!(again.starts_with("-MISCONF Writes are refused"), "{again}");
    world.set_capacity(None);
    let mut tries = 0;
    while ask(&mut engine, client, "SET k w") != "+OK" {
        // It is looked at again when the log writes.
        let _ = engine.log().unwrap().flush(0);
        tries += 1;
        assert!(tries < 100);
    }
    let contents = engine.contents();
    engine.close().unwrap();
    let (engine, _) = open(&world);
    assert_eq!(engine.contents(), contents);
}
