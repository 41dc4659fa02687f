//! Sorted sets.

use super::hashes::{drawn, scanned};
use super::lists::{counted_keys, deadline, wait};
use super::scan::{cursor, options};
use super::{Call, Command, Flags, command};
use crate::blocking::Timeout;
use crate::engine::Count;
use crate::fault::{Answer, Fault, SYNTAX};
use crate::protocol::{Reply, Version};
use values::number::{INTEGER_BYTES_MAX, format_double, parse_double};
use values::{AddOptions, Added, Element, LexRange, Members, ScoreRange, SortedSet, glob};

const READ: Flags = Flags::READONLY;
const QUICK: Flags = Flags::READONLY.and(Flags::FAST);
const GROW: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);
const FAST: Flags = Flags::WRITE.and(Flags::FAST);
const WAIT: Flags = FAST.and(Flags::BLOCKING).and(Flags::NO_SCRIPT);
const GROUP: &str = "sorted-set";

pub(super) static COMMANDS: &[Command] = &[
    command("zadd", -4, GROW, GROUP, zadd),
    command("zincrby", 4, GROW, GROUP, zincrby),
    command("zcard", 2, QUICK, GROUP, zcard),
    command("zscore", 3, QUICK, GROUP, zscore),
    command("zmscore", -3, QUICK, GROUP, zmscore),
    command("zrank", 3, QUICK, GROUP, |call| rank(call, false)),
    command("zrevrank", 3, QUICK, GROUP, |call| rank(call, true)),
    command("zcount", 4, QUICK, GROUP, zcount),
    command("zlexcount", 4, QUICK, GROUP, zlexcount),
    command("zrem", -3, FAST, GROUP, zrem),
    command("zremrangebyrank", 4, Flags::WRITE, GROUP, zremrangebyrank),
    command("zremrangebyscore", 4, Flags::WRITE, GROUP, zremrangebyscore),
    command("zremrangebylex", 4, Flags::WRITE, GROUP, zremrangebylex),
    command("zpopmin", -2, FAST, GROUP, |call| zpop(call, false)),
    command("zpopmax", -2, FAST, GROUP, |call| zpop(call, true)),
    command("zmpop", -4, Flags::WRITE, GROUP, zmpop),
    command("bzpopmin", -3, WAIT, GROUP, |call| bzpop(call, false)),
    command("bzpopmax", -3, WAIT, GROUP, |call| bzpop(call, true)),
    command("bzmpop", -5, WAIT, GROUP, bzmpop),
    command("zrandmember", -2, READ, GROUP, zrandmember),
    command("zscan", -3, READ, GROUP, zscan),
    command("zrange", -4, READ, GROUP, |call| {
        range(call, By::Asked, false)
    }),
    command("zrevrange", -4, READ, GROUP, |call| {
        range(call, By::Rank, true)
    }),
    command("zrangebyscore", -4, READ, GROUP, |call| {
        range(call, By::Score, false)
    }),
    command("zrevrangebyscore", -4, READ, GROUP, |call| {
        range(call, By::Score, true)
    }),
    command("zrangebylex", -4, READ, GROUP, |call| {
        range(call, By::Lex, false)
    }),
    command("zrevrangebylex", -4, READ, GROUP, |call| {
        range(call, By::Lex, true)
    }),
    command(
        "zrangestore",
        -5,
        Flags::WRITE.and(Flags::DENY_OOM),
        GROUP,
        zrangestore,
    ),
];

/// A score as a reply.
pub(super) fn push_score(reply: &mut Reply, score: f64) {
    reply.double(format_double(score).as_bytes());
}

pub(super) fn zadd(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let mut how = AddOptions::default();
    let mut count_changed = false;
    let mut at = 2;
    loop {
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"NX" => how.only_new = true,
            b"XX" => how.only_present = true,
            b"GT" => how.only_higher = true,
            b"LT" => how.only_lower = true,
            b"CH" => count_changed = true,
            b"INCR" => how.increment = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = call.rest(at);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    if how.only_new && how.only_present {
        return Err(Fault::of(
            "ERR XX and NX options at the same time are not compatible",
        ));
    }
    if (how.only_higher && (how.only_new || how.only_lower)) || (how.only_lower && how.only_new) {
        return Err(Fault::of(
            "ERR GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if how.increment && pairs.len() > 2 {
        return Err(Fault::of(
            "ERR INCR option supports a single increment-element pair",
        ));
    }
    let mut members = Vec::with_capacity(pairs.len() / 2);
    for pair in pairs.chunks_exact(2) {
        let score = parse_double(pair[0]).ok_or(crate::fault::NOT_FLOAT)?;
        members.push((score, pair[1]));
    }
    let limits = call.engine.config.thresholds;
    let mut failed = None;
    let mut last = None;
    let (mut new, mut changed) = (0, 0);
    call.engine.edit_or_new(
        database,
        key,
        Some(call.arguments),
        |set: &mut SortedSet| {
            for (score, member) in &members {
                match set.add(*score, member, how, &limits) {
                    Ok(added) => {
                        new += usize::from(matches!(added, Added::New(_)));
                        changed += usize::from(matches!(added, Added::Changed(_)));
                        last = added.score();
                    }
                    Err(error) => failed = Some(error),
                }
            }
            Count(new + changed)
        },
    )?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if new + changed > 0 {
        call.notify(b'z', if how.increment { "zincr" } else { "zadd" }, key);
    }
    if how.increment {
        match last {
            Some(score) => push_score(call.reply(), score),
            None => call.reply().null(),
        }
        return Ok(());
    }
    call.answer_count(if count_changed { new + changed } else { new })
}

fn zincrby(call: &mut Call<'_>) -> Answer {
    let (database, key, member) = (call.db(), call.arg(1), call.arg(3));
    let by = parse_double(call.arg(2)).ok_or(crate::fault::NOT_FLOAT)?;
    let limits = call.engine.config.thresholds;
    let sum = call.engine.edit_or_new(
        database,
        key,
        Some(call.arguments),
        |set: &mut SortedSet| set.increment(member, by, &limits),
    )??;
    call.notify(b'z', "zincr", key);
    push_score(call.reply(), sum);
    Ok(())
}

fn the_set<'c>(call: &'c mut Call<'_>) -> Result<Option<&'c SortedSet>, Fault> {
    let key = call.arg(1);
    call.engine.get(call.session.database, key)
}

fn zcard(call: &mut Call<'_>) -> Answer {
    let count = the_set(call)?.map_or(0, SortedSet::len);
    call.answer_count(count)
}

fn zscore(call: &mut Call<'_>) -> Answer {
    let member = call.arg(2);
    let score = the_set(call)?.and_then(|set| set.score(member));
    match score {
        Some(score) => push_score(call.reply(), score),
        None => call.reply().null(),
    }
    Ok(())
}

fn zmscore(call: &mut Call<'_>) -> Answer {
    let members = call.rest(2);
    let set = the_set(call)?;
    let scores: Vec<_> = members
        .iter()
        .map(|member| set.and_then(|set| set.score(member)))
        .collect();
    let reply = call.reply();
    reply.array(scores.len());
    for score in scores {
        match score {
            Some(score) => push_score(reply, score),
            None => reply.null(),
        }
    }
    Ok(())
}

fn rank(call: &mut Call<'_>, back: bool) -> Answer {
    let member = call.arg(2);
    let rank = the_set(call)?.and_then(|set| match back {
        true => set.rank_back(member),
        false => set.rank(member),
    });
    match rank {
        Some(rank) => call.reply().count(rank),
        None => call.reply().null(),
    }
    Ok(())
}

fn zcount(call: &mut Call<'_>) -> Answer {
    let range = ScoreRange::parse(call.arg(2), call.arg(3))?;
    let count = the_set(call)?.map_or(0, |set| set.count_scores(range));
    call.answer_count(count)
}

fn zlexcount(call: &mut Call<'_>) -> Answer {
    let range = LexRange::parse(call.arg(2), call.arg(3))?;
    let count = the_set(call)?.map_or(0, |set| set.count_lex(&range));
    call.answer_count(count)
}

/// Takes members away with `work`, which says how many; answers that.
fn take(call: &mut Call<'_>, event: &str, work: impl FnOnce(&mut SortedSet) -> usize) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let gone = call.engine.edit(
        database,
        key,
        Some(call.arguments),
        |set: &mut SortedSet| Count(work(set)),
    )?;
    let gone = gone.map_or(0, |gone| gone.0);
    if gone > 0 {
        call.notify(b'z', event, key);
        if !call.engine.exists(database, key) {
            call.notify(b'g', "del", key);
        }
    }
    call.answer_count(gone)
}

fn zrem(call: &mut Call<'_>) -> Answer {
    let members = call.rest(2);
    take(call, "zrem", |set| {
        members
            .iter()
            .filter(|member| set.remove(member).is_some())
            .count()
    })
}

fn zremrangebyrank(call: &mut Call<'_>) -> Answer {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    take(call, "zremrangebyrank", |set| {
        set.remove_by_rank(start, end)
    })
}

fn zremrangebyscore(call: &mut Call<'_>) -> Answer {
    let range = ScoreRange::parse(call.arg(2), call.arg(3))?;
    take(call, "zremrangebyscore", |set| set.remove_by_score(range))
}

fn zremrangebylex(call: &mut Call<'_>) -> Answer {
    let range = LexRange::parse(call.arg(2), call.arg(3))?;
    take(call, "zremrangebylex", |set| set.remove_by_lex(&range))
}

type Popped = Vec<(Vec<u8>, f64)>;

fn pop_from(
    call: &mut Call<'_>,
    key: &[u8],
    highest: bool,
    count: usize,
) -> Result<Option<Popped>, Fault> {
    let database = call.db();
    let event = if highest { "zpopmax" } else { "zpopmin" };
    let amount = count.to_string();
    let change: [&[u8]; 3] = [event.as_bytes(), key, amount.as_bytes()];
    let popped = call.engine.edit(
        database,
        key,
        Some(&change),
        |set: &mut SortedSet| match highest {
            true => set.pop_last(count),
            false => set.pop_first(count),
        },
    )?;
    if popped.as_ref().is_some_and(|popped| !popped.is_empty()) {
        call.notify(b'z', event, key);
        if !call.engine.exists(database, key) {
            call.notify(b'g', "del", key);
        }
    }
    Ok(popped)
}

/// Members with scores: pairs in version three where `pairs` says so, one after the other else.
fn push_scored(reply: &mut Reply, members: &[(Vec<u8>, f64)], scores: bool, pairs: bool) {
    begin_scored(reply, members.len(), scores, pairs);
    for (member, score) in members {
        push_one(reply, member, scores.then_some(*score), pairs);
    }
}

/// Begins an array of so many members. With `pairs` RESP3 has each with its score in an array of its own.
fn begin_scored(reply: &mut Reply, count: usize, scores: bool, pairs: bool) {
    let pairs = pairs && reply.version == Version::Three;
    let each = if scores && !pairs { 2 } else { 1 };
    reply.array(count * each);
}

fn push_one(reply: &mut Reply, member: &[u8], score: Option<f64>, pairs: bool) {
    if score.is_some() && pairs && reply.version == Version::Three {
        reply.array(2);
    }
    reply.bulk(member);
    if let Some(score) = score {
        push_score(reply, score);
    }
}

fn zpop(call: &mut Call<'_>, highest: bool) -> Answer {
    let count = match call.len() {
        2 => None,
        3 => {
            let bound = Fault::of("ERR value is out of range, must be positive");
            let count = call.integer(2).map_err(|_| bound.clone())?;
            Some(usize::try_from(count).map_err(|_| bound)?)
        }
        _ => return Err(SYNTAX),
    };
    let popped = pop_from(call, call.arg(1), highest, count.unwrap_or(1))?.unwrap_or_default();
    push_scored(call.reply(), &popped, true, count.is_some());
    Ok(())
}

/// Takes from the first of some keys that has a sorted set, and answers; whether one had.
fn pop_from_any(call: &mut Call<'_>, at: usize) -> Result<bool, Fault> {
    let (keys, next) = counted_keys(call, at)?;
    let highest = match call.arg(next).to_ascii_uppercase().as_slice() {
        b"MIN" => false,
        b"MAX" => true,
        _ => return Err(SYNTAX),
    };
    let count = match call.len() - next {
        1 => 1,
        3 if call.is(next + 1, "COUNT") => {
            match usize::try_from(call.integer(next + 2).unwrap_or(0)).unwrap_or(0) {
                0 => return Err(Fault::of("ERR count should be greater than 0")),
                count => count,
            }
        }
        _ => return Err(SYNTAX),
    };
    for key in keys {
        if let Some(popped) = pop_from(call, key, highest, count)? {
            let reply = call.reply();
            reply.array(2);
            reply.bulk(key);
            reply.array(popped.len());
            for (member, score) in popped {
                reply.array(2);
                reply.bulk(&member);
                push_score(reply, score);
            }
            return Ok(true);
        }
    }
    Ok(false)
}

fn zmpop(call: &mut Call<'_>) -> Answer {
    if !pop_from_any(call, 1)? {
        call.reply().null_array();
    }
    Ok(())
}

fn bzmpop(call: &mut Call<'_>) -> Answer {
    let until = deadline(call, 1)?;
    if pop_from_any(call, 2)? {
        return Ok(());
    }
    let (keys, _) = counted_keys(call, 2)?;
    wait(call, keys, until, Timeout::NullArray)
}

fn bzpop(call: &mut Call<'_>, highest: bool) -> Answer {
    let last = call.len() - 1;
    let until = deadline(call, last)?;
    let keys = call.arguments.get(1..last).unwrap_or_default();
    for key in keys {
        let popped = pop_from(call, key, highest, 1)?.and_then(|mut popped| popped.pop());
        if let Some((member, score)) = popped {
            let reply = call.reply();
            reply.array(3);
            reply.bulk(key);
            reply.bulk(&member);
            push_score(reply, score);
            return Ok(());
        }
    }
    wait(call, keys, until, Timeout::NullArray)
}

fn owned<'e>(members: impl IntoIterator<Item = (Element<'e>, f64)>) -> Popped {
    members
        .into_iter()
        .map(|(member, score)| (member.to_vec(), score))
        .collect()
}

fn zrandmember(call: &mut Call<'_>) -> Answer {
    let (amount, with_scores) = drawn(call, "WITHSCORES")?;
    let mut rng = env::Rng::new(call.engine.rng.next_u64());
    let mut draw = |bound: usize| rng.index(bound.max(1));
    let set = the_set(call)?;
    let chosen = match (set, amount) {
        (None, _) => Vec::new(),
        (Some(set), None) => owned(set.random_repeated(1, &mut draw)),
        (Some(set), Some((count, true))) => owned(set.random_distinct(count, &mut draw)),
        (Some(set), Some((count, false))) => owned(set.random_repeated(count, &mut draw)),
    };
    match amount {
        None => {
            let member = chosen.first().map(|(member, _)| member.as_slice());
            call.reply().bulk_or_null(member);
        }
        Some(_) => push_scored(call.reply(), &chosen, with_scores, true),
    }
    Ok(())
}

fn zscan(call: &mut Call<'_>) -> Answer {
    let (cursor, options) = (cursor(call.arg(2))?, options(call, 3)?);
    let mut found = Vec::new();
    let next = the_set(call)?.map_or(0, |set| {
        set.scan(cursor, options.count, |(member, score)| {
            let member = member.to_vec();
            if options
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, &member, false))
            {
                found.push(member);
                found.push(format_double(score).into_bytes());
            }
        })
    });
    scanned(call, next, &found);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// What the options say.
    Asked,
    Rank,
    Score,
    Lex,
}

/// Which members are asked for.
struct Wanted {
    ranks: Option<(i64, i64)>,
    by_score: Option<ScoreRange>,
    by_lex: Option<LexRange>,
    back: bool,
    /// None where there can be none.
    offset: Option<usize>,
    most: Option<usize>,
    /// Whether scores are asked for, too.
    scores: bool,
}

impl Wanted {
    fn of<'a>(&self, set: &'a SortedSet) -> Option<Members<'a>> {
        let (back, offset, most) = (self.back, self.offset?, self.most);
        match (self.ranks, self.by_score, &self.by_lex) {
            (Some((start, end)), ..) => Some(set.by_rank(start, end, back)),
            (_, Some(range), _) => Some(set.by_score(range, back, offset, most)),
            (.., Some(range)) => Some(set.by_lex(range, back, offset, most)),
            _ => None,
        }
    }
}

/// Reads the arguments of ZRANGE from `at`, the key, on.
fn wanted(call: &mut Call<'_>, at: usize, by: By, back: bool) -> Result<Wanted, Fault> {
    let (mut by, mut back, mut scores, asked) = (by, back, false, by == By::Asked);
    let mut limit: Option<(i64, i64)> = None;
    let mut next = at + 3;
    while next < call.len() {
        match call.arg(next).to_ascii_uppercase().as_slice() {
            b"BYSCORE" if asked => by = By::Score,
            b"BYLEX" if asked => by = By::Lex,
            b"REV" if asked => back = true,
            b"WITHSCORES" if by != By::Lex || asked => scores = true,
            b"LIMIT" if next + 2 < call.len() => {
                limit = Some((call.integer(next + 1)?, call.integer(next + 2)?));
                next += 2;
            }
            _ => return Err(SYNTAX),
        }
        next += 1;
    }
    if by == By::Asked {
        by = By::Rank;
    }
    if limit.is_some() && by == By::Rank {
        return Err(Fault::of(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if scores && by == By::Lex {
        return Err(Fault::of(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    let (first, second) = (call.arg(at + 1), call.arg(at + 2));
    // Backwards, the higher bound is the first.
    let (min, max) = if back {
        (second, first)
    } else {
        (first, second)
    };
    let (offset, most) = limit.unwrap_or((0, -1));
    let most = usize::try_from(most).ok();
    let ranks = match by {
        By::Rank => Some((call.integer(at + 1)?, call.integer(at + 2)?)),
        _ => None,
    };
    let by_score = match by {
        By::Score => Some(ScoreRange::parse(min, max)?),
        _ => None,
    };
    let by_lex = match by {
        By::Lex => Some(LexRange::parse(min, max)?),
        _ => None,
    };
    Ok(Wanted {
        ranks,
        by_score,
        by_lex,
        back,
        offset: usize::try_from(offset).ok(),
        most,
        scores,
    })
}

fn range(call: &mut Call<'_>, by: By, back: bool) -> Answer {
    let wanted = wanted(call, 1, by, back)?;
    let set: Option<&SortedSet> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    match set.and_then(|set| wanted.of(set)) {
        Some(members) => {
            let mut text = [0; INTEGER_BYTES_MAX];
            let (count, scores) = (members.len(), wanted.scores);
            begin_scored(reply, count, scores, true);
            for (member, score) in members {
                push_one(
                    reply,
                    member.bytes(&mut text),
                    scores.then_some(score),
                    true,
                );
            }
        }
        None => reply.array(0),
    }
    Ok(())
}

fn zrangestore(call: &mut Call<'_>) -> Answer {
    let wanted = wanted(call, 2, By::Asked, false)?;
    if wanted.scores {
        return Err(SYNTAX);
    }
    let set: Option<&SortedSet> = call.engine.get(call.session.database, call.arg(2))?;
    let found = set.and_then(|set| wanted.of(set)).map(owned);
    let found = found.unwrap_or_default();
    let (database, target, limits) = (call.db(), call.arg(1), call.engine.config.thresholds);
    let mut result = SortedSet::default();
    for (member, score) in &found {
        result.add(*score, member, AddOptions::default(), &limits)?;
    }
    let count = call.engine.store(database, target, result);
    call.notify(b'z', "zrangestore", target);
    call.answer_count(count)
}
