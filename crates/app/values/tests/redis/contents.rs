//! What a value holds, as commands show it: the same for a server's key and for a value of ours.

use holdfast_values::{Element, StreamId, Value, number::format_double};

use crate::server::{Reply, Server};

fn bytes(element: Element<'_>) -> Reply {
    Reply::Bytes(element.to_vec())
}

/// Lines that tell all there is.
pub(crate) fn of_value(value: &Value) -> Vec<Reply> {
    match value {
        Value::String(string) => vec![Reply::Bytes(string.to_vec())],
        Value::List(list) => list.iter().map(bytes).collect(),
        Value::Hash(hash) => {
            let mut pairs: Vec<_> = hash
                .iter()
                .map(|(field, value)| Reply::List(vec![bytes(field), bytes(value)]))
                .collect();
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            pairs
        }
        Value::Set(set) => {
            let mut members: Vec<_> = set.iter().map(bytes).collect();
            members.sort_by_key(|member| format!("{member:?}"));
            members
        }
        Value::SortedSet(set) => set
            .iter()
            .flat_map(|(member, score)| {
                [
                    bytes(member),
                    Reply::Bytes(format_double(score).into_bytes()),
                ]
            })
            .collect(),
        Value::Stream(stream) => {
            let mut lines: Vec<Reply> = stream
                .iter(StreamId::MIN, StreamId::MAX)
                .map(|entry| {
                    let fields = entry
                        .fields
                        .into_iter()
                        .flat_map(|(field, value)| [bytes(field), bytes(value)]);
                    Reply::List(vec![
                        Reply::Bytes(entry.id.to_string().into_bytes()),
                        Reply::List(fields.collect()),
                    ])
                })
                .collect();
            for (name, group) in stream.groups() {
                lines.push(Reply::Bytes(name.to_vec()));
                lines.push(Reply::Bytes(group.last_id().to_string().into_bytes()));
                lines.push(
                    group
                        .entries_read()
                        .map_or(Reply::Nothing, |read| Reply::Integer(read.cast_signed())),
                );
                lines.push(stream.lag(group).map_or(Reply::Nothing, Reply::Integer));
                for pending in group.pending(StreamId::MIN, StreamId::MAX) {
                    lines.push(Reply::List(vec![
                        Reply::Bytes(pending.id.to_string().into_bytes()),
                        Reply::Bytes(pending.consumer.to_vec()),
                        Reply::Integer(pending.deliveries.cast_signed()),
                    ]));
                }
            }
            lines.push(Reply::Integer(stream.entries_added().cast_signed()));
            lines.push(Reply::Bytes(
                stream.max_deleted_id().to_string().into_bytes(),
            ));
            lines.push(Reply::Bytes(stream.last_id().to_string().into_bytes()));
            lines.push(Reply::Bytes(stream.first_id().to_string().into_bytes()));
            lines
        }
    }
}

/// The same of a key of a server.
pub(crate) fn of_key(server: &mut Server, key: &[u8], kind: &str) -> Vec<Reply> {
    let mut ask = |words: &[&[u8]]| server.call(words).unwrap();
    match kind {
        "string" => vec![ask(&[b"GET", key])],
        "list" => ask(&[b"LRANGE", key, b"0", b"-1"]).list(),
        "hash" => {
            let all = ask(&[b"HGETALL", key]).list();
            let mut pairs: Vec<_> = all
                .chunks(2)
                .map(|pair| Reply::List(pair.to_vec()))
                .collect();
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            pairs
        }
        "set" => {
            let mut members = ask(&[b"SMEMBERS", key]).list();
            members.sort_by_key(|member| format!("{member:?}"));
            members
        }
        "zset" => ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]).list(),
        "stream" => {
            let mut lines = ask(&[b"XRANGE", key, b"-", b"+"]).list();
            for group in ask(&[b"XINFO", b"GROUPS", key]).list() {
                let group = group.list();
                let name = group[1].clone();
                lines.extend([
                    name.clone(),
                    group[7].clone(),
                    group[9].clone(),
                    group[11].clone(),
                ]);
                let name = name.bytes();
                for pending in ask(&[b"XPENDING", key, &name, b"-", b"+", b"1000"]).list() {
                    let pending = pending.list();
                    lines.push(Reply::List(vec![
                        pending[0].clone(),
                        pending[1].clone(),
                        pending[3].clone(),
                    ]));
                }
            }
            let info = ask(&[b"XINFO", b"STREAM", key]).list();
            let field = |name: &str| {
                let at = info
                    .iter()
                    .position(|item| *item == Reply::Bytes(name.into()))
                    .unwrap();
                info[at + 1].clone()
            };
            lines.push(field("entries-added"));
            for name in [
                "max-deleted-entry-id",
                "last-generated-id",
                "recorded-first-entry-id",
            ] {
                lines.push(field(name));
            }
            lines
        }
        other => panic!("a key of type {other}"),
    }
}
