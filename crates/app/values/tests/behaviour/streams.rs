//! Streams: a random run of commands, and the same with the methods.

use holdfast_values::{
    Stream, StreamId, Thresholds,
    stream::{Claim, NewId, StreamEntry, Sweep, TrimBy},
};

use crate::{Draws, Reply, integer, start};

fn id_reply(id: StreamId) -> Reply {
    Reply::Bytes(id.to_string().into_bytes())
}

fn entry_reply(entry: StreamEntry<'_>) -> Reply {
    let fields = entry
        .fields
        .into_iter()
        .flat_map(|(field, value)| [field.to_vec(), value.to_vec()]);
    Reply::List(vec![
        id_reply(entry.id),
        Reply::List(fields.map(Reply::Bytes).collect()),
    ])
}

fn entries<'a>(all: impl IntoIterator<Item = StreamEntry<'a>>) -> Vec<Reply> {
    all.into_iter().map(entry_reply).collect()
}

/// Entries of a reply of XREADGROUP.
fn read(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::Nothing => Vec::new(),
        other => other.list().remove(0).list().remove(1).list(),
    }
}

#[test]
fn streams_do_the_same() {
    for seed in 0..12 {
        run(seed);
    }
}

fn run(seed: u64) {
    let limits = Thresholds {
        stream_node_max_entries: 5,
        ..Thresholds::REDIS
    };
    let (_home, mut server) = start();
    server.say("CONFIG SET stream-node-max-entries 5");
    let mut draws = Draws(seed);
    let (mut stream, mut now) = (Stream::new(), 1_000_000u64);
    server.say("XGROUP CREATE k g 0 MKSTREAM");
    stream.create_group(b"g", StreamId::MIN, None);
    for _ in 0..400 {
        now += draws.below(3);
        let (first, last) = (StreamId::new(1_000_000, 0), stream.last_id());
        let span = last.ms.saturating_sub(first.ms) + 1;
        let some = |draws: &mut Draws| StreamId::new(first.ms + draws.below(span), draws.below(3));
        let consumer = draws.of(&["one", "two", "three"]);
        let (low, high) = (some(&mut draws), some(&mut draws));
        let step = draws.below(14);
        match step {
            0..=4 => {
                let value = draws.below(100).to_string();
                let field = draws.of(&["a", "a", "a", "b"]);
                let asked = server.call(&[
                    b"XADD",
                    b"k",
                    format!("{now}-*").as_bytes(),
                    field.as_bytes(),
                    value.as_bytes(),
                ]);
                let done = stream.add(
                    NewId::AutoSequence(now),
                    now,
                    &[(field.as_bytes(), value.as_bytes())],
                    &limits,
                );
                assert_eq!(asked.ok(), done.ok().map(id_reply));
            }
            5 => {
                let asked = server.say(&format!("XDEL k {low}"));
                assert_eq!(asked, integer(i64::from(stream.delete(low))));
            }
            6 => {
                let (word, by) = if draws.below(2) == 0 {
                    let most = draws.below(60) as usize;
                    (format!("MAXLEN ~ {most}"), TrimBy::Length(most))
                } else {
                    (format!("MINID ~ {low}"), TrimBy::Id(low))
                };
                let exact = draws.below(2) == 0;
                let word = if exact { word.replace('~', "=") } else { word };
                let asked = server.say(&format!("XTRIM k {word}"));
                assert_eq!(asked, integer(stream.trim(by, !exact, 0) as i64), "{word}");
            }
            7 | 8 => {
                let count = draws.between(1, 6);
                let no_ack = draws.below(4) == 0;
                let flag = if no_ack { "NOACK " } else { "" };
                let asked = server.say(&format!(
                    "XREADGROUP GROUP g {consumer} COUNT {count} {flag}STREAMS k >"
                ));
                let done = stream
                    .deliver(b"g", consumer.as_bytes(), count as usize, no_ack, now)
                    .unwrap();
                assert_eq!(read(asked), entries(done));
            }
            9 => {
                let asked = server.say(&format!(
                    "XREADGROUP GROUP g {consumer} COUNT 4 STREAMS k {low}"
                ));
                let done = stream
                    .deliver_again(b"g", consumer.as_bytes(), low, 4, now)
                    .unwrap();
                let done: Vec<Reply> = done
                    .into_iter()
                    .map(|(id, entry)| {
                        entry.map_or(Reply::List(vec![id_reply(id), Reply::Nothing]), entry_reply)
                    })
                    .collect();
                assert_eq!(read(asked), done);
            }
            10 => {
                let asked = server.say(&format!("XACK k g {low} {high}"));
                let group = stream.group_mut(b"g").unwrap();
                let done = i64::from(group.acknowledge(low)) + i64::from(group.acknowledge(high));
                assert_eq!(asked, integer(done));
            }
            11 => {
                let (force, just_id) = (draws.below(2) == 0, draws.below(2) == 0);
                let words = format!(
                    "XCLAIM k g {consumer} 0 {low} {high}{}{}",
                    if force { " FORCE" } else { "" },
                    if just_id { " JUSTID" } else { "" }
                );
                let asked = server.say(&words).list();
                let options = Claim {
                    force,
                    just_id,
                    ..Claim::default()
                };
                let done = stream
                    .claim(b"g", consumer.as_bytes(), &[low, high], options, now)
                    .unwrap();
                let done: Vec<Reply> = done
                    .claimed
                    .into_iter()
                    .map(|id| {
                        if just_id {
                            id_reply(id)
                        } else {
                            entry_reply(stream.get(id).unwrap())
                        }
                    })
                    .collect();
                assert_eq!(asked, done, "{words}");
            }
            12 => {
                let count = draws.between(1, 5);
                let asked = server
                    .say(&format!(
                        "XAUTOCLAIM k g {consumer} 0 {low} COUNT {count} JUSTID"
                    ))
                    .list();
                let options = Sweep {
                    start: low,
                    count: count as usize,
                    idle_ms_min: 0,
                    just_id: true,
                };
                let done = stream
                    .sweep(b"g", consumer.as_bytes(), options, now)
                    .unwrap();
                let ids = |ids: Vec<StreamId>| Reply::List(ids.into_iter().map(id_reply).collect());
                assert_eq!(
                    asked,
                    [
                        id_reply(done.next),
                        ids(done.claimed.claimed),
                        ids(done.claimed.deleted)
                    ]
                );
            }
            _ => {
                let asked = server.say(&format!("XREVRANGE k {high} {low}")).list();
                assert_eq!(asked, entries(stream.iter_back(low, high)));
            }
        }
        let asked = server.say(&format!("XRANGE k {low} {high}")).list();
        assert_eq!(asked, entries(stream.iter(low, high)));
        assert_eq!(server.say("XLEN k"), integer(stream.len() as i64));
        let info = server.say("XINFO GROUPS k").list().remove(0).list();
        let group = stream.group(b"g").unwrap();
        let known =
            |value: Option<u64>| value.map_or(Reply::Nothing, |value| integer(value.cast_signed()));
        assert_eq!(info[5], integer(group.pending_count() as i64));
        assert_eq!(info[7], id_reply(group.last_id()));
        assert_eq!(info[9], known(group.entries_read()), "entries-read");
        let lag = stream.lag(group).map_or(Reply::Nothing, integer);
        assert_eq!(info[11], lag, "lag");
        let consumers = group.consumers().count();
        assert_eq!(info[3], integer(consumers as i64), "consumers");
        let pending = server.say("XPENDING k g - + 1000").list();
        let own = group.pending(StreamId::MIN, StreamId::MAX).map(|pending| {
            (
                id_reply(pending.id),
                Reply::Bytes(pending.consumer.to_vec()),
                integer(pending.deliveries.cast_signed()),
            )
        });
        let asked = pending
            .into_iter()
            .map(Reply::list)
            .map(|one| (one[0].clone(), one[1].clone(), one[3].clone()));
        assert_eq!(asked.collect::<Vec<_>>(), own.collect::<Vec<_>>(), "{step}");
    }
}
