//! Scripts that take long, that have no memory, that may not write.

use super::{ask, engine, send};
use crate::{Engine, Outside, Token};
use parking_lot::Mutex;
use std::sync::Arc;

/// Another client, that is served while a script takes long: what it asks, and what it is answered.
struct Other {
    client: Token,
    asks: Vec<&'static str>,
    heard: Arc<Mutex<Vec<String>>>,
    now_us: u64,
}

impl Outside for Other {
    fn set_time(&mut self, engine: &mut Engine) {
        self.now_us += 10_000;
        engine.set_time(1_700_000_000_000 + self.now_us / 1000, self.now_us);
    }

    fn serve(&mut self, engine: &mut Engine) {
        for line in std::mem::take(&mut self.asks) {
            let answer = ask(engine, self.client, line);
            self.heard.lock().push(answer);
        }
    }
}

/// What a script is answered, and what another client hears meanwhile.
fn beside(script: &str, asks: &[&'static str]) -> (Engine, Token, String, Vec<String>) {
    let (mut engine, client) = engine();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    ask(&mut engine, client, "CONFIG SET busy-reply-threshold 50");
    let other = engine.connect(Default::default()).unwrap();
    engine.outside = Some(Box::new(Other {
        client: other,
        asks: asks.to_vec(),
        heard: heard.clone(),
        now_us: 0,
    }));
    let answer = ask(&mut engine, client, script);
    let heard = std::mem::take(&mut *heard.lock());
    (engine, client, answer, heard)
}

const BUSY: &str =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

#[test]
fn others_hear_that_a_script_takes_long_and_can_end_it() {
    let (mut engine, client, answer, heard) = beside(
        "EVAL \"while true do pcall(function() while true do end end) end\" 0",
        &["GET k", "FUNCTION KILL", "PING", "SCRIPT KILL"],
    );
    assert_eq!(heard, [BUSY, BUSY, BUSY, "+OK"]);
    assert!(
        answer.starts_with("-ERR Script killed by user with SCRIPT KILL"),
        "{answer}"
    );
    assert_eq!(ask(&mut engine, client, "EVAL \"return 1\" 0"), ":1");
    assert_eq!(
        ask(&mut engine, client, "SCRIPT KILL"),
        "-NOTBUSY No scripts in execution right now."
    );
}

#[test]
fn a_script_that_wrote_goes_on_to_its_end() {
    let (mut engine, client, answer, heard) = beside(
        "EVAL \"redis.call('set','k','v') for i=1,3000000 do end return 7\" 0",
        &["SCRIPT KILL", "GET k"],
    );
    assert!(heard[0].starts_with("-UNKILLABLE Sorry"), "{}", heard[0]);
    assert_eq!(heard[1], BUSY);
    assert_eq!(answer, ":7");
    assert_eq!(ask(&mut engine, client, "GET k"), "$1 v");
}

#[test]
fn a_shutdown_ends_a_script_and_what_it_changed_is_seen_by_nobody() {
    let (mut engine, client, answer, _) = beside(
        "EVAL \"redis.call('set','k','v') while true do end\" 0",
        &["SHUTDOWN", "SHUTDOWN NOSAVE"],
    );
    assert!(answer.starts_with("-ERR Script killed"), "{answer}");
    assert_eq!(engine.take_orders(), [crate::Order::Shutdown]);
    let refused = ask(&mut engine, client, "GET k");
    assert!(refused.starts_with("-LOADING"), "{refused}");
}

#[test]
fn a_client_that_comes_meanwhile_does_not_get_the_place_of_the_caller() {
    struct Comes(u64);
    impl Outside for Comes {
        fn set_time(&mut self, engine: &mut Engine) {
            self.0 += 100_000;
            engine.set_time(0, self.0);
        }
        fn serve(&mut self, engine: &mut Engine) {
            engine.connect(Default::default()).unwrap();
        }
    }
    let (mut engine, client) = engine();
    engine.config.set("busy-reply-threshold", "50").unwrap();
    engine.outside = Some(Box::new(Comes(0)));
    let id = engine.session(client).unwrap().id;
    assert_eq!(
        ask(
            &mut engine,
            client,
            "EVAL \"for i=1,1000000 do end return 3\" 0"
        ),
        ":3"
    );
    assert_eq!(engine.session(client).unwrap().id, id);
    assert!(engine.session(Token(client.0 + 1)).is_some());
}

#[test]
fn without_memory_a_script_may_read_and_go_on_but_not_begin_to_write() {
    let (mut engine, client) = engine();
    send(
        &mut engine,
        client,
        "SET big xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    );
    send(&mut engine, client, "CONFIG SET maxmemory 1");
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    for (line, expected) in [
        ("EVAL \"return redis.call('strlen','big')\" 0", ":31"),
        ("EVAL \"return redis.pcall('set','k','v').err\" 0", oom),
        (
            "EVAL \"redis.call('del','big') return redis.call('set','k','v')\" 0",
            "+OK",
        ),
        (
            "EVAL \"#!lua\\nreturn 1\" 0",
            "-OOM allow-oom flag is not set on the script, can not run it when used memory > \
             'maxmemory'",
        ),
        (
            "EVAL \"#!lua flags=allow-oom\\nreturn redis.call('set','k','w')\" 0",
            "+OK",
        ),
    ] {
        let answer = ask(&mut engine, client, line);
        assert!(answer.ends_with(expected), "{line}: {answer}");
    }
}

#[test]
fn a_script_cannot_take_all_memory_or_all_of_the_stack() {
    let (mut engine, client) = engine();
    for (script, expected) in [
        ("local t = {} t[1] = t return t", "reached lua stack limit"),
        (
            "local s = 'x' while true do s = s .. s end",
            "not enough memory",
        ),
        (
            "local function f() return 1 + f() end return f()",
            "stack overflow",
        ),
        (
            "local t = {} for i = 1, 5000 do t = {t} end return cjson.encode(t)",
            "excessive depth",
        ),
        (
            "return cjson.decode(string.rep('[', 5000))",
            "too many nested",
        ),
        (
            "return cmsgpack.unpack(string.rep('\\\\145', 5000))",
            "Bad data format",
        ),
        ("error({})", "unknown error"),
        (
            "error(setmetatable({}, {__tostring = function() error('x') end}))",
            "unknown error",
        ),
    ] {
        let answer = ask(&mut engine, client, &format!("EVAL \"{script}\" 0"));
        assert!(answer.contains(expected), "{script}: {answer:.300}");
        assert_eq!(ask(&mut engine, client, "EVAL \"return 1\" 0"), ":1");
    }
}
