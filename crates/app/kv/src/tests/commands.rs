//! What commands answer.

use super::{ask, engine, send};
use crate::Engine;

/// Lines with what they are answered.
fn dialogue(lines: &[(&str, &str)]) {
    let (mut engine, client) = engine();
    for (line, expected) in lines {
        assert_eq!(ask(&mut engine, client, line), *expected, "{line}");
    }
}

#[test]
fn strings() {
    dialogue(&[
        ("SET k v", "+OK"),
        ("SET k w NX", "$-1"),
        ("SET k w XX GET", "$1 v"),
        ("GET k", "$1 w"),
        ("SET k 5 EX 100", "+OK"),
        ("TTL k", ":100"),
        ("INCRBY k 10", ":15"),
        ("TTL k", ":100"),
        ("SET k x KEEPTTL", "+OK"),
        ("TTL k", ":100"),
        ("SET k x EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k x EX 5 PX 5", "-ERR syntax error"),
        ("APPEND k yz", ":3"),
        ("GETRANGE k -2 -1", "$2 yz"),
        ("SETRANGE k 5 ab", ":7"),
        ("STRLEN k", ":7"),
        ("GETDEL k", "$7 xyz\0\0ab"),
        ("GET k", "$-1"),
        ("INCRBYFLOAT f 10.5", "$4 10.5"),
        ("INCRBYFLOAT f 0.1", "$4 10.6"),
        ("MSETNX a 1 f 2", ":0"),
        ("MGET a f", "*2 $-1 $4 10.6"),
        ("SET n 9223372036854775807", "+OK"),
        ("INCR n", "-ERR increment or decrement would overflow"),
        ("HSET h f v", ":1"),
        (
            "GET h",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        (
            "NOSUCH a b",
            "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'",
        ),
        ("SETBIT b 7 1", ":0"),
        ("GET b", "$1 \u{1}"),
        ("BITCOUNT b", ":1"),
        ("OBJECT ENCODING n", "$3 int"),
        ("OBJECT ENCODING f", "$6 embstr"),
    ]);
}

#[test]
fn keys_and_their_expiry() {
    let (mut engine, client) = engine();
    let ask = |engine: &mut Engine, line: &str| ask(engine, client, line);
    assert_eq!(ask(&mut engine, "SET k v PX 50"), "+OK");
    assert_eq!(ask(&mut engine, "EXPIRE k 100 NX"), ":0");
    assert_eq!(ask(&mut engine, "PEXPIRE k 60 GT"), ":1");
    assert_eq!(ask(&mut engine, "SET forever v"), "+OK");
    assert_eq!(
        ask(&mut engine, "SCAN 0 COUNT 1000"),
        "*2 $1 0 *2 $1 k $7 forever"
    );
    engine.set_time(1_700_000_000_060, 0);
    assert_eq!(ask(&mut engine, "DBSIZE"), ":2");
    assert_eq!(ask(&mut engine, "KEYS *"), "*1 $7 forever");
    assert_eq!(ask(&mut engine, "EXISTS k"), ":0");
    assert_eq!(ask(&mut engine, "DBSIZE"), ":1");
    assert_eq!(ask(&mut engine, "SET other v PX 1"), "+OK");
    engine.set_time(1_700_000_000_100, 0);
    engine.sweep();
    assert_eq!(ask(&mut engine, "DBSIZE"), ":1");
    assert_eq!(ask(&mut engine, "COPY forever k DB 3"), ":1");
    assert_eq!(ask(&mut engine, "SELECT 3"), "+OK");
    assert_eq!(ask(&mut engine, "MOVE k 0"), ":1");
    assert_eq!(
        ask(&mut engine, "SELECT 16"),
        "-ERR DB index is out of range"
    );
    assert_eq!(ask(&mut engine, "SWAPDB 0 3"), "+OK");
    assert_eq!(ask(&mut engine, "DBSIZE"), ":2");
    assert_eq!(ask(&mut engine, "FLUSHALL"), "+OK");
    assert_eq!(ask(&mut engine, "RANDOMKEY"), "$-1");
}

#[test]
fn a_transaction_is_one_and_a_watched_key_that_changes_ends_it() {
    let (mut engine, client) = engine();
    let other = engine.connect(Default::default()).unwrap();
    assert_eq!(ask(&mut engine, client, "WATCH k"), "+OK");
    assert_eq!(ask(&mut engine, client, "MULTI"), "+OK");
    assert_eq!(ask(&mut engine, client, "SET k 1"), "+QUEUED");
    assert_eq!(ask(&mut engine, client, "LPUSH k 1"), "+QUEUED");
    assert_eq!(
        ask(&mut engine, client, "EXEC"),
        "*2 +OK -WRONGTYPE Operation against a key holding the wrong kind of value"
    );
    send(&mut engine, client, "WATCH k");
    send(&mut engine, other, "SET k 2");
    send(&mut engine, client, "MULTI");
    send(&mut engine, client, "GET k");
    engine.session_mut(client).unwrap().reply.clear();
    assert_eq!(ask(&mut engine, client, "EXEC"), "*-1");
    send(&mut engine, client, "MULTI");
    send(&mut engine, client, "NOSUCH");
    engine.session_mut(client).unwrap().reply.clear();
    assert_eq!(
        ask(&mut engine, client, "EXEC"),
        "-EXECABORT Transaction discarded because of previous errors."
    );
}

#[test]
fn commands_that_wait_are_served_in_their_order() {
    let (mut engine, first) = engine();
    let second = engine.connect(Default::default()).unwrap();
    let giver = engine.connect(Default::default()).unwrap();
    assert_eq!(ask(&mut engine, first, "BLPOP a b 0"), "");
    assert_eq!(ask(&mut engine, second, "BLMOVE b c LEFT RIGHT 1"), "");
    assert_eq!(ask(&mut engine, giver, "RPUSH b 1 2"), ":2");
    assert_eq!(ask(&mut engine, giver, "LRANGE c 0 -1"), "*1 $1 2");
    let reply = |engine: &mut Engine, client| {
        let bytes = engine.session_mut(client).unwrap().reply.take();
        String::from_utf8(bytes).unwrap().replace("\r\n", " ")
    };
    assert_eq!(reply(&mut engine, first), "*2 $1 b $1 1 ");
    assert_eq!(reply(&mut engine, second), "$1 2 ");
    assert_eq!(ask(&mut engine, first, "BRPOP a 0.05"), "");
    let deadline = engine.next_deadline_ms().unwrap();
    engine.set_time(deadline, 0);
    engine.end_waits();
    assert_eq!(reply(&mut engine, first), "*-1 ");
    assert!(engine.next_deadline_ms().is_none());
}

#[test]
fn messages_reach_who_is_subscribed() {
    let (mut engine, client) = engine();
    let giver = engine.connect(Default::default()).unwrap();
    assert_eq!(
        ask(&mut engine, client, "SUBSCRIBE a"),
        "*3 $9 subscribe $1 a :1"
    );
    assert_eq!(
        ask(&mut engine, client, "PSUBSCRIBE b*"),
        "*3 $10 psubscribe $2 b* :2"
    );
    assert!(ask(&mut engine, client, "GET k").starts_with("-ERR Can't execute 'get'"));
    assert_eq!(ask(&mut engine, giver, "PUBLISH a hello"), ":1");
    assert_eq!(ask(&mut engine, giver, "PUBLISH bc hello"), ":1");
    assert_eq!(
        ask(&mut engine, client, "PING"),
        "*3 $7 message $1 a $5 hello *4 $8 pmessage $2 b* $2 bc $5 hello *2 $4 pong $0"
    );
    send(&mut engine, giver, "CONFIG SET notify-keyspace-events KEA");
    send(&mut engine, client, "PSUBSCRIBE __key*");
    engine.session_mut(client).unwrap().reply.clear();
    send(&mut engine, giver, "SET k v");
    let seen = ask(&mut engine, client, "PING");
    assert!(seen.contains("__keyspace@0__:k $3 set"), "{seen}");
    assert!(seen.contains("__keyevent@0__:set $1 k"), "{seen}");
}

#[test]
fn memory_is_bounded_by_what_is_missed_least() {
    let (mut engine, client) = engine();
    for number in 0..2000 {
        send(
            &mut engine,
            client,
            &format!("SET key{number} {}", "x".repeat(500)),
        );
    }
    let used = engine.used();
    send(
        &mut engine,
        client,
        &format!("CONFIG SET maxmemory {}", used / 2),
    );
    engine.set_time(1_700_000_000_001, 0);
    engine.session_mut(client).unwrap().reply.clear();
    assert!(ask(&mut engine, client, "SET more v").starts_with("-OOM "));
    assert!(ask(&mut engine, client, "GET key1").starts_with("$500"));
    send(
        &mut engine,
        client,
        "CONFIG SET maxmemory-policy allkeys-lru",
    );
    engine.session_mut(client).unwrap().reply.clear();
    let mut tries = 0;
    while ask(&mut engine, client, "SET more v") != "+OK" {
        tries += 1;
        assert!(tries < 10);
    }
    assert!(engine.stats.evicted > 500, "{}", engine.stats.evicted);
}

#[test]
fn who_waits_for_a_stream_is_told_of_what_comes() {
    let (mut engine, reader) = engine();
    let other = engine.connect(Default::default()).unwrap();
    let giver = engine.connect(Default::default()).unwrap();
    let reply = |engine: &mut Engine, client| {
        let bytes = engine.session_mut(client).unwrap().reply.take();
        String::from_utf8(bytes).unwrap().replace("\r\n", " ")
    };
    ask(&mut engine, giver, "XADD s 1 a b");
    ask(&mut engine, giver, "XGROUP CREATE s g $");
    assert_eq!(
        ask(&mut engine, reader, "XREAD BLOCK 0 STREAMS none s $ $"),
        ""
    );
    let group = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >";
    assert_eq!(ask(&mut engine, other, group), "");
    // A value of another type is none of what they wait for.
    ask(&mut engine, giver, "SET none x");
    assert_eq!(ask(&mut engine, giver, "XADD s 2 a b"), "$3 2-0");
    let expected = "*1 *2 $1 s *1 *2 $3 2-0 *2 $1 a $1 b ";
    assert_eq!(reply(&mut engine, reader), expected);
    assert_eq!(reply(&mut engine, other), expected);
    assert_eq!(
        ask(&mut engine, giver, "XPENDING s g"),
        "*4 :1 $3 2-0 $3 2-0 *1 *2 $1 c $1 1"
    );
    for (change, expected) in [
        ("DEL s", "-UNBLOCKED the stream key no longer exists "),
        (
            "XGROUP DESTROY s g",
            "-NOGROUP the consumer group this client was blocked on no longer exists ",
        ),
        ("SET s x", "-UNBLOCKED the stream key no longer exists "),
        ("FLUSHALL", "-UNBLOCKED the stream key no longer exists "),
        ("RENAME s t", "-UNBLOCKED the stream key no longer exists "),
    ] {
        ask(&mut engine, giver, "DEL s");
        ask(&mut engine, giver, "XGROUP CREATE s g $ MKSTREAM");
        assert_eq!(ask(&mut engine, other, group), "", "{change}");
        ask(&mut engine, giver, change);
        assert_eq!(reply(&mut engine, other), expected, "{change}");
    }
    assert_eq!(ask(&mut engine, reader, "XREAD BLOCK 5 STREAMS t $"), "");
    let deadline = engine.next_deadline_ms().unwrap();
    engine.set_time(deadline, 0);
    engine.end_waits();
    assert_eq!(reply(&mut engine, reader), "*-1 ");
}

#[test]
fn two_of_a_group_that_wait_get_one_entry_each() {
    let (mut engine, one) = engine();
    let two = engine.connect(Default::default()).unwrap();
    let giver = engine.connect(Default::default()).unwrap();
    ask(&mut engine, giver, "XGROUP CREATE s g $ MKSTREAM");
    for (client, name) in [(one, "one"), (two, "two")] {
        let line = format!("XREADGROUP GROUP g {name} COUNT 1 BLOCK 0 STREAMS s >");
        assert_eq!(ask(&mut engine, client, &line), "");
    }
    for line in [
        "MULTI",
        "XADD s 1 a b",
        "XADD s 2 a b",
        "XADD s 3 a b",
        "EXEC",
    ] {
        ask(&mut engine, giver, line);
    }
    assert_eq!(
        ask(&mut engine, giver, "XPENDING s g"),
        "*4 :2 $3 1-0 $3 2-0 *2 *2 $3 one $1 1 *2 $3 two $1 1"
    );
}
