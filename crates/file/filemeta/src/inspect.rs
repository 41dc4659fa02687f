//! What is in the files of a store, for people and for the fuzz targets.

use crate::action::{
    self, Action, Checkpoint, PARTS_MAX, RECORD_CHECKPOINT, RECORD_DONE, RECORD_PART,
};
use crate::block::{BLOCK_BYTES, Block, blocks, content_at, file_at};
use crate::composite::{Composite, Entry};
use crate::cursor::Cursor;
use crate::header::{HEADER_AREA_BYTES, Header};
use crate::superblock::Superblock;
use codec::{Corruption, Field};

/// Most damaged blocks and actions that are listed; all are counted.
const SHOWN_MAX: usize = 20;

fn field(name: &str, value: impl ToString) -> Field {
    (name.to_owned(), value.to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The header of an object's file, and whether its blocks verify. `bytes` is the file or its
/// start; `length` is that of the file. Blocks behind `bytes` are not looked at. A value that begins with DAMAGED names a
/// block that does not verify.
///
/// # Errors
/// What is wrong with the header.
pub fn object(bytes: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    let area = bytes.get(..HEADER_AREA_BYTES).unwrap_or(bytes);
    let (store, identity, header) = Header::decode(area)?;
    let key = header.key(&identity).ok_or(Corruption {
        what: "object number",
        offset: 32,
        expected: 1,
        found: identity.object,
    })?;
    let mut fields = vec![
        field("store", format!("{:032x}", store.0)),
        field("object", &key),
        field("generation", header.generation),
        field("length", header.length),
    ];
    match key.class() {
        crate::Class::Linked => {
            fields.push(field("tag", header.tag));
            fields.push(field("owner", hex(&header.owner)));
            if header.references == 0 {
                fields.push(field("state", "written aside, taken by no request"));
            }
        }
        crate::Class::Shared => fields.push(field("references", header.references)),
        crate::Class::Roster => fields.push(field("first free entry", header.free)),
        crate::Class::System => {}
    }
    let count = blocks(header.length);
    let there = bytes.chunks_exact(BLOCK_BYTES).take(count as usize);
    let mut good = 0;
    let mut bad = 0;
    for (index, found) in (0..).zip(there) {
        let mut block = Block::empty();
        let at = content_at(index);
        if let (Some(to), Some(from)) = (block.bytes_mut().get_mut(at..), found.get(at..)) {
            to.copy_from_slice(from);
        }
        match block.verify(&identity, index) {
            Ok(()) => good += 1,
            Err(corruption) => {
                bad += 1;
                if bad <= SHOWN_MAX {
                    let name = format!("block {index}");
                    fields.push(field(&name, format!("DAMAGED: {corruption}")));
                }
            }
        }
    }
    if length < file_at(count) {
        let wanted = file_at(count);
        let said = format!("DAMAGED: the file ends at {length}, its blocks at {wanted}");
        fields.push(field("end", said));
    }
    fields.push(field(
        "blocks",
        format!("{count}, {good} verified, {bad} damaged"),
    ));
    Ok(fields)
}

/// The file `store`.
///
/// # Errors
/// What is wrong with it.
pub fn store(bytes: &[u8]) -> Result<Vec<Field>, Corruption> {
    let superblock = Superblock::decode(bytes)?;
    Ok(vec![
        field("store", format!("{:032x}", superblock.store.0)),
        field("attribute", superblock.attribute.to_string_lossy()),
        field("numbers set aside below", superblock.numbers),
        field("written", format!("{} times", superblock.writes)),
    ])
}

/// A composite attribute. Its checksum is not looked at: that needs the store and the file.
///
/// # Errors
/// What is not of the form.
pub fn attribute(bytes: &[u8]) -> Result<Vec<Field>, Corruption> {
    let composite = Composite::decode_unverified(bytes)?;
    let entries = composite.entries.iter().map(|(tag, entry)| {
        let said = match entry {
            Entry::Value(value) => format!("value {}", hex(value)),
            Entry::Linked(number) => format!("linked object {:x}", number.get()),
            Entry::Shared { number, place } => {
                format!("shared object {:x}, place {place}", number.get())
            }
        };
        field(&format!("tag {}", tag.get()), said)
    });
    Ok(entries.collect())
}

/// One record of the journal in words.
///
/// # Errors
/// What is not of the form.
pub fn record(kind: u16, payload: &[u8]) -> Result<String, Corruption> {
    match kind {
        RECORD_PART => part(payload),
        RECORD_CHECKPOINT => {
            let checkpoint = Checkpoint::decode(payload)?;
            let open: Vec<String> = checkpoint.open.iter().map(u64::to_string).collect();
            let upto = checkpoint.upto;
            Ok(match open.is_empty() {
                true => format!("everything before {upto} is in the files"),
                false => format!(
                    "everything before {upto} is in the files, open notes of {}",
                    open.join(", ")
                ),
            })
        }
        RECORD_DONE => {
            let sequence = Cursor::new(payload).integer("sequence that is done", 8)?;
            Ok(format!("the notes of {sequence} are done"))
        }
        other => Err(Corruption {
            what: "kind of a record",
            offset: 4,
            expected: RECORD_DONE.into(),
            found: other.into(),
        }),
    }
}

fn part(payload: &[u8]) -> Result<String, Corruption> {
    let mut from = Cursor::new(payload);
    let part = from.integer("part", 4)?;
    let parts = from.integer("parts", 4)?;
    if part >= parts || parts > PARTS_MAX.into() {
        return Err(from.wrong("parts of a request", PARTS_MAX.into(), parts));
    }
    if parts > 1 {
        let bytes = from.rest().len();
        return Ok(format!(
            "part {} of {parts} of a request, {bytes} bytes",
            part + 1
        ));
    }
    let actions = action::decode(from.rest())?;
    let shown: Vec<String> = actions.iter().take(SHOWN_MAX).map(words).collect();
    let more = match actions.len().checked_sub(SHOWN_MAX + 1) {
        Some(more) => format!("; and {} more", more + 1),
        None => String::new(),
    };
    Ok(format!("{}{more}", shown.join("; ")))
}

fn words(action: &Action) -> String {
    match action {
        Action::Write {
            object,
            offset,
            bytes,
        } => format!("{object}: {} bytes at {offset}", bytes.len()),
        Action::Fill {
            object, first, end, ..
        } => format!("{object}: zeros in blocks {first} to {end}"),
        Action::Remove { object } => format!("{object}: removed"),
        Action::Discard {
            object,
            offset,
            length,
        } => format!("{object}: {length} bytes at {offset} let go"),
        Action::Attribute { owner, value } => {
            format!(
                "file {}: attribute of {} bytes",
                hex(owner.as_bytes()),
                value.len()
            )
        }
        Action::Clear { owner } => format!("file {}: no attribute", hex(owner.as_bytes())),
        Action::Note { kind, payload } => format!("note {kind} of {} bytes", payload.len()),
    }
}
