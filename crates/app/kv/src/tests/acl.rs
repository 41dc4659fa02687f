//! What users may do, from login to log.

use super::{ask, engine, send};
use crate::{Engine, Token};

/// A client that is a user with some rules, and the client of an operator.
fn as_user(rules: &str) -> (Engine, Token, Token) {
    let (mut engine, operator) = engine();
    let line = format!("ACL SETUSER u on >pw {rules}");
    assert_eq!(ask(&mut engine, operator, &line), "+OK");
    let client = engine.connect(Default::default()).unwrap();
    assert_eq!(ask(&mut engine, client, "AUTH u pw"), "+OK");
    (engine, client, operator)
}

const NO_COMMAND: &str = "-NOPERM this user has no permissions to run the";
const NO_KEY: &str =
    "-NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "-NOPERM this user has no permissions to access one of the channels used as arguments";

#[test]
fn requests_are_held_to_the_rules() {
    let (mut engine, client, operator) = as_user("+@all -@dangerous +sort -acl ~a* &c*");
    for (line, expected) in [
        ("SET a1 v", "+OK"),
        ("SET b v", NO_KEY),
        ("MSET a1 v b v", NO_KEY),
        ("PFMERGE b", NO_KEY),
        ("FLUSHALL", &format!("{NO_COMMAND} 'flushall' command")),
        (
            "CONFIG GET x",
            &format!("{NO_COMMAND} 'config|get' command"),
        ),
        ("ACL WHOAMI", &format!("{NO_COMMAND} 'acl|whoami' command")),
        ("PUBLISH c1 x", ":0"),
        ("PUBLISH d x", NO_CHANNEL),
        ("SUBSCRIBE c1 d", NO_CHANNEL),
        ("PSUBSCRIBE c1*", NO_CHANNEL),
        ("EVAL \"return 1\" 1 b", NO_KEY),
        (
            "SORT a1 BY w*",
            "-ERR BY option of SORT denied due to insufficient ACL permissions",
        ),
        (
            "SORT a1 GET w*",
            "-ERR GET option of SORT denied due to insufficient ACL permissions",
        ),
        (
            "NOSUCH",
            "-ERR unknown command 'NOSUCH', with args beginning with:",
        ),
        ("PING", "+PONG"),
    ] {
        assert_eq!(ask(&mut engine, client, line), expected, "{line}");
    }
    assert_eq!(engine.keyspace.len(0), 1);
    let denied = |reason| engine.acl.log.count(reason);
    assert_eq!(denied(crate::acl::Reason::Command), 3);
    assert_eq!(denied(crate::acl::Reason::Key), 4);
    assert_eq!(denied(crate::acl::Reason::Channel), 3);
    let info = ask(&mut engine, operator, "INFO stats");
    assert!(
        info.contains("acl_access_denied_cmd:3 acl_access_denied_key:4"),
        "{info}"
    );
}

#[test]
fn a_transaction_is_held_to_the_rules_twice() {
    let (mut engine, client, operator) = as_user("+@all ~a*");
    for (line, expected) in [
        ("MULTI", "+OK"),
        ("SET b v", NO_KEY),
        ("SET a v", "+QUEUED"),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        ("MULTI", "+OK"),
        ("SET a v", "+QUEUED"),
        ("GET a", "+QUEUED"),
    ] {
        assert_eq!(ask(&mut engine, client, line), expected, "{line}");
    }
    assert_eq!(ask(&mut engine, operator, "ACL SETUSER u -set"), "+OK");
    let answer = ask(&mut engine, client, "EXEC");
    assert_eq!(
        answer,
        "*2 -NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
         This command is no longer allowed for the following reason: no permission to execute the command or \
         subcommand $-1"
    );
    assert_eq!(ask(&mut engine, client, "MULTI"), "+OK");
    assert_eq!(ask(&mut engine, operator, "ACL SETUSER u -exec"), "+OK");
    assert_eq!(
        ask(&mut engine, client, "EXEC"),
        "-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the 'exec' \
         command"
    );
    assert_eq!(
        ask(&mut engine, client, "DISCARD"),
        "-ERR DISCARD without MULTI"
    );
}

#[test]
fn scripts_and_functions_do_what_their_caller_may() {
    let (mut engine, client, operator) = as_user("+@all -flushall ~a* resetchannels");
    let library = "#!lua name=lib\\nredis.register_function('put', function(keys, args) \
                   return redis.call('set', args[1], 'v') end)";
    let load = format!("FUNCTION LOAD \"{library}\"");
    assert_eq!(ask(&mut engine, operator, &load), "$3 lib");
    for (line, part) in [
        ("EVAL \"return redis.call('set','a','v')\" 0", "+OK"),
        (
            "EVAL \"return redis.call('set','b','v')\" 0",
            "can't access at least one of the keys",
        ),
        (
            "EVAL \"return redis.call('flushall')\" 0",
            "can't run this command or subcommand",
        ),
        (
            "EVAL \"return redis.call('publish','c','v')\" 0",
            "can't publish to the channel",
        ),
        ("FCALL put 0 a", "+OK"),
        ("FCALL put 0 b", "can't access at least one of the keys"),
        ("EVAL \"return redis.acl_check_cmd('get','b')\" 0", "$-1"),
        ("EVAL \"return redis.acl_check_cmd('get','a')\" 0", ":1"),
    ] {
        let answer = ask(&mut engine, client, line);
        assert!(answer.contains(part), "{line}: {answer}");
    }
    let log = ask(&mut engine, operator, "ACL LOG");
    assert!(log.contains("lua") && log.contains("user=u"), "{log}");
    assert_eq!(
        ask(
            &mut engine,
            operator,
            "EVAL \"return redis.call('get','b')\" 0"
        ),
        "$-1"
    );
}

#[test]
fn who_is_not_known_does_nothing() {
    let (mut engine, operator) = engine();
    ask(&mut engine, operator, "ACL SETUSER u on >pw +@all ~*");
    ask(&mut engine, operator, "CONFIG SET requirepass secret");
    // Who was there before stays.
    assert_eq!(ask(&mut engine, operator, "PING"), "+PONG");
    let client = engine.connect(Default::default()).unwrap();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    for (line, expected) in [
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH wrong", wrong),
        ("AUTH default wrong", wrong),
        ("AUTH nobody pw", wrong),
        ("AUTH u secret", wrong),
        ("HELLO 2 AUTH u wrong", wrong),
        ("ACL WHOAMI", "-NOAUTH Authentication required."),
        ("AUTH u pw", "+OK"),
        ("ACL WHOAMI", "$1 u"),
        ("AUTH secret", "+OK"),
        ("ACL WHOAMI", "$7 default"),
        ("RESET", "+RESET"),
        ("GET a", "-NOAUTH Authentication required."),
    ] {
        assert_eq!(ask(&mut engine, client, line), expected, "{line}");
    }
    assert_eq!(engine.acl.log.count(crate::acl::Reason::Auth), 5);
    ask(&mut engine, operator, "CONFIG SET requirepass \"\"");
    assert_eq!(ask(&mut engine, client, "GET a"), "$-1");
}

#[test]
fn clients_end_with_their_user_and_with_what_it_may_hear() {
    let (mut engine, client, operator) = as_user("+@all ~* &a &b*");
    let listens = engine.connect(Default::default()).unwrap();
    ask(&mut engine, listens, "AUTH u pw");
    ask(&mut engine, listens, "SUBSCRIBE a");
    ask(&mut engine, listens, "PSUBSCRIBE b*");
    ask(&mut engine, operator, "ACL SETUSER u &more");
    assert!(!engine.session(listens).unwrap().closing);
    ask(&mut engine, operator, "ACL SETUSER u resetchannels &a &bc");
    assert!(engine.session(listens).unwrap().is_killed());
    assert!(!engine.session(client).unwrap().closing);
    assert!(engine.take_touched().contains(&listens));
    assert_eq!(ask(&mut engine, operator, "ACL DELUSER u nobody"), ":1");
    assert!(engine.session(client).unwrap().is_killed());
    // Whatever comes of it yet runs as nobody.
    assert!(!engine.session(client).unwrap().authenticated);
    let own = engine.connect(Default::default()).unwrap();
    ask(&mut engine, operator, "ACL SETUSER v on nopass +@all");
    ask(&mut engine, own, "AUTH v x");
    assert_eq!(ask(&mut engine, own, "ACL DELUSER v"), ":1");
    assert!(engine.session(own).unwrap().closing);
    assert!(!engine.session(operator).unwrap().closing);
    ask(&mut engine, operator, "ACL SETUSER w on nopass +@all ~*");
    let own = engine.connect(Default::default()).unwrap();
    for line in ["AUTH w x", "MULTI", "ACL DELUSER w", "SET k v"] {
        send(&mut engine, own, line);
    }
    let answer = ask(&mut engine, own, "EXEC");
    assert!(
        answer.contains("*2 :1 -NOPERM ACLs rules changed"),
        "{answer}"
    );
    assert_eq!(ask(&mut engine, operator, "GET k"), "$-1");
}

#[test]
fn users_are_saved_and_loaded() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("users.acl");
    let (mut engine, operator) = engine();
    assert!(ask(&mut engine, operator, "ACL SAVE").starts_with("-ERR This Redis instance is not"));
    engine.config.fix("aclfile", path.to_str().unwrap());
    assert!(ask(&mut engine, operator, "ACL LOAD").starts_with("-ERR Error loading ACLs, opening"));
    ask(
        &mut engine,
        operator,
        "ACL SETUSER one on >pw +@read ~a* (+set ~b) resetchannels",
    );
    ask(&mut engine, operator, "ACL SETUSER two on nopass +@all ~*");
    let before = ask(&mut engine, operator, "ACL LIST");
    assert_eq!(ask(&mut engine, operator, "ACL SAVE"), "+OK");
    let clients = ["one", "two", "two"].map(|name| {
        let client = engine.connect(Default::default()).unwrap();
        assert_eq!(ask(&mut engine, client, &format!("AUTH {name} pw")), "+OK");
        client
    });
    ask(&mut engine, operator, "ACL SETUSER two -get");
    ask(&mut engine, operator, "ACL SETUSER three on");
    assert_eq!(ask(&mut engine, operator, "ACL LOAD"), "+OK");
    assert_eq!(ask(&mut engine, operator, "ACL LIST"), before);
    // Of those whose user is as it was nobody ends.
    let ended = clients.map(|client| engine.session(client).unwrap().is_killed());
    assert_eq!(ended, [false, true, true]);
    std::fs::write(&path, "user one +nosuch\n").unwrap();
    let refused = ask(&mut engine, operator, "ACL LOAD");
    assert!(
        refused.contains("Unknown command or category name"),
        "{refused}"
    );
    assert_eq!(ask(&mut engine, operator, "ACL LIST"), before);
    let shut = home.path().join("none/users.acl");
    engine.config.fix("aclfile", shut.to_str().unwrap());
    assert!(ask(&mut engine, operator, "ACL SAVE").starts_with("-ERR There was an error"));
    let left = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 1, "nothing is left beside the file");
}

#[test]
fn passwords_are_not_shown() {
    let (mut engine, client) = engine();
    let looks = engine.connect(Default::default()).unwrap();
    ask(&mut engine, looks, "MONITOR");
    ask(&mut engine, client, "CONFIG SET slowlog-log-slower-than 0");
    for line in [
        "ACL SETUSER u on >secret1 +@all ~*",
        "AUTH u secret1",
        "AUTH secret2",
        "HELLO 2 AUTH u secret1 SETNAME x",
        "CONFIG SET requirepass secret3",
        "SET shown v",
    ] {
        ask(&mut engine, client, line);
        let words = super::words(line);
        let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        engine.took(client, &arguments, 5);
    }
    let bytes = engine.session_mut(looks).unwrap().reply.take();
    let seen = String::from_utf8(bytes).unwrap();
    assert!(!seen.contains("secret"), "{seen}");
    assert!(
        seen.contains("shown") && seen.contains("redacted"),
        "{seen}"
    );
    let slow = engine.stats.slow.iter();
    let slow = slow
        .flat_map(|slow| slow.arguments.concat())
        .collect::<Vec<u8>>();
    assert!(!String::from_utf8(slow).unwrap().contains("secret"));
}
