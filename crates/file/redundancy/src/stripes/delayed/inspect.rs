//! Segments of differentials for people, and for the fuzz target.

use super::record::{ALIGNMENT, Content, Head, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKey};
use crate::label::StoreIndex;
use crate::set::SetId;
use crate::stripes::shard::identity;
use codec::{Corruption, Field, page_sum};
use std::collections::BTreeMap;

/// What a segment holds, as far as `bytes` go; `length` is that of the whole file.
///
/// # Errors
/// What is wrong with the header.
pub fn segment(bytes: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    let block = bytes.get(..SEGMENT_HEADER_BYTES as usize).unwrap_or(bytes);
    let header = SegmentHeader::decode(block)?;
    let mut seen = Seen::default();
    let mut at = SEGMENT_HEADER_BYTES as usize;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        at += seen.record(&header.key, at as u32, rest);
    }
    let field = |name: &str, value: String| (name.to_owned(), value);
    let mut fields = vec![
        field("set", format!("{:032x}", header.key.set.0)),
        field("store", header.key.store.0.to_string()),
        field("segment", header.key.number.to_string()),
        field("end of the segment before", header.previous_end.to_string()),
        field("bytes looked at", format!("{} of {length}", bytes.len())),
        field("writes", format!("{}, {} bytes", seen.writes, seen.bytes)),
    ];
    if let (Some(first), Some(last)) = (seen.first, seen.last) {
        fields.push(field("numbers", format!("{first} to {last}")));
    }
    for ((stripe, shard), writes) in seen.shards.iter().take(SHOWN_MAX) {
        let name = format!("stripe {stripe:#x} shard {shard}");
        fields.push(field(&name, format!("{writes} writes")));
    }
    if seen.shards.len() > SHOWN_MAX {
        let more = seen.shards.len() - SHOWN_MAX;
        fields.push(field("and of", format!("{more} shards more")));
    }
    for stripe in &seen.forgotten {
        fields.push(field("given up", format!("stripe {stripe:#x}")));
    }
    if seen.void > 0 {
        let value = format!("{} bytes that a crash had cut", seen.void);
        fields.push(field("void", value));
    }
    if seen.torn > 0 {
        let value = format!("{} writes without all of their bytes", seen.torn);
        fields.push(field("torn or damaged", value));
    }
    if seen.gap > 0 {
        let value = format!("{} bytes that are no record", seen.gap);
        fields.push(field("not written, torn or damaged", value));
    }
    Ok(fields)
}

/// Shards that are named.
const SHOWN_MAX: usize = 32;

#[derive(Default)]
struct Seen {
    writes: u64,
    bytes: u64,
    first: Option<u64>,
    last: Option<u64>,
    shards: BTreeMap<(u64, u8), u64>,
    forgotten: Vec<u64>,
    void: u64,
    torn: u64,
    gap: u64,
}

impl Seen {
    /// Looks at the record in front; how far to go on.
    fn record(&mut self, key: &SegmentKey, at: u32, rest: &[u8]) -> usize {
        let Ok((head, sums)) = Head::open(key, at, rest) else {
            self.gap += u64::from(ALIGNMENT).min(rest.len() as u64);
            return ALIGNMENT as usize;
        };
        match head.content {
            Content::Write(span) => {
                self.writes += 1;
                self.bytes += u64::from(span.length);
                self.first = self.first.or(Some(head.sequence));
                self.last = Some(head.sequence);
                let shard = (span.stripe.0.get(), span.shard.0);
                *self.shards.entry(shard).or_default() += 1;
                let content = rest.get(head.content.head_bytes()..).unwrap_or_default();
                if content.len() >= span.length as usize {
                    let identity = identity(key.set, span.stripe, span.shard);
                    let right = span.parts().zip(sums).all(|(part, sum)| {
                        let bytes = content.get(part.at as usize..).unwrap_or_default();
                        let bytes = bytes.get(..part.bytes()).unwrap_or_default();
                        page_sum(&identity, part.page.into(), bytes) == sum
                    });
                    self.torn += u64::from(!right);
                }
            }
            Content::Forget(stripe) => self.forgotten.push(stripe.0.get()),
            Content::Void(bytes) => self.void += u64::from(bytes),
            Content::Mark => {}
        }
        head.content.bytes() as usize
    }
}

/// Decodes a record that begins at `at` of segment 1 of store 0 of set 0, and encodes it again;
/// `None` where the bytes are none.
pub fn recode(at: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    let key = SegmentKey {
        set: SetId(0),
        store: StoreIndex(0),
        number: 1,
    };
    let (head, sums) = Head::open(&key, at, bytes).ok()?;
    let mut again = vec![0; head.content.head_bytes()];
    let sums = sums.iter().flat_map(|sum| sum.to_le_bytes());
    for (into, byte) in again.iter_mut().skip(super::HEAD_BYTES).zip(sums) {
        *into = byte;
    }
    head.seal(&key, at, &mut again);
    Some(again)
}

/// As [`recode`], with the checksum that a record of these bytes would have, so that what lies
/// behind the checksum is looked at too.
pub fn recode_with_checksum(at: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    let key = SegmentKey {
        set: SetId(0),
        store: StoreIndex(0),
        number: 1,
    };
    let sealed = Head::with_checksum(&key, at, bytes)?;
    recode(at, &sealed)
}
