//! CLIENT: pauses, and clients that are ended.

use super::{ask, engine, send, words};
use crate::{Engine, Token};

/// Gives a request; whether it ran.
fn runs(engine: &mut Engine, client: Token, line: &str) -> bool {
    let words = words(line);
    let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    engine.execute(client, &arguments)
}

#[test]
fn a_pause_of_writes_has_writes_wait_and_reads_run() {
    let (mut engine, operator) = engine();
    let library = "#!lua name=lib\\nredis.register_function{function_name='r', callback=function() \
                   return 1 end, flags={'no-writes'}}\\nredis.register_function('w', function() return 1 end)";
    assert_eq!(
        ask(
            &mut engine,
            operator,
            &format!("FUNCTION LOAD \"{library}\"")
        ),
        "$3 lib"
    );
    assert_eq!(ask(&mut engine, operator, "CLIENT PAUSE 1000 WRITE"), "+OK");
    for (line, expected) in [
        ("GET k", true),
        ("EVAL_RO \"return 1\" 0", true),
        ("EVAL \"#!lua flags=no-writes\\nreturn 1\" 0", true),
        ("FCALL r 0", true),
        ("FUNCTION LIST", true),
        ("SET k", true),
        ("SET k v", false),
        ("FCALL w 0", false),
        ("FUNCTION FLUSH", false),
        ("EVAL \"return 1\" 0", false),
        ("EVAL \"#!lua\\nreturn 1\" 0", false),
        ("PUBLISH c x", false),
        ("XGROUP CREATE s g $ MKSTREAM", false),
    ] {
        let client = engine.connect(Default::default()).unwrap();
        assert_eq!(runs(&mut engine, client, line), expected, "{line}");
        assert_eq!(
            engine.session(client).unwrap().is_blocked(),
            !expected,
            "{line}"
        );
        let told = !engine.session(client).unwrap().reply.is_empty();
        assert_eq!(told, expected, "{line}");
    }
    assert_eq!(engine.next_deadline_ms(), Some(1_700_000_001_000));
    engine.set_time(1_700_000_001_000, 0);
    engine.end_waits();
    assert_eq!(engine.take_touched().len(), 7);
    assert!(
        engine
            .session(Token(7))
            .is_some_and(|session| !session.is_blocked())
    );
    assert_eq!(ask(&mut engine, operator, "SET k v"), "+OK");
    assert_eq!(engine.next_deadline_ms(), None);
}

#[test]
fn a_transaction_waits_where_it_has_writes() {
    let (mut engine, operator) = engine();
    let (reads, writes) = (
        engine.connect(Default::default()).unwrap(),
        engine.connect(Default::default()).unwrap(),
    );
    for (client, line) in [(reads, "GET k"), (writes, "SET k v")] {
        send(&mut engine, client, "MULTI");
        send(&mut engine, client, line);
    }
    ask(&mut engine, operator, "CLIENT PAUSE 1000 WRITE");
    assert!(runs(&mut engine, reads, "EXEC"));
    assert!(!runs(&mut engine, writes, "EXEC"));
    assert_eq!(ask(&mut engine, operator, "CLIENT UNPAUSE"), "+OK");
    assert!(runs(&mut engine, writes, "EXEC"));
    assert_eq!(ask(&mut engine, operator, "GET k"), "$1 v");
}

#[test]
fn a_pause_of_all_is_not_made_shorter_or_weaker() {
    let (mut engine, client) = engine();
    ask(&mut engine, client, "CLIENT PAUSE 1000");
    let other = engine.connect(Default::default()).unwrap();
    assert!(!runs(&mut engine, other, "GET k"));
    assert!(
        runs(&mut engine, client, "NOSUCH"),
        "an error needs no waiting"
    );
    engine.pause(crate::engine::Pause {
        until_ms: 0,
        all: false,
    });
    assert_eq!(engine.next_deadline_ms(), Some(1_700_000_001_000));
    assert!(!runs(&mut engine, client, "CLIENT UNPAUSE"));
    engine.disconnect(other);
    engine.set_time(1_700_000_001_001, 0);
    engine.end_waits();
    assert!(runs(&mut engine, client, "GET k"));
}

#[test]
fn nothing_expires_and_nothing_is_evicted_while_clients_are_paused() {
    let (mut engine, client) = engine();
    ask(&mut engine, client, "SADD k v");
    ask(&mut engine, client, "PEXPIRE k 10");
    ask(&mut engine, client, "CLIENT PAUSE 1000 WRITE");
    engine.set_time(1_700_000_000_500, 0);
    engine.sweep();
    assert_eq!(ask(&mut engine, client, "SCARD k"), ":0");
    assert_eq!(ask(&mut engine, client, "SUNION k"), "*0");
    assert_eq!(ask(&mut engine, client, "DBSIZE"), ":1");
    engine.config.set("maxmemory", "1").unwrap();
    engine
        .config
        .set("maxmemory-policy", "allkeys-lru")
        .unwrap();
    assert_eq!(engine.may_grow(), Ok(()));
    assert_eq!(ask(&mut engine, client, "DBSIZE"), ":1");
    ask(&mut engine, client, "CLIENT UNPAUSE");
    engine.sweep();
    assert_eq!(ask(&mut engine, client, "DBSIZE"), ":0");
}

#[test]
fn who_was_ended_takes_nothing_any_more() {
    let (mut engine, operator) = engine();
    let waiting = engine.connect(Default::default()).unwrap();
    send(&mut engine, waiting, "BLPOP q 0");
    let id = engine.session(waiting).unwrap().id.0;
    let line = format!("CLIENT KILL ID {id}");
    assert_eq!(ask(&mut engine, operator, &line), ":1");
    assert_eq!(ask(&mut engine, operator, "RPUSH q job"), ":1");
    assert_eq!(ask(&mut engine, operator, "LLEN q"), ":1");
}

#[test]
fn clients_are_listed_and_ended_by_what_they_are() {
    let (mut engine, operator) = engine();
    ask(&mut engine, operator, "ACL SETUSER u on nopass +@all ~* &*");
    let clients: Vec<Token> = (0..4)
        .map(|number| {
            let address = [format!("1.2.3.4:{number}"), "here:1".to_owned()];
            engine.connect(address).unwrap()
        })
        .collect();
    ask(&mut engine, clients[0], "AUTH u x");
    ask(&mut engine, clients[1], "SUBSCRIBE c");
    ask(&mut engine, clients[2], "MULTI");
    let list = ask(&mut engine, operator, "CLIENT LIST");
    assert!(
        list.contains("flags=P") && list.contains("flags=x"),
        "{list}"
    );
    assert!(list.contains("cmd=auth user=u"), "{list}");
    assert!(list.contains("cmd=client|list user=default"), "{list}");
    for (line, expected) in [
        ("CLIENT KILL USER u", ":1"),
        ("CLIENT KILL TYPE pubsub", ":1"),
        ("CLIENT KILL ADDR 1.2.3.4:2 LADDR here:2", ":0"),
        ("CLIENT KILL ADDR 1.2.3.4:2 LADDR here:1 SKIPME no", ":1"),
        ("CLIENT KILL 1.2.3.4:3", "+OK"),
        ("CLIENT KILL 1.2.3.4:9", "-ERR No such client"),
        ("CLIENT KILL USER nobody", "-ERR No such user 'nobody'"),
        (
            "CLIENT KILL TYPE nothing",
            "-ERR Unknown client type 'nothing'",
        ),
    ] {
        assert_eq!(ask(&mut engine, operator, line), expected, "{line}");
    }
    for client in clients {
        assert!(engine.session(client).unwrap().is_killed());
    }
}
