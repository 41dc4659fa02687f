//! Channels.

use super::{Call, Command, Flags, command};
use crate::fault::Answer;
use crate::pubsub::Kind;
use values::glob;

const BASE: Flags = Flags::PUBSUB.and(Flags::NO_SCRIPT).and(Flags::LOADING);

pub(super) static COMMANDS: &[Command] = &[
    command("subscribe", -2, BASE, "pubsub", |call| {
        subscribe(call, Kind::Channel)
    }),
    command("psubscribe", -2, BASE, "pubsub", |call| {
        subscribe(call, Kind::Pattern)
    }),
    command("ssubscribe", -2, BASE, "pubsub", |call| {
        subscribe(call, Kind::Shard)
    }),
    command("unsubscribe", -1, BASE, "pubsub", |call| {
        unsubscribe(call, Kind::Channel)
    }),
    command("punsubscribe", -1, BASE, "pubsub", |call| {
        unsubscribe(call, Kind::Pattern)
    }),
    command("sunsubscribe", -1, BASE, "pubsub", |call| {
        unsubscribe(call, Kind::Shard)
    }),
    command(
        "publish",
        3,
        Flags::LOADING.and(Flags::FAST),
        "pubsub",
        |call| publish(call, Kind::Channel),
    ),
    command(
        "spublish",
        3,
        Flags::LOADING.and(Flags::FAST),
        "pubsub",
        |call| publish(call, Kind::Shard),
    ),
    command(
        "pubsub",
        -2,
        Flags::LOADING.and(Flags::CONTAINER),
        "pubsub",
        pubsub,
    ),
];

fn words(kind: Kind) -> [&'static [u8]; 2] {
    match kind {
        Kind::Channel => [b"subscribe", b"unsubscribe"],
        Kind::Pattern => [b"psubscribe", b"punsubscribe"],
        Kind::Shard => [b"ssubscribe", b"sunsubscribe"],
    }
}

/// Channels that count for a kind.
fn count(call: &Call<'_>, kind: Kind) -> usize {
    match kind {
        Kind::Shard => call.session.subscriptions[2].len(),
        _ => call.session.subscription_count(),
    }
}

fn subscribe(call: &mut Call<'_>, kind: Kind) -> Answer {
    let token = call.session.token;
    for channel in call.rest(1) {
        if call.session.subscriptions[kind as usize].insert(Box::from(*channel)) {
            call.engine.pubsub.add(kind, channel, token);
        }
        let count = count(call, kind);
        let reply = call.reply();
        reply.push(3);
        reply.bulk(words(kind)[0]);
        reply.bulk(channel);
        reply.count(count);
    }
    Ok(())
}

fn unsubscribe(call: &mut Call<'_>, kind: Kind) -> Answer {
    let token = call.session.token;
    let channels: Vec<Box<[u8]>> = match call.len() {
        1 => call.session.subscriptions[kind as usize]
            .iter()
            .cloned()
            .collect(),
        _ => call
            .rest(1)
            .iter()
            .map(|channel| Box::from(*channel))
            .collect(),
    };
    if channels.is_empty() {
        let count = count(call, kind);
        let reply = call.reply();
        reply.push(3);
        reply.bulk(words(kind)[1]);
        reply.null();
        reply.count(count);
    }
    for channel in channels {
        if call.session.subscriptions[kind as usize].remove(&channel) {
            call.engine.pubsub.remove(kind, &channel, token);
        }
        let count = count(call, kind);
        let reply = call.reply();
        reply.push(3);
        reply.bulk(words(kind)[1]);
        reply.bulk(&channel);
        reply.count(count);
    }
    Ok(())
}

fn publish(call: &mut Call<'_>, kind: Kind) -> Answer {
    let (channel, message) = (call.arg(1), call.arg(2));
    let count = call.engine.publish(kind, channel, message);
    call.answer_count(count)
}

fn pubsub(call: &mut Call<'_>) -> Answer {
    let kind = match call.arg(1).to_ascii_uppercase().starts_with(b"SHARD") {
        true => Kind::Shard,
        false => Kind::Channel,
    };
    if call.sub("HELP", 2)? {
        return super::introspect::help(
            call,
            &[
                "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "CHANNELS [<pattern>]",
                "    Return the currently active channels matching a <pattern> (default: '*').",
                "NUMPAT",
                "    Return number of subscriptions to patterns.",
                "NUMSUB [<channel> ...]",
                "    Return the number of subscribers for the specified channels.",
                "SHARDCHANNELS [<pattern>]",
                "    Return the currently active shard level channels.",
                "SHARDNUMSUB [<shardchannel> ...]",
                "    Return the number of subscribers for the specified shard level channels.",
            ],
        );
    }
    if call.sub("CHANNELS", -2)? || call.sub("SHARDCHANNELS", -2)? {
        let pattern = (call.len() > 2).then(|| call.arg(2));
        let channels = call.engine.pubsub.of(kind).keys();
        let found: Vec<_> = channels
            .filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name, false)))
            .collect();
        let reply = &mut call.session.reply;
        reply.array(found.len());
        found.iter().for_each(|name| reply.bulk(name));
        return Ok(());
    }
    if call.sub("NUMSUB", -2)? || call.sub("SHARDNUMSUB", -2)? {
        let names = call.rest(2);
        let channels = call.engine.pubsub.of(kind);
        let reply = &mut call.session.reply;
        reply.array(names.len() * 2);
        for name in names {
            reply.bulk(name);
            reply.count(channels.get(*name).map_or(0, |tokens| tokens.len()));
        }
        return Ok(());
    }
    if call.sub("NUMPAT", 2)? {
        let count = call.engine.pubsub.of(Kind::Pattern).len();
        return call.answer_count(count);
    }
    Err(call.unknown_subcommand())
}
