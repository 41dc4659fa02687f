//! kill -9 of a server under load: what it acknowledged under `always` is there, and transactions are
//! whole.

#[path = "support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;

use client::Client;
use served::Served;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ROUNDS: u64 = 6;
const CLIENTS: u64 = 6;
const KEYS: u64 = 30;

/// Not a test of its own: what the killed process does.
#[test]
fn child() {
    served::serve(holdfast_kv::Policy::Always);
}

/// What a client knows of its keys: the last value that was sent, and the last that was acknowledged.
type Known = BTreeMap<String, (u64, u64)>;

/// Writes rising numbers until the server is gone, and counts those that were acknowledged.
fn load(port: u16, client: u64, known: &mut Known, seed: u64, count: &AtomicU64) {
    let Ok(mut connection) = Client::connect(port) else {
        return;
    };
    let mut rng = env::Rng::new(seed);
    let mut number = known.values().map(|(sent, _)| *sent).max().unwrap_or(0);
    loop {
        number += 1;
        let key = format!("{client}:{}", rng.below(KEYS));
        let value = number.to_string();
        let hash = format!("h{client}");
        let (one, two) = (format!("{client}:pair:a"), format!("{client}:pair:b"));
        let step = rng.below(4);
        let requests: Vec<Vec<&str>> = match step {
            0 => vec![vec!["HSET", &hash, &key, &value]],
            1 => vec![
                vec!["MULTI"],
                vec!["SET", &one, &value],
                vec!["SET", &two, &value],
                vec!["EXEC"],
            ],
            _ => vec![vec!["SET", &key, &value]],
        };
        let name = match step {
            0 => format!("{hash} {key}"),
            1 => one.clone(),
            _ => key.clone(),
        };
        known.entry(name.clone()).or_default().0 = number;
        for request in &requests {
            if connection.send(request).is_err() {
                return;
            }
        }
        for _ in &requests {
            match connection.receive() {
                Ok(reply) => assert!(!reply.starts_with('-'), "{reply}"),
                Err(_) => return,
            }
        }
        known.entry(name).or_default().1 = number;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_killed_server_has_all_that_it_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let mut known: Vec<Known> = (0..CLIENTS).map(|_| Known::new()).collect();
    let mut rng = env::Rng::new(5);
    for round in 0..ROUNDS {
        let mut served = Served::start(home.path());
        let port = served.port;
        let wanted = 400 * CLIENTS + rng.below(2400);
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..)
                .zip(&mut known)
                .map(|(client, known)| {
                    let (seed, count) = (round * 100 + client, &count);
                    scope.spawn(move || load(port, client, known, seed, count))
                })
                .collect();
            // As many writes as it takes, and not as much time.
            while count.load(Ordering::Relaxed) < wanted {
                let ended = writers.iter().any(|writer| writer.is_finished());
                assert!(!ended, "round {round}: a client was let go");
                std::thread::sleep(Duration::from_millis(1));
            }
            served.kill();
        });
        let served = Served::start(home.path());
        let mut reader = Client::connect(served.port).unwrap();
        for (client, known) in (0..).zip(&mut known) {
            for (name, (sent, acknowledged)) in known.iter_mut() {
                let found = match name.split_once(' ') {
                    Some((hash, field)) => reader.ask(&["HGET", hash, field]).unwrap(),
                    None => reader.ask(&["GET", name]).unwrap(),
                };
                let found = found.parse().unwrap_or(0);
                assert!(
                    (*acknowledged..=*sent).contains(&found),
                    "round {round}: {name} is {found}, {acknowledged} was acknowledged and {sent} sent"
                );
                (*sent, *acknowledged) = (found, found);
            }
            let pair = ["a", "b"].map(|half| {
                reader
                    .ask(&["GET", &format!("{client}:pair:{half}")])
                    .unwrap()
            });
            assert_eq!(pair[0], pair[1], "round {round}: half of a transaction");
        }
    }
    let most = known
        .iter()
        .flat_map(BTreeMap::values)
        .map(|(_, seen)| *seen)
        .max();
    assert!(most > Some(300), "{most:?}");
}

#[test]
fn a_directory_that_is_served_is_not_served_twice() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path());
    let options = holdfast_kv::server::Options {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tls: None,
        unix_socket: None,
        directories: vec![home.path().to_str().unwrap().to_owned()],
        policy: holdfast_kv::Policy::No,
        config: holdfast_kv::Config::default(),
        log: vlog::Options::default(),
    };
    let server = holdfast_kv::server::Server::bind(&options).unwrap();
    let refused = server.run(|_| panic!("it serves")).unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    let mut client = Client::connect(served.port).unwrap();
    assert_eq!(client.ask(&["PING"]).unwrap(), "+PONG");
}
