//! A server whose script never ends: it answers others, and goes on when the script is killed.

#[path = "support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;

use client::Client;
use served::Served;

#[test]
fn a_script_that_never_ends_is_killed_by_another_client() {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(home.path());
    let mut caller = Client::connect(served.port).unwrap();
    assert_eq!(
        caller
            .ask(&["CONFIG", "SET", "busy-reply-threshold", "20"])
            .unwrap(),
        "+OK"
    );
    let mut early = Client::connect(served.port).unwrap();
    early.ask(&["PING"]).unwrap();
    caller.send(&["EVAL", "while true do end", "0"]).unwrap();
    // What comes behind it waits for it.
    caller.send(&["SET", "k", "v"]).unwrap();
    let busy = loop {
        let answer = early.ask(&["PING"]).unwrap();
        if answer != "+PONG" {
            break answer;
        }
    };
    assert!(busy.starts_with("-BUSY "), "{busy}");
    let mut late = Client::connect(served.port).unwrap();
    assert!(late.ask(&["GET", "k"]).unwrap().starts_with("-BUSY "));
    assert_eq!(late.ask(&["SCRIPT", "KILL"]).unwrap(), "+OK");
    let answer = caller.receive().unwrap();
    assert!(answer.starts_with("-ERR Script killed by user"), "{answer}");
    assert_eq!(caller.receive().unwrap(), "+OK");
    assert_eq!(late.ask(&["GET", "k"]).unwrap(), "v");
    // A shutdown ends one that wrote, and nobody has had anything of what it wrote.
    let mut waiting = Client::connect(served.port).unwrap();
    waiting.send(&["BLPOP", "q", "0"]).unwrap();
    while !late
        .ask(&["INFO", "clients"])
        .unwrap()
        .contains("blocked_clients:1")
    {}
    let writes = "redis.call('set','k','w') redis.call('rpush','q','job') while true do end";
    caller.send(&["EVAL", writes, "0"]).unwrap();
    while late.ask(&["PING"]).unwrap() == "+PONG" {}
    assert!(
        late.ask(&["SCRIPT", "KILL"])
            .unwrap()
            .starts_with("-UNKILLABLE ")
    );
    late.send(&["SHUTDOWN", "NOSAVE"]).unwrap();
    assert!(late.receive().is_err(), "the server ends");
    let got = waiting.receive();
    assert!(got.is_err(), "the script had not ended: {got:?}");
    served.kill();
    let served = Served::start(home.path());
    let mut again = Client::connect(served.port).unwrap();
    assert_eq!(again.ask(&["GET", "k"]).unwrap(), "v");
    assert_eq!(again.ask(&["EXISTS", "q"]).unwrap(), ":0");
}

#[test]
fn child() {
    served::serve(holdfast_kv::Policy::Always);
}
