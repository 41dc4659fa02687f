//! Every crash that a server can meet.

use super::{open, send};
use crate::Policy;
use env::Rng;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};

#[derive(Clone, Debug)]
enum Event {
    /// The log was opened, and all entries together are this.
    Opened(String),
    /// A command ran, and all entries together are this now.
    Ran(String),
    /// Of the commands since it was opened the first so many are answered.
    Answered(usize),
}

/// A command for a few keys.
fn command(rng: &mut Rng) -> String {
    let key = format!("key{}", rng.below(6));
    let other = format!("key{}", rng.below(6));
    let (field, number) = (rng.below(40), rng.below(1000));
    let long = "x".repeat(rng.index(300));
    match rng.below(40) {
        0..3 => format!("SET {key} {number}{long}"),
        3 => format!("INCR {key}"),
        4 => format!("APPEND {key} {}", "y".repeat(1500)),
        5..9 => format!("HSET h{key} f{field} {number}{long}"),
        9 => format!("HDEL h{key} f{field}"),
        10..12 => format!("RPUSH l{key} {number}{long}"),
        12 => format!("LPOP l{key}"),
        13..15 => format!("SADD s{key} m{field}{long}"),
        15 => format!("SPOP s{key}"),
        16 => format!("DEL {key} h{other}"),
        17 => format!("RENAME h{key} h{other}"),
        18 => format!("PEXPIREAT h{key} {}", 1_800_000_000_000u64 + number),
        19 => format!("MSET {key} {number} {other} {number}"),
        20 => format!("LMOVE l{key} l{other} LEFT RIGHT"),
        21 => format!("SMOVE s{key} s{other} m{field}"),
        22 => format!("COPY h{key} {other} REPLACE"),
        23..25 => format!("ZADD z{key} {number} m{field}{long}"),
        25 => format!("ZPOPMIN z{key}"),
        26 => format!("ZINCRBY z{key} {number} m{field}"),
        27 => format!("SETRANGE {key} {number} z"),
        30..33 => format!("XADD x{key} * f{field} {number}{long}"),
        33 => match rng.below(3) {
            0 => format!("XADD x{key} MAXLEN ~ 3 * f{field} {number}"),
            1 => format!("XTRIM x{key} MINID {}-0", 1_700_000_000_000u64 + number),
            _ => format!("XDEL x{key} 1700000000000-{}", rng.below(9)),
        },
        34 => format!("XGROUP CREATE x{key} g 0 MKSTREAM"),
        35 => format!(
            "XREADGROUP GROUP g c{} COUNT 2 STREAMS x{key} >",
            number % 3
        ),
        36 => format!("XREADGROUP GROUP g c1 STREAMS x{key} 0"),
        37 => format!("XACK x{key} g 1700000000000-{}", rng.below(9)),
        38 => match rng.below(3) {
            0 => format!("XAUTOCLAIM x{key} g c{} 0 0", number % 3),
            1 => format!("XCLAIM x{key} g c0 0 1700000000000-1 FORCE LASTID 5"),
            _ => format!("XSETID x{key} 1800000000000-{number}"),
        },
        39 => format!("XGROUP DELCONSUMER x{key} g c{}", number % 3),
        28 => format!("ZUNIONSTORE z{key} 2 z{key} z{other}"),
        _ => match rng.below(6) {
            0 => "FLUSHDB".to_owned(),
            1 => "SWAPDB 0 1".to_owned(),
            _ => format!("PERSIST h{key}"),
        },
    }
}

/// A script of several commands, which is all or nothing.
fn script(rng: &mut Rng) -> String {
    let lines: Vec<String> = (0..2 + rng.below(4)).map(|_| command(rng)).collect();
    let calls = lines.iter().map(|line| {
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        format!("redis.pcall({})", words.join(","))
    });
    format!("EVAL \"{}\" 0", calls.collect::<Vec<_>>().join(" "))
}

/// A bug that is planted, and has to be found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// Replies do not wait.
    Hasty,
    /// Each command of a script is a group of its own.
    Apart,
}

fn work(world: &World, notes: &Notes<Event>, count: usize, bug: Bug) {
    let mut rng = world.rng();
    let (mut engine, mut client) = open(world, Policy::Always);
    notes.note(Event::Opened(engine.contents()));
    let (mut ran, mut answered) = (0, 0);
    for _ in 0..count {
        match bug {
            Bug::None => {}
            Bug::Hasty => engine.plant_hasty_replies(),
            Bug::Apart => engine.plant_scripts_apart(),
        }
        match rng.below(25) {
            0..14 => {
                send(&mut engine, client, &command(&mut rng));
                ran += 1;
                notes.note(Event::Ran(engine.contents()));
            }
            14 => {
                send(&mut engine, client, "MULTI");
                for _ in 0..1 + rng.below(4) {
                    send(&mut engine, client, &command(&mut rng));
                }
                send(&mut engine, client, "EXEC");
                ran += 1;
                notes.note(Event::Ran(engine.contents()));
            }
            15 => engine.log().unwrap().flush(0).unwrap(),
            16..18 => {
                let log = engine.log().unwrap();
                log.flush(0).unwrap();
                log.sync(0).unwrap();
            }
            19..22 => {
                send(&mut engine, client, &script(&mut rng));
                ran += 1;
                notes.note(Event::Ran(engine.contents()));
            }
            22..24 => {
                let (name, number) = (rng.below(3), rng.below(1000));
                let code =
                    format!("redis.register_function('f{name}',function() return {number} end)");
                send(
                    &mut engine,
                    client,
                    &match rng.below(3) {
                        0 => format!("FUNCTION DELETE lib{name}"),
                        _ => format!("FUNCTION LOAD REPLACE \"#!lua name=lib{name}\\n{code}\""),
                    },
                );
                ran += 1;
                notes.note(Event::Ran(engine.contents()));
            }
            18 => while engine.log().unwrap().compact(30).unwrap().is_some() {},
            _ if rng.chance(1, 3) => {
                if rng.chance(1, 2) {
                    engine.close().unwrap();
                }
                drop(engine);
                (engine, client) = open(world, Policy::Always);
                (ran, answered) = (0, 0);
                notes.note(Event::Opened(engine.contents()));
            }
            _ => {}
        }
        engine.note_durable();
        let ready = engine.ready(client);
        if ready == engine.session(client).unwrap().reply.len() && answered < ran {
            answered = ran;
            notes.note(Event::Answered(ran));
        }
        engine.sent(client, ready);
    }
}

fn check(world: &World, events: &[Event]) -> Result<(), String> {
    let (engine, _) = open(world, Policy::Always);
    let found = engine.contents();
    let opened = |event: &Event| matches!(event, Event::Opened(_));
    let last = events.iter().rposition(opened);
    let mut states = Vec::new();
    let mut answered = 0;
    match last {
        None => states.push(String::new()),
        Some(last) => {
            for event in &events[last..] {
                match event {
                    Event::Opened(state) | Event::Ran(state) => states.push(state.clone()),
                    Event::Answered(count) => answered = *count,
                }
            }
        }
    }
    match states.iter().skip(answered).any(|state| *state == found) {
        true => Ok(()),
        false => Err(format!(
            "{} commands ran, {answered} were answered, and what is there is the state after none \
             of the others:\n{found}\nafter the answered ones:\n{}",
            states.len() - 1,
            states[answered]
        )),
    }
}

fn run(seed: u64, count: usize, cuts: usize, bug: Bug) -> Result<Report, Failure> {
    let mut look = Look::new(seed);
    look.cuts_max = cuts;
    search(&look, |world, notes| work(world, notes, count, bug), check)
}

#[test]
fn at_every_crash_what_is_there_is_a_prefix_of_the_commands_with_all_that_were_answered() {
    let mut images = 0;
    for seed in 0..4 {
        let report = run(seed, 150, 250, Bug::None).unwrap_or_else(|failure| panic!("{failure}"));
        images += report.images;
    }
    assert!(
        images > 1000 || std::env::var(env::sim::crash::SEED_VARIABLE).is_ok(),
        "{images}"
    );
}

#[test]
fn replies_that_do_not_wait_are_found() {
    let found = (0..20).find_map(|seed| run(seed, 60, 200, Bug::Hasty).err());
    let failure = found
        .expect("a reply in front of its durability loses something")
        .to_string();
    assert!(failure.contains("were answered"), "{failure}");
}

#[test]
fn scripts_whose_commands_are_groups_of_their_own_are_found() {
    let found = (0..20).find_map(|seed| run(seed, 60, 200, Bug::Apart).err());
    let failure = found.expect("a script is cut in two").to_string();
    assert!(failure.contains("none of the others"), "{failure}");
}
