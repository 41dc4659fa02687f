//! Objects.

use std::io::{self, Read, Write};

use super::{RdbError, input::Input, kind, output::Output, streams, zipped};
use crate::{
    End, Hash, List, Set, SortedSet, StringValue, Thresholds, Value, listpack::Listpack,
    number::parse_double,
};

/// How nodes of lists are kept.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// Reads an object of this kind. A collection may be without elements, which no key may be.
pub(super) fn read<R: Read>(
    kind: u8,
    input: &mut Input<R>,
    limits: &Thresholds,
) -> Result<Value, RdbError> {
    Ok(match kind {
        kind::STRING => StringValue::new(&input.string()?).into(),
        kind::LIST => {
            let mut list = List::new();
            for _ in 0..input.length()? {
                list.push(End::Back, &input.string()?, limits);
            }
            list.into()
        }
        kind::LIST_ZIPLIST => {
            let bytes = input.string()?;
            list_of(zipped::ziplist(&bytes), input, limits)?.into()
        }
        kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => quicklist(kind, input)?.into(),
        kind::SET => {
            let mut set = Set::new();
            for _ in 0..input.length()? {
                if !set.add(&input.string()?, limits) {
                    return Err(input.corrupt("a member of a set", "one that is in it already"));
                }
            }
            set.into()
        }
        kind::SET_INTSET => {
            let set = Set::from_intset(input.string()?, limits);
            set.ok_or_else(|| input.corrupt("sorted integers", "other bytes"))?
                .into()
        }
        kind::HASH => {
            let mut hash = Hash::new();
            for _ in 0..input.length()? {
                let field = input.string()?;
                if !hash.set(&field, &input.string()?, limits) {
                    return Err(input.corrupt("a field of a hash", "one that is in it already"));
                }
            }
            hash.into()
        }
        kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
            let pack = pack(kind, input)?;
            let hash = pack.and_then(|pack| Hash::from_pack(pack, limits));
            hash.ok_or_else(|| input.corrupt("fields and values", "other bytes"))?
                .into()
        }
        kind::SORTED_SET | kind::SORTED_SET_2 => sorted_set(kind, input, limits)?.into(),
        kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK => {
            let pack = pack(kind, input)?;
            let set = pack.and_then(|pack| SortedSet::from_pack(pack, limits));
            set.ok_or_else(|| input.corrupt("members and scores", "other bytes"))?
                .into()
        }
        kind::STREAM | kind::STREAM_2 => streams::read(kind == kind::STREAM_2, input)?.into(),
        6 | 7 => return Err(input.unsupported("a value of a module, of type", kind.into())),
        _ => return Err(input.unsupported("an object of a type", kind.into())),
    })
}

/// A listpack, made of an older form where it is one.
fn pack<R: Read>(kind: u8, input: &mut Input<R>) -> Result<Option<Listpack>, RdbError> {
    let bytes = input.string()?;
    let elements = match kind {
        kind::HASH_LISTPACK | kind::SORTED_SET_LISTPACK => return Ok(Listpack::from_bytes(bytes)),
        kind::HASH_ZIPMAP => zipped::zipmap(&bytes),
        _ => zipped::ziplist(&bytes),
    };
    Ok(elements.map(|elements| elements.iter().map(Vec::as_slice).collect()))
}

fn list_of<R: Read>(
    elements: Option<Vec<Vec<u8>>>,
    input: &Input<R>,
    limits: &Thresholds,
) -> Result<List, RdbError> {
    let elements = elements.ok_or_else(|| input.corrupt("a ziplist", "other bytes"))?;
    let mut list = List::new();
    for element in elements {
        list.push(End::Back, &element, limits);
    }
    Ok(list)
}

fn quicklist<R: Read>(kind: u8, input: &mut Input<R>) -> Result<List, RdbError> {
    let mut list = List::new();
    for _ in 0..input.length()? {
        let container = if kind == kind::LIST_QUICKLIST_2 {
            input.length()?
        } else {
            PACKED
        };
        let bytes = input.string()?;
        let node = match container {
            PLAIN => Some([bytes.as_slice()].into_iter().collect()),
            PACKED if kind == kind::LIST_QUICKLIST_2 => Listpack::from_bytes(bytes),
            PACKED => {
                zipped::ziplist(&bytes).map(|elements| elements.iter().map(Vec::as_slice).collect())
            }
            other => return Err(input.corrupt("a kind of a list's node", format!("{other}"))),
        };
        list.push_node(node.ok_or_else(|| input.corrupt("a node of a list", "other bytes"))?);
    }
    Ok(list)
}

fn sorted_set<R: Read>(
    kind: u8,
    input: &mut Input<R>,
    limits: &Thresholds,
) -> Result<SortedSet, RdbError> {
    let mut set = SortedSet::new();
    for _ in 0..input.length()? {
        let member = input.string()?;
        let score = if kind == kind::SORTED_SET_2 {
            f64::from_le_bytes(input.array()?)
        } else {
            score_text(input)?
        };
        if set.add_new(&member, score, limits).is_none() {
            return Err(input.corrupt(
                "a new member with a score",
                "a member that is there, or no number",
            ));
        }
    }
    Ok(set)
}

/// A score as text, its length in one byte; three lengths stand for what has no digits.
fn score_text<R: Read>(input: &mut Input<R>) -> Result<f64, RdbError> {
    let length = input.byte()?;
    match length {
        253 => return Ok(f64::NAN),
        254 => return Ok(f64::INFINITY),
        255 => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    let mut text = Vec::new();
    for _ in 0..length {
        text.push(input.byte()?);
    }
    parse_double(&text).ok_or_else(|| input.corrupt("a score", "other text"))
}

/// The kind that a value is written as.
pub(super) fn kind_of(value: &Value) -> u8 {
    match value {
        Value::String(_) => kind::STRING,
        Value::List(_) => kind::LIST_QUICKLIST_2,
        Value::Hash(hash) if hash.pack().is_some() => kind::HASH_LISTPACK,
        Value::Hash(_) => kind::HASH,
        Value::Set(set) if set.intset_bytes().is_some() => kind::SET_INTSET,
        Value::Set(_) => kind::SET,
        Value::SortedSet(set) if set.pack().is_some() => kind::SORTED_SET_LISTPACK,
        Value::SortedSet(_) => kind::SORTED_SET_2,
        Value::Stream(_) => kind::STREAM_2,
    }
}

/// Writes a value, without its kind.
pub(super) fn write<W: Write>(value: &Value, output: &mut Output<W>) -> io::Result<()> {
    match value {
        Value::String(string) => output.element(string.element()),
        Value::List(list) => {
            let nodes = list.nodes();
            output.length(nodes.len() as u64)?;
            for node in nodes {
                output.length(PACKED)?;
                output.raw_string(node.bytes())?;
            }
            Ok(())
        }
        Value::Hash(hash) => {
            if let Some(pack) = hash.pack() {
                return output.raw_string(pack.bytes());
            }
            output.length(hash.len() as u64)?;
            for (field, value) in hash.iter() {
                output.element(field)?;
                output.element(value)?;
            }
            Ok(())
        }
        Value::Set(set) => {
            if let Some(bytes) = set.intset_bytes() {
                return output.raw_string(bytes);
            }
            output.length(set.len() as u64)?;
            for member in set.iter() {
                output.element(member)?;
            }
            Ok(())
        }
        Value::SortedSet(set) => {
            if let Some(pack) = set.pack() {
                return output.raw_string(pack.bytes());
            }
            output.length(set.len() as u64)?;
            // From the highest score on, which Redis inserts fastest.
            for (member, score) in set.iter_back() {
                output.element(member)?;
                output.bytes(&score.to_le_bytes())?;
            }
            Ok(())
        }
        Value::Stream(stream) => streams::write(stream, output),
    }
}
