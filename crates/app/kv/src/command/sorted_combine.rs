//! Sorted sets out of several sets.

use super::lists::counted_keys;
use super::sets::limit;
use super::sorted_sets::push_score;
use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault, NOT_INTEGER, SYNTAX, WRONG_TYPE};
use crate::protocol::Version;
use crate::value::Value;
use values::number::parse_double;
use values::sorted_set::{Aggregate, ScoreSource, difference, intersection, union};
use values::{Set, SortedSet};

const READ: Flags = Flags::READONLY.and(Flags::MOVABLE_KEYS);
const GROW: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::MOVABLE_KEYS);
const GROUP: &str = "sorted-set";

pub(super) static COMMANDS: &[Command] = &[
    command("zunion", -3, READ, GROUP, |call| show(call, How::Union)),
    command("zinter", -3, READ, GROUP, |call| {
        show(call, How::Intersection)
    }),
    command("zdiff", -3, READ, GROUP, |call| show(call, How::Difference)),
    command("zintercard", -3, READ, GROUP, zintercard),
    command("zunionstore", -4, GROW, GROUP, |call| {
        store(call, How::Union)
    }),
    command("zinterstore", -4, GROW, GROUP, |call| {
        store(call, How::Intersection)
    }),
    command("zdiffstore", -4, GROW, GROUP, |call| {
        store(call, How::Difference)
    }),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Union,
    Intersection,
    Difference,
}

struct Asked<'a> {
    keys: &'a [&'a [u8]],
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
    limit: Option<usize>,
}

fn asked<'a>(call: &Call<'a>, at: usize, how: How, stores: bool) -> Result<Asked<'a>, Fault> {
    let count = values::number::parse_integer(call.arg(at)).ok_or(NOT_INTEGER)?;
    if count < 1 {
        let name = String::from_utf8_lossy(call.arg(0)).to_ascii_lowercase();
        return Err(Fault::text(format!(
            "ERR at least 1 input key is needed for '{name}' command"
        )));
    }
    let (keys, mut next) = counted_keys(call, at)?;
    let mut asked = Asked {
        keys,
        weights: Vec::new(),
        aggregate: Aggregate::default(),
        scores: false,
        limit: None,
    };
    while next < call.len() {
        let left = call.len() - next;
        if call.is(next, "WEIGHTS") && how != How::Difference && left > keys.len() {
            for weight in call.arguments.iter().skip(next + 1).take(keys.len()) {
                let wrong = Fault::of("ERR weight value is not a float");
                asked.weights.push(parse_double(weight).ok_or(wrong)?);
            }
            next += 1 + keys.len();
        } else if call.is(next, "AGGREGATE") && how != How::Difference && left > 1 {
            asked.aggregate = match call.arg(next + 1).to_ascii_uppercase().as_slice() {
                b"SUM" => Aggregate::Sum,
                b"MIN" => Aggregate::Min,
                b"MAX" => Aggregate::Max,
                _ => return Err(SYNTAX),
            };
            next += 2;
        } else if call.is(next, "WITHSCORES") && !stores {
            asked.scores = true;
            next += 1;
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(asked)
}

fn combined(call: &mut Call<'_>, asked: &Asked<'_>, how: How) -> Result<SortedSet, Fault> {
    let (database, limits) = (call.db(), call.engine.config.thresholds);
    // Settled first, so that all can be looked at together.
    for key in asked.keys {
        if let Some(entry) = call.engine.peek(database, key)
            && !matches!(entry.as_value(), Some(Value::Set(_) | Value::SortedSet(_)))
        {
            return Err(WRONG_TYPE);
        }
    }
    let none = Set::default();
    let sources: Vec<ScoreSource<'_>> = asked
        .keys
        .iter()
        .map(|key| match call.engine.look::<SortedSet>(database, key) {
            Some(set) => ScoreSource::Sorted(set),
            None => ScoreSource::Plain(call.engine.look::<Set>(database, key).unwrap_or(&none)),
        })
        .collect();
    let (weights, aggregate) = (&asked.weights, asked.aggregate);
    Ok(match how {
        How::Union => union(&sources, weights, aggregate, &limits),
        How::Intersection => intersection(&sources, weights, aggregate, asked.limit, &limits),
        How::Difference => difference(&sources, &limits),
    })
}

fn show(call: &mut Call<'_>, how: How) -> Answer {
    let asked = asked(call, 1, how, false)?;
    let result = combined(call, &asked, how)?;
    let reply = call.reply();
    let pairs = asked.scores && reply.version == Version::Three;
    reply.array(result.len() * if asked.scores && !pairs { 2 } else { 1 });
    for (member, score) in result.iter() {
        if pairs {
            reply.array(2);
        }
        reply.element(member);
        if asked.scores {
            push_score(reply, score);
        }
    }
    Ok(())
}

fn store(call: &mut Call<'_>, how: How) -> Answer {
    let asked = asked(call, 2, how, true)?;
    let result = combined(call, &asked, how)?;
    let (database, target) = (call.db(), call.arg(1));
    let count = call.engine.store(database, target, result);
    let event = match how {
        How::Union => "zunionstore",
        How::Intersection => "zinterstore",
        How::Difference => "zdiffstore",
    };
    if count > 0 {
        call.notify(b'z', event, target);
    }
    call.answer_count(count)
}

fn zintercard(call: &mut Call<'_>) -> Answer {
    let (keys, next) = counted_keys(call, 1)?;
    let limit = limit(call, next)?;
    let asked = Asked {
        keys,
        weights: Vec::new(),
        aggregate: Aggregate::default(),
        scores: false,
        limit: (limit > 0).then_some(limit),
    };
    let count = combined(call, &asked, How::Intersection)?.len();
    call.answer_count(count)
}
