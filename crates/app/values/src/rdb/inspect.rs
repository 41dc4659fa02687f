//! What is in a file, for people.

use std::{collections::BTreeMap, io::Read};

use super::{Item, RdbError, Reader};
use crate::Thresholds;

/// Names and values in the order of the file, and whether all of it could be read and its checksum
/// matches. Memory is bounded by the largest value; other programs' text is escaped.
pub fn inspect(reader: impl Read) -> (Vec<(String, String)>, bool) {
    let mut fields = Vec::new();
    let result = read(reader, &mut fields);
    if let Err(why) = &result {
        fields.push(("damage".into(), why.to_string()));
    }
    (fields, result.is_ok())
}

/// What a database has.
#[derive(Default)]
struct Totals {
    by_type: BTreeMap<&'static str, u64>,
    expiring: u64,
}

fn read(reader: impl Read, fields: &mut Vec<(String, String)>) -> Result<(), RdbError> {
    let mut reader = Reader::new(reader, Thresholds::REDIS)?;
    fields.push(("version".into(), reader.version().to_string()));
    let (mut databases, mut number, mut functions) = (BTreeMap::<u64, Totals>::new(), 0, 0u64);
    let mut next = || reader.next_item();
    let result = loop {
        match next() {
            Ok(Some(Item::Note { name, value })) => {
                fields.push((
                    format!("note {}", name.escape_ascii()),
                    value.escape_ascii().to_string(),
                ));
            }
            Ok(Some(Item::Database(of))) => number = of,
            Ok(Some(Item::Sizes { .. })) => {}
            Ok(Some(Item::Function(_))) => functions += 1,
            Ok(Some(Item::Key(item))) => {
                let totals = databases.entry(number).or_default();
                *totals.by_type.entry(item.value.type_name()).or_default() += 1;
                totals.expiring += u64::from(item.expires_ms.is_some());
            }
            Ok(None) => break Ok(()),
            Err(why) => break Err(why),
        }
    };
    if functions > 0 {
        fields.push(("libraries of functions".into(), functions.to_string()));
    }
    for (number, totals) in databases {
        for (kind, count) in totals.by_type {
            fields.push((format!("database {number}, {kind} keys"), count.to_string()));
        }
        fields.push((
            format!("database {number}, keys that expire"),
            totals.expiring.to_string(),
        ));
    }
    if reader.skipped_empty() > 0 {
        fields.push((
            "keys without elements".into(),
            reader.skipped_empty().to_string(),
        ));
    }
    fields.push(("bytes read".into(), reader.offset().to_string()));
    result
}
