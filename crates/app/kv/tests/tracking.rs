//! What clients are told of keys that they may have copies of, beside what redis-server tells: the same on each of
//! several connections, at the same place among their replies.

#[path = "support/redis.rs"]
mod redis;
#[path = "support/served.rs"]
mod served;

use holdfast_kv::protocol::split_words;
use redis::Redis;
use served::Served;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};

/// Not a test of its own: what the other process does.
#[test]
fn child() {
    served::serve(holdfast_kv::Policy::No);
}

/// A connection to either server.
struct Peer {
    output: Box<dyn Write>,
    input: BufReader<Box<dyn Read>>,
    id: String,
}

impl Peer {
    fn new(output: Box<dyn Write>, input: Box<dyn Read>) -> Peer {
        let input = BufReader::new(input);
        let mut peer = Peer {
            output,
            input,
            id: String::new(),
        };
        let id = peer.ask("CLIENT ID");
        id[1..].trim().clone_into(&mut peer.id);
        peer
    }

    fn ask(&mut self, line: &str) -> String {
        let words = split_words(line.as_bytes()).unwrap();
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend(word);
            request.extend(b"\r\n");
        }
        self.output.write_all(&request).unwrap();
        // What came before without being asked for belongs to it.
        let mut all = String::new();
        loop {
            let one = self.receive();
            all.push_str(&one);
            if !one.starts_with('>') && !one.starts_with("*3\r\n$7\r\nmessage\r\n") {
                return all;
            }
        }
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).expect("a reply in time");
        assert!(line.ends_with('\n'), "the connection ended");
        let number = line[1..].trim().parse::<i64>().unwrap_or(-1);
        let parts = match line.as_bytes()[0] {
            b'$' | b'=' if number >= 0 => {
                let mut bytes = vec![0; number as usize + 2];
                self.input.read_exact(&mut bytes).unwrap();
                return line + &String::from_utf8(bytes).unwrap();
            }
            b'*' | b'~' | b'>' => number.max(0),
            b'%' => number * 2,
            _ => 0,
        };
        (0..parts).fold(line, |all, _| all + &self.receive())
    }
}

/// Either server: how one connects to it.
trait Server {
    fn connect(&self) -> Peer;
}

impl Server for Redis {
    fn connect(&self) -> Peer {
        let stream = Redis::connect(self);
        let input = stream.try_clone().unwrap();
        Peer::new(Box::new(stream), Box::new(input))
    }
}

impl Server for Served {
    fn connect(&self) -> Peer {
        let stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let patience = Some(std::time::Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        let input = stream.try_clone().unwrap();
        Peer::new(Box::new(stream), Box::new(input))
    }
}

/// Numbers of connections in an answer become their names.
fn named(command: &str, answer: &str, ids: &BTreeMap<&str, String>) -> String {
    let mut answer = answer.to_owned();
    for (name, id) in ids {
        for before in ["$2\r\nid\r\n:", "redirect\r\n:", "broken\r\n:"] {
            let (number, name) = (format!("{before}{id}\r\n"), format!("{before}${name}\r\n"));
            answer = answer.replace(&number, &name);
        }
        if command.ends_with("GETREDIR") && answer == format!(":{id}\r\n") {
            answer = format!(":${name}\r\n");
        }
        // Of CLIENT INFO that alone is the same.
        if answer.contains(&format!(" redir={id} ")) {
            answer = format!("redir=${name}");
        }
    }
    answer
}

/// What all lines of a dialogue were answered, each with what came before its reply. `$NAME` in a line is the number of
/// that connection.
fn answers(server: &dyn Server, dialogue: &str) -> Vec<String> {
    let mut peers: BTreeMap<&str, Peer> = BTreeMap::new();
    let mut ids: BTreeMap<&str, String> = BTreeMap::new();
    let mut answers = Vec::new();
    for line in dialogue.lines().filter(|line| !line.is_empty()) {
        let (name, command) = line.split_once(' ').unwrap();
        if command == "leaves" {
            let mut gone = peers.remove(name).unwrap();
            gone.ask("QUIT");
            let end = gone.input.read_line(&mut String::new());
            assert_eq!(end.unwrap(), 0, "the connection has ended");
            continue;
        }
        let peer = peers.entry(name).or_insert_with(|| server.connect());
        ids.insert(name, peer.id.clone());
        let mut command = command.to_owned();
        for (other, id) in &ids {
            command = command.replace(&format!("${other}"), id);
        }
        let answer = named(&command, &peer.ask(&command), &ids);
        answers.push(format!("{line}\n    {}", answer.as_bytes().escape_ascii()));
    }
    answers
}

/// Lines of dialogues whose answers differ.
fn differences(ours: &dyn Server, theirs: &dyn Server) -> Vec<String> {
    let mut differences = Vec::new();
    let lines = include_str!("tracking.txt").lines();
    let kept: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    for dialogue in kept.join("\n").split("\n\n") {
        let (ours, theirs) = (answers(ours, dialogue), answers(theirs, dialogue));
        let pairs = ours.iter().zip(&theirs);
        differences.extend(
            pairs
                .filter(|(ours, theirs)| ours != theirs)
                .map(|(ours, theirs)| format!("ours  {ours}\nredis {theirs}")),
        );
    }
    differences
}

#[test]
fn clients_are_told_of_the_same_keys_at_the_same_places() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ours, theirs) = (Served::start(home.path()), Redis::start(other.path()));
    let found = differences(&ours, &theirs);
    assert!(found.is_empty(), "{}", found.join("\n"));
    // A server that tells less is seen.
    let mut peer = Server::connect(&ours);
    peer.ask("CONFIG SET tracking-table-max-keys 1");
    let found = differences(&ours, &theirs);
    assert!(!found.is_empty());
}

/// Redis 7.0 remembers the keys that the caller named, and later versions these.
#[test]
fn of_scripts_the_keys_that_their_commands_read_are_remembered() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path());
    let (mut reader, mut writer) = (served.connect(), served.connect());
    reader.ask("HELLO 3");
    reader.ask("CLIENT TRACKING ON");
    let script =
        "redis.call('GET', 'a') redis.call('SET', 'a', 1) return redis.call('GET', KEYS[1])";
    assert_eq!(reader.ask(&format!("EVAL \"{script}\" 2 b c")), "_\r\n");
    let told = |key| format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n{key}\r\n+PONG\r\n");
    assert_eq!(reader.ask("PING"), told("a"));
    writer.ask("MSET b 1 c 1");
    assert_eq!(reader.ask("PING"), told("b"));
    reader.ask("EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 d");
    writer.ask("SET d 1");
    assert_eq!(reader.ask("PING"), "+PONG\r\n");
}

#[test]
fn what_expires_or_is_evicted_is_told_and_the_table_stays_within_its_bound() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path());
    let (mut reader, mut writer) = (served.connect(), served.connect());
    reader.ask("HELLO 3");
    reader.ask("CLIENT TRACKING ON");
    writer.ask("SET brief v PX 30");
    reader.ask("GET brief");
    assert_eq!(
        reader.receive(),
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nbrief\r\n"
    );

    writer.ask("SET large v");
    reader.ask("GET large");
    writer.ask("CONFIG SET maxmemory 1 maxmemory-policy allkeys-random");
    writer.ask("SET other v");
    assert_eq!(
        reader.receive(),
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nlarge\r\n"
    );
    writer.ask("CONFIG SET maxmemory 0");

    writer.ask("CONFIG SET tracking-table-max-keys 5");
    let mut told = 0;
    for number in 0..100 {
        let answer = reader.ask(&format!("GET key:{number}"));
        told += answer.matches("invalidate").count();
    }
    let info = writer.ask("INFO stats");
    assert!(info.contains("tracking_total_keys:5\r\n"), "{info}");
    assert!(info.contains("tracking_total_items:5\r\n"), "{info}");
    assert!((94..=95).contains(&told), "{told}");
    let clients = writer.ask("INFO clients");
    assert!(clients.contains("tracking_clients:1\r\n"), "{clients}");
    reader.ask("RESET");
    let clients = writer.ask("INFO clients");
    assert!(clients.contains("tracking_clients:0\r\n"), "{clients}");
}
