//! Records of the journal for people, and for the fuzz targets.

use super::dirty::{CHUNK_BYTES, DirtySet, Entry, Manner, Place, REGION_BYTES, Rename};
use super::records::{Record, Replay};
use std::fmt::Write;

/// Most entries and places of one record that are listed; all are counted.
const SHOWN_MAX: usize = 20;

/// One record of an intent or dirty log in words. `kind` and `payload` are those of the log's
/// record (docs/formats/intent-journal.md).
///
/// # Errors
/// Why this version does not know the record.
pub fn describe(sequence: u64, kind: u16, payload: &[u8]) -> Result<String, String> {
    match Record::of_log(sequence, kind, payload) {
        Ok(record) => Ok(words(&record)),
        Err(error) => Err(error.to_string()),
    }
}

/// For the fuzz target: reads a record, adds it up twice, and encodes it again; `None` where the
/// bytes are not a record.
#[doc(hidden)]
pub fn recode(payload: &[u8]) -> Option<Vec<u8>> {
    let record = Record::decode(payload)?;
    let mut replay = Replay::default();
    replay.apply(Record::Base(crate::label::ObjectId(0)));
    replay.apply(record.clone());
    replay.apply(Record::BaseEnd);
    replay.apply(record.clone());
    let mut all = DirtySet::everything();
    all.merge(&replay.state);
    for entry in all.entries.keys() {
        let ranges = all.ranges(entry.object(), 1 << 40);
        assert!(ranges.iter().all(|r| r.0 <= r.1), "{ranges:?}");
        assert!(ranges.windows(2).all(|w| w[0].1 < w[1].0), "{ranges:?}");
    }
    Some(record.encode())
}

fn words(record: &Record) -> String {
    match record {
        Record::Base(mark) => format!("base begins; objects from {:#x} on are active", mark.0),
        Record::BaseEnd => "base is complete; what came before no longer counts".to_owned(),
        Record::Mark(mark) => format!("objects from {:#x} on may differ", mark.0),
        Record::Checkpoint(number) => format!("checkpoint {number}"),
        Record::Rename(rename) => rename_words(rename),
        Record::Settled(id) => format!(
            "renames that move {:#x} are not to be completed any more",
            id.0
        ),
        Record::Touch(entries, places) => {
            let mut text = format!("touch of {}", entries.len());
            for (entry, mask) in entries.iter().take(SHOWN_MAX) {
                let _ = write!(text, "; {}", entry_words(*entry, *mask));
            }
            if entries.len() > SHOWN_MAX {
                text.push_str("; ...");
            }
            for (id, place) in places.iter().take(SHOWN_MAX) {
                let _ = write!(text, "; {:#x} {}", id.0, place_words(place));
            }
            if places.len() > SHOWN_MAX {
                text.push_str("; ...");
            }
            text
        }
    }
}

fn entry_words(entry: Entry, mask: u8) -> String {
    match entry {
        Entry::Names(id) => format!("names in {:#x}", id.0),
        Entry::Attributes(id) => format!("attributes of {:#x}", id.0),
        Entry::Tail(id, region) => format!(
            "content of {:#x} from byte {} on",
            id.0,
            u64::from(region) * REGION_BYTES
        ),
        Entry::Region(id, region) => format!(
            "content of {:#x} in the {} MiB from byte {}, chunks of {} KiB {mask:#010b}",
            id.0,
            REGION_BYTES >> 20,
            u64::from(region) * REGION_BYTES,
            CHUNK_BYTES >> 10
        ),
    }
}

fn place_words(place: &Place) -> String {
    let stores: Vec<String> = place.nodes.iter().map(|(s, _)| s.0.to_string()).collect();
    format!(
        "was {:?}, seen on stores {}",
        String::from_utf8_lossy(&place.name),
        stores.join(", ")
    )
}

fn rename_words(rename: &Rename) -> String {
    let (word, over) = match rename.manner {
        Manner::Replace { .. } => ("rename", "over"),
        Manner::Exchange => ("exchange", "with"),
    };
    format!(
        "{} of {:#x} ({:?} in {:#x}) {} {:#x} ({:?} in {:#x})",
        word,
        rename.moving.0,
        String::from_utf8_lossy(&rename.from_name),
        rename.from.0,
        over,
        rename.target.0,
        String::from_utf8_lossy(&rename.to_name),
        rename.to.0
    )
}
