//! A segment as lines for people.

use crate::scan::{Stop, scan};
use crate::{Record, SegmentHeader, Sequence};
use codec::{Corruption, Field, FrameKey};

/// Most records listed one by one.
const RECORDS_SHOWN: usize = 1000;

/// The header of a segment and a line for each of its first 1000 records. `bytes` is the whole
/// file.
///
/// # Errors
/// What is wrong with the header; damage further on is a line of the output.
pub fn inspect(bytes: &[u8]) -> Result<Vec<Field>, Corruption> {
    inspect_with(bytes, |_| None)
}

/// As [`inspect`], with what the log's owner says of each record at the end of its line.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_with(
    bytes: &[u8],
    mut say: impl FnMut(&Record) -> Option<String>,
) -> Result<Vec<Field>, Corruption> {
    let header = SegmentHeader::decode(bytes)?;
    let found = scan(
        bytes,
        &FrameKey::new(header.log.0, header.number),
        header.first,
        None,
    );
    let mut lines = vec![
        field("log", format!("{:032x}", header.log.0)),
        field("segment", header.number),
        field("first record", header.first.0),
        field("segment bytes", header.segment_bytes),
        field("records", found.frames.len()),
    ];
    for frame in found.frames.iter().take(RECORDS_SHOWN) {
        let mut what = format!(
            "kind {}, {} bytes{}",
            frame.header.kind,
            frame.payload.len(),
            if frame.header.ends_write {
                ", ends a write"
            } else {
                ""
            }
        );
        let record = Record {
            sequence: Sequence(frame.header.sequence),
            kind: frame.header.kind,
            payload: frame.payload.to_vec(),
        };
        if let Some(said) = say(&record) {
            what = format!("{what}: {said}");
        }
        lines.push(field(&format!("record {}", frame.header.sequence), what));
    }
    let end = match found.stop {
        Stop::Limit => "at the end of the segment".to_owned(),
        Stop::Tail(why) => format!("open tail ({why})"),
        Stop::Damage(why) => format!("DAMAGED, committed records follow ({why})"),
    };
    lines.push(field("end", end));
    Ok(lines)
}

fn field(name: &str, value: impl ToString) -> Field {
    (name.to_owned(), value.to_string())
}
