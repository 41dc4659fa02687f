//! Replies beside those of redis-server, byte for byte. Needs Debian's package, which `make test` installs.

use holdfast_kv::protocol::split_words;
use holdfast_kv::{Config, Engine, Policy, Token, load};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// redis-server on a socket of its own, which ends with this value.
struct Redis {
    child: Child,
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Redis {
    fn start(home: &Path) -> Redis {
        let socket = home.join("redis.socket");
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"])
            .arg(home)
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server is installed (make test does)");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("eady to accept")));
        assert!(
            ready || socket.exists(),
            "redis-server says that it is ready"
        );
        std::thread::spawn(move || lines.count());
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(_) => assert!(child.try_wait().unwrap().is_none(), "it ended"),
            }
        };
        // A request that waits where it should not is told from a slow machine.
        let patience = Some(std::time::Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Redis {
            child,
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
        self.receive(&mut reply);
        reply
    }

    fn receive(&mut self, reply: &mut Vec<u8>) {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        assert!(read.is_ok(), "no reply in time");
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
            (b'*' | b'~' | b'>', Ok(count @ 0..)) => (0..count).for_each(|_| self.receive(reply)),
            (b'%', Ok(count @ 0..)) => (0..count * 2).for_each(|_| self.receive(reply)),
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

/// Lines of a reply in an order that the elements alone decide.
fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = reply
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    lines.sort();
    lines
}

fn differences(version: &str, config: Config) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(home.path());
    let path = home.path().to_str().unwrap().to_owned();
    let directories = || Ok(vec![vlog::Directory::open(&path)?]);
    let log = vlog::Options::default();
    let loaded = load(directories, log, Policy::No, &config, &Default::default()).unwrap();
    let mut engine = Engine::new(config, env::Rng::new(1));
    engine.serve(loaded);
    let client = engine.connect(Default::default()).unwrap();
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
