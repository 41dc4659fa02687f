//! What a start makes of a log.

use super::{ask, open, open_with, send};
use crate::{Config, Policy};
use env::sim::World;

#[test]
fn a_start_with_less_memory_than_the_log_has_loses_nothing() {
    let world = World::new(1);
    let (mut engine, client) = open(&world, Policy::No);
    for number in 0..50 {
        send(
            &mut engine,
            client,
            &format!("HSET h f{number} {}", "x".repeat(100)),
        );
    }
    // The last of them are changes of a whole.
    let before = engine.contents();
    engine.close().unwrap();
    for policy in ["noeviction", "allkeys-random"] {
        let mut config = Config::default();
        config.set("maxmemory", "1").unwrap();
        config.set("maxmemory-policy", policy).unwrap();
        let (mut engine, _) = open_with(&world, Policy::No, config);
        assert_eq!(engine.contents(), before, "{policy}");
        engine.close().unwrap();
    }
}

#[test]
fn times_are_kept_and_what_is_over_goes_after_the_start() {
    let world = World::new(2);
    let (mut engine, client) = open(&world, Policy::No);
    send(
        &mut engine,
        client,
        &format!("RPUSH l {}", "x ".repeat(2000)),
    );
    send(&mut engine, client, "PEXPIREAT l 1700000000500");
    send(&mut engine, client, "RPUSH l last");
    send(&mut engine, client, "SET k v PXAT 1700000000500");
    engine.close().unwrap();
    let (mut engine, client) = open(&world, Policy::No);
    engine.session_mut(client).unwrap().reply.clear();
    assert_eq!(ask(&mut engine, client, "LLEN l"), ":2001");
    assert_eq!(ask(&mut engine, client, "PEXPIRETIME l"), ":1700000000500");
    engine.set_time(1_700_000_000_500, 0);
    engine.sweep();
    assert_eq!(ask(&mut engine, client, "DBSIZE"), ":0");
    engine.close().unwrap();
    let (engine, _) = open(&world, Policy::No);
    assert_eq!(engine.contents(), "");
}

#[test]
fn what_changed_and_then_moved_in_one_transaction_is_there_after_the_start() {
    let world = World::new(3);
    let (mut engine, client) = open(&world, Policy::No);
    for line in [
        "SET k before",
        "MULTI",
        "SET k after",
        "SWAPDB 0 1",
        "SET k other",
        "EXEC",
        "SET last 1",
    ] {
        send(&mut engine, client, line);
    }
    let before = engine.contents();
    engine.close().unwrap();
    let (engine, _) = open(&world, Policy::No);
    assert_eq!(engine.contents(), before);
}

#[test]
fn libraries_of_functions_are_there_after_the_start_and_what_was_removed_is_not() {
    let world = World::new(4);
    let (mut engine, client) = open(&world, Policy::No);
    let load = |name: &str, number: u32| {
        format!(
            "FUNCTION LOAD REPLACE \"#!lua name={name}\\nredis.register_function('{name}',function() \
             return {number} end)\""
        )
    };
    for line in [load("one", 1), load("two", 2), load("one", 3)] {
        send(&mut engine, client, &line);
    }
    send(&mut engine, client, "SET one value");
    send(&mut engine, client, "FUNCTION DELETE two");
    send(&mut engine, client, "FLUSHALL");
    engine.close().unwrap();
    let (mut engine, client) = open(&world, Policy::No);
    assert_eq!(ask(&mut engine, client, "FCALL one 0"), ":3");
    assert_eq!(
        ask(&mut engine, client, "FCALL two 0"),
        "-ERR Function not found"
    );
    send(&mut engine, client, "FUNCTION FLUSH");
    engine.close().unwrap();
    let (engine, _) = open(&world, Policy::No);
    assert_eq!(engine.contents(), "");
}

#[test]
fn a_library_and_one_key_of_a_transaction_are_both_logged() {
    let world = World::new(5);
    let (mut engine, client) = open(&world, Policy::No);
    let load =
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f',function() return 7 end)\"";
    for line in ["MULTI", "SET k v", load, "EXEC"] {
        send(&mut engine, client, line);
    }
    engine.close().unwrap();
    let (mut engine, client) = open(&world, Policy::No);
    assert_eq!(ask(&mut engine, client, "FCALL f 0"), ":7");
    assert_eq!(ask(&mut engine, client, "GET k"), "$1 v");
}

#[test]
fn libraries_are_restored_all_or_none() {
    let world = World::new(6);
    let (mut engine, client) = open(&world, Policy::No);
    let load = |library: &str, function: &str, number: u32| {
        format!(
            "FUNCTION LOAD REPLACE \"#!lua name={library}\\nredis.register_function('{function}',function() \
             return {number} end)\""
        )
    };
    for line in [load("a", "f", 1), load("b", "g", 1)] {
        send(&mut engine, client, &line);
    }
    engine.session_mut(client).unwrap().reply.clear();
    let libraries = engine.scripts.libraries.all.values();
    let payload = values::rdb::dump_functions(libraries.map(|library| &library.code[..]));
    let dumped = {
        engine.execute(client, &[b"FUNCTION", b"DUMP"]);
        engine.session_mut(client).unwrap().reply.take()
    };
    assert!(dumped.windows(payload.len()).any(|part| part == payload));
    let restore = |engine: &mut crate::Engine, how: &str| {
        let mut words = vec![&b"FUNCTION"[..], b"RESTORE", &payload];
        words.extend((!how.is_empty()).then_some(how.as_bytes()));
        engine.execute(client, &words);
        let reply = engine.session_mut(client).unwrap().reply.take();
        String::from_utf8_lossy(&reply).trim().to_owned()
    };
    assert_eq!(restore(&mut engine, ""), "-ERR Library a already exists");
    // A function that is there keeps out the library of another name that has it.
    send(&mut engine, client, "FUNCTION DELETE b");
    send(&mut engine, client, &load("c", "g", 3));
    send(&mut engine, client, &load("a", "f", 3));
    engine.session_mut(client).unwrap().reply.clear();
    let before = engine.contents();
    assert_eq!(
        restore(&mut engine, "REPLACE"),
        "-ERR Function g already exists"
    );
    assert_eq!(engine.contents(), before);
    assert_eq!(restore(&mut engine, "FLUSH"), "+OK");
    send(&mut engine, client, &load("a", "f", 4));
    engine.session_mut(client).unwrap().reply.clear();
    assert_eq!(restore(&mut engine, "replace"), "+OK");
    engine.close().unwrap();
    let (mut engine, client) = open(&world, Policy::No);
    assert_eq!(ask(&mut engine, client, "FCALL f 0"), ":1");
    assert_eq!(ask(&mut engine, client, "FCALL g 0"), ":1");
    assert_eq!(engine.scripts.libraries.all.len(), 2);
}
