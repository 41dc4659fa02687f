//! Segments of differentials for people, and for the fuzz target.

use super::record::{
    ALIGNMENT, Content, Head, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKey, Spot,
};
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
    for stripe in &seen.given_up {
        fields.push(field("being given up", format!("stripe {stripe:#x}")));
    }
    for stripe in &seen.forgotten {
        fields.push(field("given up", format!("stripe {stripe:#x}")));
    }
    if seen.void > 0 {
        let value = format!("{} bytes that a crash had cut", seen.void);
        fields.push(field("void", value));
    }
    let number = header.key.number;
    let is_damage = |at: &&u32| {
        let spot = Spot {
            segment: number,
            offset: **at,
        };
        spot < seen.durable
    };
    for (what, places) in [
        ("writes without all of their bytes", &seen.torn),
        ("places without a record", &seen.gaps),
    ] {
        let damaged = places.iter().filter(is_damage).count();
        let rest = places.len() - damaged;
        if damaged > 0 {
            fields.push(field(
                what,
                format!("DAMAGED: {damaged} of what was durable"),
            ));
        }
        if rest > 0 {
            let value = format!("{rest} that need not have been durable");
            fields.push(field(what, value));
        }
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
    given_up: Vec<u64>,
    forgotten: Vec<u64>,
    void: u64,
    /// Where a record begins that lacks bytes.
    torn: Vec<u32>,
    /// Where something that is no record begins.
    gaps: Vec<u32>,
    in_gap: bool,
    durable: Spot,
}

impl Seen {
    /// Looks at the record in front; how far to go on.
    fn record(&mut self, key: &SegmentKey, at: u32, rest: &[u8]) -> usize {
        let Ok((head, sums)) = Head::open(key, at, rest) else {
            if !std::mem::replace(&mut self.in_gap, true) {
                self.gaps.push(at);
            }
            return ALIGNMENT as usize;
        };
        self.in_gap = false;
        self.durable = self.durable.max(head.durable);
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
                    if !right {
                        self.torn.push(at);
                    }
                }
            }
            Content::GiveUp(stripe) => self.given_up.push(stripe.0.get()),
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

/// A segment with these bytes behind a good header; the first record gets the checksum that it
/// would have.
pub fn with_header(bytes: &[u8]) -> Vec<u8> {
    let key = SegmentKey {
        set: SetId(0),
        store: StoreIndex(0),
        number: 1,
    };
    let header = SegmentHeader {
        key,
        previous_end: 0,
    };
    let mut whole = header.encode();
    match Head::with_checksum(&key, SEGMENT_HEADER_BYTES, bytes) {
        Some(sealed) => {
            whole.extend_from_slice(&sealed);
            whole.extend_from_slice(bytes.get(sealed.len()..).unwrap_or_default());
        }
        None => whole.extend_from_slice(bytes),
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::StripeId;
    use crate::stripes::delayed::record::Span;
    use parity::Shard;
    use std::num::NonZeroU64;

    fn hex(bytes: &[u8]) -> String {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    }

    const KEY: SegmentKey = SegmentKey {
        set: SetId(0x11),
        store: StoreIndex(2),
        number: 3,
    };

    fn stripe() -> StripeId {
        StripeId(NonZeroU64::new(0x0102).expect("not 0"))
    }

    /// A record of 7 bytes, 4093 on in page 1, and its checksums.
    fn write() -> (Head, Vec<u8>) {
        let span = Span {
            stripe: stripe(),
            shard: Shard(1),
            offset: 8189,
            length: 7,
        };
        let head = Head {
            sequence: 0x0a0b,
            durable: Spot {
                segment: 2,
                offset: 0x1000,
            },
            content: Content::Write(span),
        };
        let content = b"content";
        let mut bytes = vec![0; head.content.bytes() as usize];
        let at = head.content.head_bytes();
        let identity = identity(KEY.set, span.stripe, span.shard);
        let sums = span.parts().flat_map(|part| {
            let from = part.at as usize;
            let piece = &content[from..from + part.bytes()];
            page_sum(&identity, part.page.into(), piece).to_le_bytes()
        });
        for (into, byte) in bytes[super::super::HEAD_BYTES..at].iter_mut().zip(sums) {
            *into = byte;
        }
        bytes[at..at + content.len()].copy_from_slice(content);
        head.seal(&KEY, 128, &mut bytes);
        (head, bytes)
    }

    fn plain(content: Content) -> Vec<u8> {
        let head = Head {
            sequence: 0x0a0c,
            durable: Spot {
                segment: 3,
                offset: 192,
            },
            content,
        };
        let mut bytes = vec![0; 48];
        head.seal(&KEY, 192, &mut bytes);
        bytes
    }

    /// The examples of docs/formats/differential.md.
    fn golden() -> Vec<(&'static str, String)> {
        let header = SegmentHeader {
            key: KEY,
            previous_end: 0x2040,
        };
        vec![
            ("header", hex(&header.encode()[..68])),
            ("Write", hex(&write().1[..63])),
            ("Forget", hex(&plain(Content::Forget(stripe())))),
            ("GiveUp", hex(&plain(Content::GiveUp(stripe())))),
            ("Void", hex(&plain(Content::Void(128)))),
            ("Mark", hex(&plain(Content::Mark))),
        ]
    }

    #[test]
    fn the_bytes_of_version_1_are_those_of_the_page() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../docs/formats/differential.md"
        );
        let page = std::fs::read_to_string(page).expect("the page");
        let lines = golden()
            .into_iter()
            .map(|(what, bytes)| format!("| {what} | `{bytes}` |"));
        let missing: Vec<String> = lines.filter(|line| !page.contains(line)).collect();
        assert!(
            missing.is_empty(),
            "docs/formats/differential.md lacks:\n{}",
            missing.join("\n")
        );
    }

    #[test]
    fn heads_read_back_and_flipped_bits_are_found() {
        let (head, bytes) = write();
        let (found, sums) = Head::open(&KEY, 128, &bytes).expect("opens");
        assert_eq!((found, sums.len()), (head, 2));
        let others = [
            (SegmentKey { number: 4, ..KEY }, 128),
            (
                SegmentKey {
                    store: StoreIndex(1),
                    ..KEY
                },
                128,
            ),
            (
                SegmentKey {
                    set: SetId(0x12),
                    ..KEY
                },
                128,
            ),
            (KEY, 192),
        ];
        for (key, at) in others {
            assert!(Head::open(&key, at, &bytes).is_err(), "{key:?} {at}");
        }
        for bit in 0..head.content.head_bytes() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::open(&KEY, 128, &flipped).is_err(), "bit {bit}");
        }
        let header = SegmentHeader {
            key: KEY,
            previous_end: 7,
        };
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn a_segment_is_shown_with_what_is_wrong_in_it() {
        let header = SegmentHeader {
            key: KEY,
            previous_end: 0,
        };
        let mut bytes = header.encode();
        bytes.extend(write().1);
        bytes.extend(plain(Content::Mark));
        bytes.resize(320, 0);
        let show = |bytes: &[u8]| {
            let fields = segment(bytes, bytes.len() as u64).expect("a header");
            codec::text(&fields)
        };
        let sound = show(&bytes);
        assert!(sound.contains("1, 7 bytes"), "{sound}");
        assert!(!sound.contains("DAMAGED"), "{sound}");
        // Both in the write, which was durable when the mark behind it was written.
        for at in [130, 185] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let shown = show(&damaged);
            assert!(shown.contains("DAMAGED: 1 of what was durable"), "{shown}");
        }
        bytes[10] ^= 1;
        assert!(segment(&bytes, 320).is_err());
    }
}
