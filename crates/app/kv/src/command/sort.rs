//! SORT.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault, SYNTAX, WRONG_TYPE};
use crate::value::Value;
use values::number::parse_double;
use values::{End, Hash, List};

pub(super) static COMMANDS: &[Command] = &[
    command(
        "sort",
        -2,
        Flags::WRITE.and(Flags::DENY_OOM).and(Flags::MOVABLE_KEYS),
        "generic",
        |call| sort(call, false),
    ),
    command("sort_ro", -2, Flags::READONLY, "generic", |call| {
        sort(call, true)
    }),
];

#[derive(Default)]
struct Asked<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    limit: Option<(i64, i64)>,
    descending: bool,
    alpha: bool,
    store: Option<&'a [u8]>,
}

/// Whether the user may read what patterns stand for, whichever keys that are.
fn reads_all_keys(call: &Call<'_>) -> bool {
    let user = &call.session.user;
    let about = super::about::look_up(call.arguments);
    user.is_unrestricted() || about.is_some_and(|about| user.reads_all_keys(about, call.arguments))
}

fn asked<'a>(call: &Call<'a>, read_only: bool) -> Result<Asked<'a>, Fault> {
    let mut asked = Asked::default();
    let reads_all = reads_all_keys(call);
    let mut at = 2;
    while at < call.len() {
        let left = call.len() - at - 1;
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"ASC" => asked.descending = false,
            b"DESC" => asked.descending = true,
            b"ALPHA" => asked.alpha = true,
            b"LIMIT" if left >= 2 => {
                asked.limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
                at += 2;
            }
            b"STORE" if left >= 1 && !read_only => {
                asked.store = Some(call.arg(at + 1));
                at += 1;
            }
            b"BY" if left >= 1 => {
                if !reads_all && call.arg(at + 1).contains(&b'*') {
                    return Err(Fault::of(
                        "ERR BY option of SORT denied due to insufficient ACL permissions",
                    ));
                }
                asked.by = Some(call.arg(at + 1));
                at += 1;
            }
            b"GET" if left >= 1 => {
                if !reads_all {
                    return Err(Fault::of(
                        "ERR GET option of SORT denied due to insufficient ACL permissions",
                    ));
                }
                asked.get.push(call.arg(at + 1));
                at += 1;
            }
            _ => return Err(SYNTAX),
        }
        at += 1;
    }
    Ok(asked)
}

/// What a pattern stands for: the element itself, a string, or a field of a hash.
fn look_up(call: &mut Call<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|byte| *byte == b'*')?;
    let (front, back) = (pattern.get(..star)?, pattern.get(star + 1..)?);
    let arrow = back.windows(2).position(|two| two == b"->");
    let (back, field) = match arrow {
        Some(at) if at + 2 < back.len() => (back.get(..at)?, back.get(at + 2..)),
        _ => (back, None),
    };
    let key = [front, element, back].concat();
    let database = call.db();
    match field {
        Some(field) => {
            let hash: Option<&Hash> = call.engine.get(database, &key).ok()?;
            hash?.get(field).map(|value| value.to_vec())
        }
        None => call.engine.text(database, &key).ok()?.map(<[u8]>::to_vec),
    }
}

fn elements(call: &mut Call<'_>) -> Result<Vec<Vec<u8>>, Fault> {
    let (database, key) = (call.db(), call.arg(1));
    let Some(entry) = call.engine.read(database, key) else {
        return Ok(Vec::new());
    };
    match entry.as_value() {
        Some(Value::List(list)) => Ok(list.iter().map(|one| one.to_vec()).collect()),
        Some(Value::Set(set)) => Ok(set.iter().map(|one| one.to_vec()).collect()),
        Some(Value::SortedSet(set)) => Ok(set.iter().map(|(one, _)| one.to_vec()).collect()),
        _ => Err(WRONG_TYPE),
    }
}

fn sort(call: &mut Call<'_>, read_only: bool) -> Answer {
    let asked = asked(call, read_only)?;
    let mut elements = elements(call)?;
    let sorts = asked.by.is_none_or(|pattern| pattern.contains(&b'*'));
    if sorts {
        let mut keyed: Vec<(f64, Option<Vec<u8>>, Vec<u8>)> = Vec::with_capacity(elements.len());
        for element in elements {
            let weight = match asked.by {
                Some(pattern) => look_up(call, pattern, &element),
                None => Some(element.clone()),
            };
            let score = match (&weight, asked.alpha) {
                (_, true) | (None, _) => 0.0,
                (Some(weight), false) => {
                    let wrong = Fault::of("ERR One or more scores can't be converted into double");
                    parse_double(weight).ok_or(wrong)?
                }
            };
            keyed.push((score, weight, element));
        }
        let alpha = asked.alpha;
        keyed.sort_by(|(score, weight, element), (score_2, weight_2, element_2)| {
            let order = match alpha {
                true => weight.cmp(weight_2),
                false => score.total_cmp(score_2),
            };
            order.then_with(|| element.cmp(element_2))
        });
        elements = keyed.into_iter().map(|(_, _, element)| element).collect();
    }
    if asked.descending {
        elements.reverse();
    }
    if let Some((offset, count)) = asked.limit {
        let offset = usize::try_from(offset).unwrap_or(0).min(elements.len());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        elements = elements.into_iter().skip(offset).take(count).collect();
    }
    let mut found = Vec::new();
    for element in &elements {
        match asked.get.as_slice() {
            [] => found.push(Some(element.clone())),
            patterns => {
                for pattern in patterns {
                    found.push(look_up(call, pattern, element));
                }
            }
        }
    }
    let Some(target) = asked.store else {
        let reply = call.reply();
        reply.array(found.len());
        found
            .iter()
            .for_each(|one| reply.bulk_or_null(one.as_deref()));
        return Ok(());
    };
    let (database, limits) = (call.db(), call.engine.config.thresholds);
    let mut list = List::default();
    for one in &found {
        list.push(End::Back, one.as_deref().unwrap_or_default(), &limits);
    }
    let count = call.engine.store(database, target, list);
    if count > 0 {
        call.notify(b'l', "sortstore", target);
    }
    call.answer_count(count)
}
