//! Replies beside those of redis-server, byte for byte. Needs Debian's package, which `make test` installs.

#[path = "support/begins.rs"]
mod begins;
#[path = "support/redis.rs"]
mod redis;

use begins::begins;
use holdfast_kv::protocol::split_words;
use holdfast_kv::{Config, Engine, Policy, Token, load};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// redis-server, and a connection to it.
struct Redis {
    _server: redis::Redis,
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Redis {
    fn start(home: &Path) -> Redis {
        let alone = begins();
        let server = redis::Redis::start(home);
        drop(alone);
        let stream = server.connect();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Redis {
            _server: server,
            stream,
            reader,
        }
    }

    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend(word);
            request.extend(b"\r\n");
        }
        self.stream.write_all(&request).unwrap();
        let mut reply = Vec::new();
        let asked = words.join(&b' ');
        self.receive(&mut reply, &asked.escape_ascii().to_string());
        reply
    }

    fn receive(&mut self, reply: &mut Vec<u8>, asked: &str) {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        assert!(read.is_ok(), "no reply in time to {asked}");
        reply.extend(&line);
        let number = std::str::from_utf8(&line[1..])
            .unwrap_or_default()
            .trim()
            .parse::<i64>();
        match (line[0], number) {
            (b'$' | b'=', Ok(length @ 0..)) => {
                let mut bytes = vec![0; length as usize + 2];
                self.reader.read_exact(&mut bytes).unwrap();
                reply.extend(bytes);
            }
            (b'*' | b'~' | b'>', Ok(count @ 0..)) => {
                (0..count).for_each(|_| self.receive(reply, asked))
            }
            (b'%', Ok(count @ 0..)) => (0..count * 2).for_each(|_| self.receive(reply, asked)),
            _ => {}
        }
    }
}

fn ask(engine: &mut Engine, client: Token, words: &[Vec<u8>]) -> Vec<u8> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    engine.set_time(since.as_millis() as u64, 0);
    let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    engine.execute(client, &arguments);
    engine.session_mut(client).unwrap().reply.take()
}

fn say(redis: &mut Redis, line: &str) -> String {
    let reply = redis.ask(&split_words(line.as_bytes()).unwrap());
    reply.escape_ascii().to_string()
}

/// Keys of all types, small and large.
fn fill(redis: &mut Redis) {
    let mut lines: Vec<String> = [
        "SET text hello",
        "SET number 1234567",
        "SET expires later EX 100000",
        "SETBIT bits 90000 1",
        "PFADD likely a b c d e",
        "GEOADD places 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        "XGROUP CREATE stream readers 0 MKSTREAM",
        "XGROUP CREATE empty readers $ MKSTREAM",
        "SELECT 3",
        "SADD elsewhere one two",
        "SELECT 0",
    ]
    .map(str::to_owned)
    .into();
    for number in 0..700 {
        let long = "x".repeat(number % 150);
        let small = number % 5;
        lines.push(format!("RPUSH list {number}{long}"));
        lines.push(format!("HSET hash f{number} v{long}"));
        lines.push(format!("HSET small{small} f{number} {number}"));
        lines.push(format!("SADD numbers {number}"));
        lines.push(format!("SADD names n{number}"));
        lines.push(format!("ZADD scores {number}.5 m{number}"));
        lines.push(format!("ZADD few{small} {number} m{number}"));
        lines.push(format!("XADD stream * f{small} {number}{long}"));
    }
    lines.push("XREADGROUP GROUP readers one COUNT 40 STREAMS stream >".to_owned());
    lines.push("XTRIM stream MAXLEN 650".to_owned());
    for line in lines {
        let reply = say(redis, &line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
}

#[test]
fn a_file_of_redis_is_imported_and_redis_loads_what_is_exported() {
    let (one, two, ours) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let mut redis = Redis::start(one.path());
    fill(&mut redis);
    assert_eq!(say(&mut redis, "SAVE"), "+OK\\r\\n");
    let digest = say(&mut redis, "DEBUG DIGEST");
    assert_eq!(say(&mut redis, "DBSIZE"), ":23\\r\\n");

    let (config, path) = (Config::default(), ours.path().to_str().unwrap());
    let directories = || Ok(vec![vlog::Directory::open(path)?]);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = since.as_millis() as u64;
    let file = || std::fs::File::open(one.path().join("dump.rdb")).unwrap();
    let quiet = &mut |_| {};
    let seen = holdfast_kv::rdb::verify(file(), &config, now_ms, quiet).unwrap();
    let log = vlog::Options::default;
    let alone = begins();
    let imported =
        holdfast_kv::rdb::import(file(), directories, log(), &config, now_ms, quiet).unwrap();
    assert_eq!((&imported, imported.keys), (&seen, 24));

    let loaded = load(directories, log(), Policy::No, &config, &Default::default());
    drop(alone);
    let dump = two.path().join("dump.rdb");
    let target = holdfast_kv::rdb::Target::create(&dump).unwrap();
    let (keys, target) = holdfast_kv::rdb::export(&loaded.unwrap(), target, now_ms).unwrap();
    target.commit().unwrap();
    assert_eq!(keys, 24);
    let mut other = Redis::start(two.path());
    assert_eq!(say(&mut other, "DEBUG DIGEST"), digest);
    for line in [
        "XINFO STREAM stream FULL",
        "XPENDING stream readers",
        "OBJECT ENCODING few1",
        "OBJECT ENCODING numbers",
        "EXPIRETIME expires",
    ] {
        assert_eq!(say(&mut other, line), say(&mut redis, line), "{line}");
    }
    say(&mut other, "SET text other");
    assert_ne!(say(&mut other, "DEBUG DIGEST"), digest);
}

/// Lines and words of a reply in an order that they alone decide.
fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = reply
        .split(|byte| matches!(byte, b'\n' | b' ' | b'\r'))
        .map(<[u8]>::to_vec)
        .collect();
    lines.sort();
    lines
}

/// Ours with an empty database, and its client.
fn serve(home: &Path, config: Config) -> (Engine, Token) {
    let path = home.to_str().unwrap();
    let directories = || Ok(vec![vlog::Directory::open(path)?]);
    let alone = begins();
    let log = vlog::Options::default();
    let loaded = load(directories, log, Policy::No, &config, &Default::default()).unwrap();
    drop(alone);
    let mut engine = Engine::new(config, env::Rng::new(1));
    engine.serve(loaded);
    let client = engine.connect(Default::default()).unwrap();
    (engine, client)
}

/// As [`serve`], in version 3 of the protocol.
fn serve_three(home: &Path) -> (Engine, Token) {
    let (mut engine, client) = serve(home, Config::default());
    ask(&mut engine, client, &[b"HELLO".to_vec(), b"3".to_vec()]);
    (engine, client)
}

fn differences(version: &str, config: Config) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(home.path());
    let (mut engine, client) = serve(home.path(), config);
    let hello = vec![b"HELLO".to_vec(), version.as_bytes().to_vec()];
    redis.ask(&hello);
    ask(&mut engine, client, &hello);
    let mut differences = Vec::new();
    let scripts = include_str!("scripts.txt").lines();
    for line in include_str!("dialogues.txt").lines().chain(scripts) {
        if line.starts_with('#') {
            continue;
        }
        let (line, any_order) = match line.strip_prefix('~') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let line = if line.is_empty() { "FLUSHALL" } else { line };
        let words = split_words(line.as_bytes()).unwrap();
        let theirs = redis.ask(&words);
        let ours = ask(&mut engine, client, &words);
        let same = match any_order {
            true => sorted(&ours) == sorted(&theirs),
            false => ours == theirs,
        };
        if !same {
            differences.push(format!(
                "{line}\n  redis: {}\n  ours:  {}",
                theirs.escape_ascii(),
                ours.escape_ascii()
            ));
        }
    }
    engine.close().unwrap();
    differences
}

#[test]
fn commands_are_described_as_redis_describes_them() {
    let home = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(home.path());
    say(&mut redis, "HELLO 3");
    let (mut engine, client) = serve_three(home.path());
    let names = ask(
        &mut engine,
        client,
        &[b"COMMAND".to_vec(), b"LIST".to_vec()],
    );
    let names = String::from_utf8(names).unwrap();
    let names = names.lines().filter(|line| !line.starts_with(['*', '$']));
    let mut count = 0;
    for name in names {
        let line = format!("COMMAND INFO {name}");
        let words = split_words(line.as_bytes()).unwrap();
        let (theirs, ours) = (redis.ask(&words), ask(&mut engine, client, &words));
        assert_eq!(
            sorted(&ours),
            sorted(&theirs),
            "{name}\n{}\n{}",
            ours.escape_ascii(),
            theirs.escape_ascii()
        );
        count += 1;
    }
    assert!(count > 200, "{count}");
}

/// ACL LOG without ages, and of what clients are only the user.
fn refusals(reply: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(reply).into_owned();
    let mut lines = text.split("\r\n");
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        kept.push(line.to_owned());
        if line == "age-seconds" {
            assert!(lines.next().is_some_and(|age| age.starts_with(',')));
        } else if line == "client-info" {
            let info = lines.nth(1).unwrap_or_default();
            let user = info.split(' ').filter(|word| word.starts_with("user="));
            kept.extend(user.map(str::to_owned));
        }
    }
    kept
}

#[test]
fn refusals_are_logged_as_redis_logs_them() {
    let home = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(home.path());
    say(&mut redis, "HELLO 3");
    let (mut engine, client) = serve_three(home.path());
    let lines = [
        "ACL SETUSER u on >pw +@all -flushall -debug ~a* &c*",
        "AUTH u wrong",
        "auth nobody wrong",
        "HELLO 3 AUTH u wrong",
        "AUTH u pw",
        "GET b",
        "GET b",
        "MGET a b c",
        "SPUBLISH d x",
        "PSUBSCRIBE c1 c*",
        "DEBUG SLEEP 0",
        "FLUSHALL",
        "MULTI",
        "SET b 1",
        "FLUSHALL",
        "DISCARD",
        "EVAL \"return redis.pcall('get','b')\" 0",
        "EVAL \"return redis.pcall('flushall')\" 0",
        "EVAL \"return 1\" 1 b",
        "SORT a STORE b",
    ];
    for line in lines {
        let words = split_words(line.as_bytes()).unwrap();
        redis.ask(&words);
        ask(&mut engine, client, &words);
    }
    let words = split_words(b"ACL LOG 100").unwrap();
    let theirs = refusals(&redis.ask(&words));
    assert_eq!(refusals(&ask(&mut engine, client, &words)), theirs);
    assert!(
        theirs.iter().filter(|line| *line == "reason").count() >= 12,
        "{theirs:?}"
    );
}

#[test]
fn replies_of_version_two_are_those_of_redis() {
    let found = differences("2", Config::default());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn replies_of_version_three_are_those_of_redis() {
    let found = differences("3", Config::default());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_setting_that_is_another_is_seen() {
    let mut config = Config::default();
    config.set("hash-max-listpack-entries", "0").unwrap();
    let found = differences("2", config);
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("OBJECT ENCODING h")),
        "{found:?}"
    );
}
