//! Against a real `redis-server` 7.0: it reads what is written here, and what it writes is read here.

#[path = "redis/contents.rs"]
mod contents;
#[path = "redis/sample.rs"]
mod sample;
#[path = "redis/server.rs"]
mod server;

use std::{collections::BTreeMap, fs::File, path::Path};

use holdfast_values::{
    Set, Thresholds, Value,
    rdb::{Item, Reader, Writer, dump, restore},
};
use server::{Reply, Server};

type Keys = BTreeMap<Vec<u8>, (Value, Option<i64>)>;

fn read(path: &Path) -> Keys {
    let mut reader = Reader::new(File::open(path).unwrap(), Thresholds::REDIS).unwrap();
    let mut keys = Keys::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Key(item) = item {
            assert!(
                keys.insert(item.key, (item.value, item.expires_ms))
                    .is_none()
            );
        }
    }
    keys
}

/// A server's key and a value of ours hold the same and say the same of themselves.
fn assert_same(server: &mut Server, key: &[u8], value: &Value) {
    let name = key.escape_ascii().to_string();
    let kind = server.call(&[b"TYPE", key]).unwrap();
    assert_eq!(kind, Reply::Text(value.type_name().into()), "{name}");
    assert_eq!(
        contents::of_key(server, key, value.type_name()),
        contents::of_value(value),
        "{name}"
    );
    let encoding = server.call(&[b"OBJECT", b"ENCODING", key]).unwrap().bytes();
    assert_eq!(
        String::from_utf8(encoding).unwrap(),
        value.encoding(),
        "{name}"
    );
}

/// The comparison finds one element that differs.
#[test]
#[should_panic(expected = "canary")]
fn a_difference_is_found() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path());
    server.say("SADD canary a b c");
    let mut set = Set::new();
    for member in [b"a", b"b", b"x"] {
        set.add(member, &Thresholds::REDIS);
    }
    assert_same(&mut server, b"canary", &set.into());
}

#[test]
fn redis_loads_a_file_of_ours() {
    let home = tempfile::tempdir().unwrap();
    let values = sample::values();
    let mut writer = Writer::new(File::create(home.path().join("dump.rdb")).unwrap()).unwrap();
    writer.note(b"redis-ver", b"7.0.15").unwrap();
    writer
        .function(
            b"#!lua name=library\nredis.register_function('answer', function() return 42 end)",
        )
        .unwrap();
    writer.database(0, values.len() as u64, 1).unwrap();
    for (key, value, expires_ms) in &values {
        writer.key(key, value, *expires_ms).unwrap();
    }
    writer.database(5, 1, 0).unwrap();
    writer.key(b"elsewhere", &values[0].1, None).unwrap();
    writer.finish().unwrap().sync_all().unwrap();
    let mut server = Server::start(home.path());
    assert_eq!(
        server.say("DBSIZE"),
        Reply::Integer(values.len().try_into().unwrap())
    );
    for (key, value, expires_ms) in &values {
        // A string that was changed in place is `raw` here and may be `embstr` once loaded.
        let reread = restore(&dump(value), &Thresholds::REDIS).unwrap();
        assert_same(&mut server, key, &reread);
        let expires = server.call(&[b"PEXPIRETIME", key]).unwrap();
        assert_eq!(expires, Reply::Integer(expires_ms.unwrap_or(-1)));
    }
    assert_eq!(server.say("FCALL answer 0"), Reply::Integer(42));
    assert_eq!(server.say("SELECT 5"), Reply::Text("OK".into()));
    assert_eq!(server.say("EXISTS elsewhere"), Reply::Integer(1));
}

#[test]
fn redis_restores_payloads_of_ours_and_its_own_come_back() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path());
    for (key, value, _) in sample::values() {
        let restored = server.call(&[b"RESTORE", &key, b"0", &dump(&value)]);
        assert_eq!(
            restored,
            Ok(Reply::Text("OK".into())),
            "{}",
            key.escape_ascii()
        );
        let payload = server.call(&[b"DUMP", &key]).unwrap().bytes();
        assert_eq!(restore(&payload, &Thresholds::REDIS).as_ref(), Ok(&value));
    }
    assert!(
        server
            .call(&[b"RESTORE", b"bad", b"0", b"\x00\x01x\x0a\x0012345678"])
            .is_err()
    );
}

#[test]
fn a_file_of_redis_is_read() {
    for compressed in ["yes", "no"] {
        let home = tempfile::tempdir().unwrap();
        let mut server = Server::start(home.path());
        server.say(&format!("CONFIG SET rdbcompression {compressed}"));
        fill(&mut server);
        server.say("SAVE");
        let keys = read(&home.path().join("dump.rdb"));
        // Anew, because strings that were changed in place are `raw` only until they are loaded.
        drop(server);
        let mut server = Server::start(home.path());
        assert_eq!(
            server.say("DBSIZE"),
            Reply::Integer(keys.len().try_into().unwrap())
        );
        for (key, (value, expires_ms)) in &keys {
            assert_same(&mut server, key, value);
            let expires = server.call(&[b"PEXPIRETIME", key]).unwrap();
            assert_eq!(expires, Reply::Integer(expires_ms.unwrap_or(-1)));
        }
    }
}

/// Keys of every type and form, made by commands.
fn fill(server: &mut Server) {
    for words in [
        "SET int 12345",
        "SET text hello",
        "SET later x PXAT 4102444800123",
        "SETRANGE holes 100000 x",
        "SETBIT bits 7 1",
        "INCRBYFLOAT float 10.5",
        "INCRBYFLOAT float 0.1",
        "RPUSH list a b c 1 2 3 -70000 99999999999",
        "LPUSH list front",
        "LREM list 1 b",
        "HSET hash a 1 b two c 3.5",
        "HINCRBYFLOAT hash c 0.1",
        "SADD ints 1 2 3 -5 70000 9999999999",
        "SADD set a b c 1 2",
        "ZADD zset 1 a 2.5 b inf c -inf d 0.1 e",
        "ZINCRBY zset 0.2 e",
        "GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        "PFADD hll a b c d e f g",
        "XADD stream 5-1 a 1 b 2",
        "XADD stream 5-2 a 3 b 4",
        "XADD stream 6-0 c 5",
        "XADD stream 7-* a 6 b 7",
        "XGROUP CREATE stream g 0",
        "XGROUP CREATE stream late $",
        "XREADGROUP GROUP g one COUNT 2 STREAMS stream >",
        "XREADGROUP GROUP g two STREAMS stream >",
        "XACK stream g 5-1",
        "XDEL stream 6-0",
        "XCLAIM stream g two 0 5-2",
    ] {
        server.say(words);
    }
    for index in 0..3000 {
        server.say(&format!("RPUSH list:long element{index} {index}"));
        server.say(&format!("HSET hash:long field{index} {index}"));
        server.say(&format!("SADD set:long member{index}"));
        server.say(&format!("SADD ints:long {index}"));
        server.say(&format!(
            "ZADD zset:long {} member{index}",
            f64::from(index) / 8.0
        ));
        server.say(&format!(
            "XADD stream:long {}-0 a {index} b text",
            index + 1
        ));
        server.say(&format!("PFADD hll:long {index}"));
    }
    server.say("XTRIM stream:long MAXLEN 1234");
    server.say("XDEL stream:long 2500-0");
}
