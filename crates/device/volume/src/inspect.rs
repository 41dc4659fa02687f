//! What we write, as lines for people.

use crate::checkpoint::{COPIES, Header as CheckpointHeader, copy_offset};
use crate::entry::Entry;
use crate::flight::Header;
use crate::pack;
use crate::superblock::Superblock;
use codec::{Corruption, Field, kind};

fn field(name: &str, value: impl ToString) -> Field {
    (name.to_owned(), value.to_string())
}

/// The fields of a volume's disk, of which `head` is the start and `length` the length in bytes, or
/// of one block that was copied out of it.
///
/// # Errors
/// What is wrong with the bytes.
pub fn inspect(head: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    let first = head.get(..crate::BLOCK_BYTES).unwrap_or(head);
    match codec::object_kind(first)? {
        kind::VOLUME => disk(head, first, length),
        kind::VOLUME_FLIGHT => flight(head),
        kind::VOLUME_CHECKPOINT => {
            CheckpointHeader::decode(first).map(|header| checkpoint(&header))
        }
        kind::VOLUME_INODES | kind::VOLUME_DIRECTORY | kind::VOLUME_ATTRIBUTES => {
            crate::directory::inspect::inspect(head)
        }
        _ => codec::inspect(head),
    }
}

fn disk(head: &[u8], first: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    let superblock = Superblock::decode(first, length)?;
    let geometry = superblock.geometry;
    let block = crate::BLOCK_BYTES as u64;
    let mut fields = vec![
        field("volume", superblock.volume),
        field("version", superblock.version),
        field("disk", format!("{} of {}", superblock.disk, geometry.disks)),
        field("segment bytes", u64::from(geometry.segment_blocks) * block),
        field("segments", geometry.segments()),
        field("capacity bytes", geometry.capacity_blocks() * block),
    ];
    if superblock.disk > 0 {
        return Ok(fields);
    }
    for slot in 0..2 {
        for copy in COPIES {
            let start = copy_offset(&geometry, slot, copy);
            let bytes = usize::try_from(start)
                .ok()
                .and_then(|start| head.get(start..start + crate::BLOCK_BYTES));
            let Some(bytes) = bytes else {
                continue;
            };
            let name = format!("checkpoint slot {slot} copy {copy}");
            let value = match CheckpointHeader::decode(bytes) {
                Ok(header) => format!(
                    "number {}, opening {}, {} sheets",
                    header.number,
                    header.replay_from.opening(),
                    header.sheets
                ),
                Err(_) if bytes.iter().all(|byte| *byte == 0) => "never written".to_owned(),
                Err(corruption) => format!("DAMAGED or of an earlier volume: {corruption}"),
            };
            fields.push(field(&name, value));
        }
    }
    Ok(fields)
}

fn checkpoint(header: &CheckpointHeader) -> Vec<Field> {
    vec![
        field("volume", header.volume),
        field("checkpoint", header.number),
        field("opening", header.replay_from.opening()),
        field("replay from", format!("{:#x}", header.replay_from.0)),
        field("complete below", format!("{:#x}", header.complete_below.0)),
        field("sheets", header.sheets),
    ]
}

fn flight(head: &[u8]) -> Result<Vec<Field>, Corruption> {
    let blocks = Header::blocks_from_start(head).unwrap_or(1);
    let bytes = head.get(..blocks * crate::BLOCK_BYTES).unwrap_or(head);
    let header = Header::decode(bytes)?;
    let mut fields = vec![
        field("volume", header.volume),
        field("place", header.place.0),
        field("flight", format!("{:#x}", header.flight.0)),
        field("use of the segment", format!("{:#x}", header.segment_use.0)),
        field("durable below", format!("{:#x}", header.durable_below.0)),
        field("stream", format!("{:?}", header.stream).to_lowercase()),
        field("data blocks", header.data_blocks()),
    ];
    if header.packs > 0 || !header.inline.is_empty() {
        fields.push(field("packs", header.packs));
        let members = pack::decode(&header.inline).unwrap_or_default();
        for member in members {
            let (object, block) = (member.object, member.block.0);
            let bytes = member.squeezed.len();
            let words = format!("object {object}, block {block}, {bytes} bytes compressed");
            fields.push(field("in the header", words));
            // Pages of a tree say what they are.
            let mut page = [0; crate::BLOCK_BYTES];
            if member.expand(&mut page).is_ok() && page.starts_with(&codec::OBJECT_MAGIC) {
                let said = crate::directory::inspect::inspect(&page).unwrap_or_default();
                fields.extend(said);
            }
        }
    }
    for (entry, ends) in &header.entries {
        let end = if *ends { ", end of its group" } else { "" };
        fields.push(field(name(entry), format!("{}{end}", words(entry))));
    }
    Ok(fields)
}

fn name(entry: &Entry) -> &'static str {
    match entry {
        Entry::Write { .. } => "write",
        Entry::Move { .. } => "move",
        Entry::Punch { .. } => "punch",
        Entry::Grow { .. } => "grow",
        Entry::Resize { .. } => "resize",
        Entry::Remove { .. } => "remove",
        Entry::Lost { .. } => "lost",
        Entry::Pack { .. } => "pack",
        Entry::Repack { .. } => "repack",
    }
}

fn words(entry: &Entry) -> String {
    match entry {
        Entry::Write {
            object,
            block,
            count,
        }
        | Entry::Punch {
            object,
            block,
            count,
        } => format!("object {object}, blocks {} + {count}", block.0),
        Entry::Move {
            object,
            block,
            count,
            from,
        }
        | Entry::Lost {
            object,
            block,
            count,
            from,
        } => {
            let (block, from) = (block.0, from.0);
            format!("object {object}, blocks {block} + {count} from place {from}")
        }
        Entry::Grow { object, size } | Entry::Resize { object, size } => {
            format!("object {object}, {size} bytes")
        }
        Entry::Remove { object } => format!("object {object}"),
        Entry::Pack {
            object,
            block,
            count,
            slot,
        } => format!(
            "object {object}, blocks {} + {count} in pack {slot}",
            block.0
        ),
        Entry::Repack {
            object,
            block,
            from,
            slot,
        } => {
            let (block, from) = (block.0, from.0);
            format!("object {object}, block {block} from place {from} in pack {slot}")
        }
    }
}
