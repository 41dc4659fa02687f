//! Shard files and notes of merges for people, and for the fuzz targets.

use super::PAGE_BYTES;
use super::note::{self, COMMIT, Commit, PREPARE, Prepare};
use super::position;
use super::shard::{HEADER_BYTES, Header, Slot, identity};
use crate::set::SetId;
use crate::store::Node;
use codec::{Corruption, Field, open_object, page_sum, split_object};
use parity::Shard;

/// The header of a shard file; of a parity shard also how many pages of what is shown of it are
/// right. `length` is that of the whole file.
///
/// # Errors
/// What is wrong with the header.
pub fn shard(bytes: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    let block = bytes.get(..HEADER_BYTES as usize).unwrap_or(bytes);
    let header = Header::decode(block, None)?;
    let set = set_of(block)?;
    let (layout, form) = (&header.layout, header.form);
    let field = |name: &str, value: String| (name.to_owned(), value);
    let mut fields = vec![
        field("set", format!("{:032x}", u128::from_le_bytes(set))),
        field("stripe", format!("{:#x}", header.stripe.0)),
        field("code", layout.geometry.to_string()),
        field("bytes of a shard", layout.chunk.get().to_string()),
        field("this shard", header.shard.0.to_string()),
    ];
    for (shard, slot) in layout.shards() {
        let value = match slot {
            Slot::Data {
                store,
                object,
                chunk,
            } => format!("store {}, chunk {chunk} of object {:#x}", store.0, object.0),
            Slot::Vacant => "zeros".to_owned(),
            Slot::Parity { store } => format!("store {}, parity", store.0),
        };
        fields.push(field(&shard.to_string(), value));
    }
    let hex = |node: &Node| -> String { node.0.iter().map(|b| format!("{b:02x}")).collect() };
    for (shard, base) in &header.bases {
        let copies = base.copies.iter();
        let copies: String = copies
            .map(|(store, node)| format!("; copy on store {}: file {}", store.0, hex(node)))
            .collect();
        let (node, offset) = (hex(&base.node), base.offset);
        fields.push(field(
            &format!("base of {}", Shard(*shard)),
            format!("file {node}, from byte {offset}{copies}"),
        ));
    }
    if header.bases.contains_key(&header.shard.0) {
        return Ok(fields);
    }
    let expected = form.data_offset(layout) + layout.chunk.get();
    if length != expected {
        let value = format!("DAMAGED: {length} bytes where {expected} belong");
        fields.push(field("length", value));
    }
    let identity = identity(SetId(u128::from_le_bytes(set)), header.stripe, header.shard);
    let from = |at: u64| bytes.get(at as usize..).unwrap_or_default();
    let (sums, pages) = (
        from(form.sums_offset(layout)),
        from(form.data_offset(layout)),
    );
    let pages = pages.chunks_exact(PAGE_BYTES).take(layout.pages() as usize);
    let (mut shown, mut wrong) = (0u64, 0u64);
    for (page, sum) in pages.zip(sums.chunks_exact(4)) {
        let right = page_sum(&identity, shown, page).to_le_bytes() == sum;
        wrong += u64::from(!right);
        shown += 1;
    }
    fields.push(field(
        "pages",
        match wrong {
            0 => format!("{shown} looked at, all as they were written"),
            _ => format!("DAMAGED: {wrong} of {shown}"),
        },
    ));
    Ok(fields)
}

/// Decodes a header and encodes it again; `None` where the bytes are none.
pub fn recode(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = Header::decode(bytes, None).ok()?;
    let set = set_of(bytes).ok()?;
    header.encode(SetId(u128::from_le_bytes(set))).ok()
}

/// The set that the header of a shard file names.
fn set_of(bytes: &[u8]) -> Result<[u8; 16], Corruption> {
    let (object, _) = split_object(bytes)?;
    Ok(open_object(object, codec::kind::SHARD, None)?.identity.set)
}

/// Decodes a note and encodes it again; `None` where the bytes are none of this kind.
pub fn recode_note(kind: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    match kind {
        PREPARE => note::encode(&note::decode::<Prepare>(bytes)?).ok(),
        COMMIT => note::encode(&note::decode::<Commit>(bytes)?).ok(),
        _ => None,
    }
}

/// Decodes the position of a scrub and encodes it again; `None` where the bytes are none.
pub fn recode_position(bytes: &[u8]) -> Option<Vec<u8>> {
    position::encode(&position::decode(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Base;
    use super::*;
    use crate::encoding::{ChunkBytes, StripeId};
    use crate::label::{ObjectId, StoreIndex, StoreMask};
    use crate::store::Node;
    use crate::stripes::Layout;
    use crate::stripes::note::Redo;
    use crate::stripes::shard::Form;
    use parity::Geometry;
    use std::num::NonZeroU64;

    fn hex(bytes: &[u8]) -> String {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    }

    fn header(form: Form, shard: u8) -> Header {
        let data = |store, object| Slot::Data {
            store: StoreIndex(store),
            object: ObjectId(object),
            chunk: 3,
        };
        Header {
            form,
            stripe: StripeId(NonZeroU64::new(0x0102).expect("not 0")),
            shard: Shard(shard),
            layout: Layout {
                geometry: Geometry::new(3, 1).expect("a geometry"),
                chunk: ChunkBytes::new(1 << 16).expect("a chunk"),
                slots: vec![
                    data(2, 300),
                    Slot::Vacant,
                    data(0, 7),
                    Slot::Parity {
                        store: StoreIndex(5),
                    },
                ],
            },
            bases: [(0, 0xcc, 0), (2, 0xaa, 5)]
                .map(|(shard, node, copy)| {
                    let base = Base {
                        node: Node([node, 0xbb].as_slice().into()),
                        offset: 3 << 16,
                        copies: vec![(StoreIndex(copy), Node([node, 0xdd].as_slice().into()))],
                    };
                    (shard, base)
                })
                .into(),
        }
    }

    /// The examples of docs/formats/shard.md.
    fn golden() -> Vec<(&'static str, String)> {
        let set = SetId(0x11);
        let payload = |shard| {
            let payloads = [Form::Apart, Form::Together].map(|form| {
                let bytes = header(form, shard).encode(set).expect("fits");
                let object = open_object(&bytes, codec::kind::SHARD, None).expect("sealed");
                assert_eq!(object.version, form.version());
                assert_eq!(object.identity.generation, u64::from(shard));
                hex(object.payload)
            });
            assert_eq!(payloads[0], payloads[1], "they differ in where it all lies");
            payloads[0].clone()
        };
        let prepare = Prepare {
            merge: 0x80,
            stripe: 7,
            shard: 2,
            stores: StoreMask(0b101),
            pages: vec![Redo {
                page: 300,
                bytes: vec![9, 8],
            }],
        };
        vec![
            ("header of shard 2", payload(2)),
            ("header of shard 3", payload(3)),
            ("Prepare", hex(&note::encode(&prepare).expect("fits"))),
            (
                "Commit",
                hex(&note::encode(&Commit { merge: 0x80 }).expect("fits")),
            ),
            (
                "Decision",
                hex(&note::encode(
                    &[note::Decision {
                        merge: 0x80,
                        committed: true,
                        away: StoreMask(4),
                    }]
                    .as_slice(),
                )
                .expect("fits")),
            ),
        ]
    }

    #[test]
    fn the_bytes_are_those_of_the_page() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../docs/formats/shard.md"
        );
        let page = std::fs::read_to_string(page).expect("the page");
        let lines = golden()
            .into_iter()
            .map(|(what, bytes)| format!("| {what} | `{bytes}` |"));
        let missing: Vec<String> = lines.filter(|line| !page.contains(line)).collect();
        assert!(
            missing.is_empty(),
            "docs/formats/shard.md lacks:\n{}",
            missing.join("\n")
        );
    }

    #[test]
    fn headers_read_back_and_flipped_bits_are_found() {
        for (form, shard) in [(Form::Apart, 0), (Form::Together, 2), (Form::Together, 3)] {
            let header = header(form, shard);
            let bytes = header.encode(SetId(0x11)).expect("fits");
            assert_eq!(Header::decode(&bytes, Some(SetId(0x11))), Ok(header));
            assert!(Header::decode(&bytes, Some(SetId(0x12))).is_err());
            assert_eq!(recode(&bytes), Some(bytes.clone()));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Header::decode(&flipped, None).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn the_parts_of_a_file_lie_where_the_page_says() {
        let parts = |form: Form, bytes| {
            let layout = Layout {
                chunk: ChunkBytes::new(bytes).expect("a chunk"),
                ..header(form, 0).layout
            };
            let (header, sums) = (form.header_bytes(&layout), form.sums_offset(&layout));
            (header, sums, form.data_offset(&layout))
        };
        assert_eq!(parts(Form::Apart, 4 << 10), (4096, 4096, 8192));
        assert_eq!(parts(Form::Apart, 512 << 10), (4096, 4096, 8192));
        assert_eq!(parts(Form::Together, 4 << 10), (3584, 4092, 4096));
        assert_eq!(parts(Form::Together, 512 << 10), (3584, 3584, 4096));
        assert_eq!(parts(Form::Together, 1 << 20), (3072, 3072, 4096));
        assert_eq!(parts(Form::Together, 2 << 20), (4096, 6144, 8192));
        assert_eq!(parts(Form::Together, 64 << 20), (4096, 4096, 69632));
    }

    #[test]
    fn a_data_shard_without_a_base_is_none() {
        let mut header = header(Form::Together, 3);
        header.bases.remove(&0);
        let bytes = header.encode(SetId(0x11)).expect("fits");
        let wrong = Header::decode(&bytes, None).expect_err("shard 0 holds data");
        assert_eq!(wrong.what, "bases of data shards");
    }

    #[test]
    fn a_copy_on_the_store_of_the_base_is_none() {
        let mut header = header(Form::Together, 3);
        let base = header.bases.get_mut(&2).expect("a base");
        base.copies.push((StoreIndex(0), Node::default()));
        let bytes = header.encode(SetId(0x11)).expect("fits");
        let wrong = Header::decode(&bytes, None).expect_err("the base is on store 0");
        assert_eq!(wrong.what, "store of a copy");
    }
}
