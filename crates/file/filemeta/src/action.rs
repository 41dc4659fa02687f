//! Requests as they stand in the journal: rows of physical, absolute actions.

use crate::composite::COMPOSITE_BYTES_MAX;
use crate::cursor::Cursor;
use crate::header::OBJECT_BYTES_MAX;
use crate::key::ObjectKey;
use codec::Corruption;
use env::handle::Handle;

/// The record kind of a part of a request.
pub const RECORD_PART: u16 = 1;
/// The record kind of a checkpoint.
pub const RECORD_CHECKPOINT: u16 = 2;
/// The record kind that says that a request's notes are done.
pub const RECORD_DONE: u16 = 3;

/// Most parts of a request.
pub const PARTS_MAX: u32 = 4096;

/// Longest payload of a note in bytes.
pub const NOTE_BYTES_MAX: usize = 1 << 20;

/// One step of a request: what is at a place, not how it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Bytes of an object's file, which is made where it is missing.
    Write {
        /// The object.
        object: ObjectKey,
        /// Where in its file.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Blocks of zeros with good checksums.
    Fill {
        /// The object.
        object: ObjectKey,
        /// Its generation.
        generation: u64,
        /// The first block.
        first: u64,
        /// The block behind the last.
        end: u64,
    },
    /// The object is gone.
    Remove {
        /// The object.
        object: ObjectKey,
    },
    /// Bytes of an object's file that have no meaning any more.
    Discard {
        /// The object.
        object: ObjectKey,
        /// Where in its file.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// The composite attribute of an owner.
    Attribute {
        /// The owner.
        owner: Handle,
        /// The attribute.
        value: Vec<u8>,
    },
    /// The owner has no composite attribute.
    Clear {
        /// The owner.
        owner: Handle,
    },
    /// For the caller.
    Note {
        /// What it means to the caller.
        kind: u16,
        /// Its content.
        payload: Vec<u8>,
    },
}

impl Action {
    /// Appends the action's bytes.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let handle = |to: &mut Vec<u8>, owner: &Handle| {
            to.push(owner.as_bytes().len() as u8);
            to.extend_from_slice(owner.as_bytes());
        };
        match self {
            Action::Write {
                object,
                offset,
                bytes,
            } => {
                to.push(1);
                object.write(to);
                to.extend_from_slice(&offset.to_le_bytes());
                to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                to.extend_from_slice(bytes);
            }
            Action::Fill {
                object,
                generation,
                first,
                end,
            } => {
                to.push(2);
                object.write(to);
                for field in [generation, first, end] {
                    to.extend_from_slice(&field.to_le_bytes());
                }
            }
            Action::Remove { object } => {
                to.push(3);
                object.write(to);
            }
            Action::Discard {
                object,
                offset,
                length,
            } => {
                to.push(4);
                object.write(to);
                to.extend_from_slice(&offset.to_le_bytes());
                to.extend_from_slice(&length.to_le_bytes());
            }
            Action::Attribute { owner, value } => {
                to.push(5);
                handle(to, owner);
                to.extend_from_slice(&(value.len() as u16).to_le_bytes());
                to.extend_from_slice(value);
            }
            Action::Clear { owner } => {
                to.push(6);
                handle(to, owner);
            }
            Action::Note { kind, payload } => {
                to.push(7);
                to.extend_from_slice(&kind.to_le_bytes());
                to.extend_from_slice(&(payload.len() as u32).to_le_bytes());
                to.extend_from_slice(payload);
            }
        }
    }

    fn read(from: &mut Cursor<'_>) -> Result<Action, Corruption> {
        match from.byte("code of an action")? {
            1 => {
                let object = ObjectKey::read(from)?;
                let offset = place(from, "offset of a write")?;
                let length = from.integer("length of a write", 4)? as usize;
                let bytes = from.take("bytes of a write", length)?.to_vec();
                Ok(Action::Write {
                    object,
                    offset,
                    bytes,
                })
            }
            2 => Ok(Action::Fill {
                object: ObjectKey::read(from)?,
                generation: from.integer("generation", 8)?,
                first: place(from, "first block")?,
                end: place(from, "end block")?,
            }),
            3 => ObjectKey::read(from).map(|object| Action::Remove { object }),
            4 => Ok(Action::Discard {
                object: ObjectKey::read(from)?,
                offset: place(from, "offset of a discard")?,
                length: place(from, "length of a discard")?,
            }),
            5 => {
                let owner = handle(from)?;
                let length = from.integer("length of an attribute", 2)? as usize;
                if length > COMPOSITE_BYTES_MAX {
                    let max = COMPOSITE_BYTES_MAX as u64;
                    return Err(from.wrong("length of an attribute", max, length as u64));
                }
                let value = from.take("attribute", length)?.to_vec();
                Ok(Action::Attribute { owner, value })
            }
            6 => handle(from).map(|owner| Action::Clear { owner }),
            7 => {
                let kind = from.integer("kind of a note", 2)? as u16;
                let length = from.integer("length of a note", 4)? as usize;
                let payload = from.take("note", length)?.to_vec();
                Ok(Action::Note { kind, payload })
            }
            other => Err(from.wrong("code of an action", 7, other.into())),
        }
    }
}

fn handle(from: &mut Cursor<'_>) -> Result<Handle, Corruption> {
    let length = from.byte("length of a handle")?;
    let bytes = from.take("handle", length.into())?;
    let wrong = from.wrong("length of a handle", 64, length.into());
    Handle::from_bytes(bytes).ok_or(wrong)
}

/// A place in an object's file, in bytes or blocks: bounded, so that sums of two never overflow
/// and a fill never runs for ever.
fn place(from: &mut Cursor<'_>, what: &'static str) -> Result<u64, Corruption> {
    let place = from.integer(what, 8)?;
    let max = OBJECT_BYTES_MAX * 2;
    if place > max {
        return Err(from.wrong(what, max, place));
    }
    Ok(place)
}

/// The bytes of a request.
pub(crate) fn encode(actions: &[Action]) -> Vec<u8> {
    let mut bytes = Vec::new();
    actions.iter().for_each(|action| action.write(&mut bytes));
    bytes
}

/// The actions of a request.
///
/// # Errors
/// The first thing that is not of the form.
pub fn decode(bytes: &[u8]) -> Result<Vec<Action>, Corruption> {
    let mut from = Cursor::new(bytes);
    let mut actions = Vec::new();
    while !from.is_at_end() {
        actions.push(Action::read(&mut from)?);
    }
    Ok(actions)
}

/// Head of a record of kind [`RECORD_PART`].
pub(crate) fn part(part: u32, parts: u32, piece: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + piece.len());
    bytes.extend_from_slice(&part.to_le_bytes());
    bytes.extend_from_slice(&parts.to_le_bytes());
    bytes.extend_from_slice(piece);
    bytes
}

/// A record of kind [`RECORD_CHECKPOINT`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checkpoint {
    /// Every request that ends before this sequence is applied and durable.
    pub upto: u64,
    /// Sequences of requests whose notes were open.
    pub open: Vec<u64>,
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.upto.to_le_bytes().to_vec();
        for sequence in &self.open {
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
        bytes
    }

    /// # Errors
    /// The first thing that is not of the form.
    pub fn decode(bytes: &[u8]) -> Result<Checkpoint, Corruption> {
        let mut from = Cursor::new(bytes);
        let upto = from.integer("sequence of a checkpoint", 8)?;
        let mut open = Vec::new();
        while !from.is_at_end() {
            open.push(from.integer("sequence of an open note", 8)?);
        }
        Ok(Checkpoint { upto, open })
    }
}

/// Puts requests together from their parts.
#[derive(Default)]
pub struct Assembly {
    bytes: Vec<u8>,
    /// The next part, and of how many; 0 of 0 between requests.
    next: u32,
    parts: u32,
}

impl Assembly {
    /// Takes the payload of the next record of kind [`RECORD_PART`]; gives the request that it
    /// ends.
    ///
    /// # Errors
    /// A part that cannot follow the one before: a part 0 always can.
    pub fn take(&mut self, payload: &[u8]) -> Result<Option<Vec<Action>>, Corruption> {
        let mut from = Cursor::new(payload);
        let part = from.integer("part", 4)? as u32;
        let parts = from.integer("parts", 4)? as u32;
        if parts == 0 || parts > PARTS_MAX || part >= parts {
            return Err(from.wrong("parts of a request", PARTS_MAX.into(), parts.into()));
        }
        if part == 0 {
            self.bytes.clear();
            (self.next, self.parts) = (0, parts);
        }
        if (part, parts) != (self.next, self.parts) {
            return Err(from.wrong("part of a request", self.next.into(), part.into()));
        }
        self.bytes.extend_from_slice(from.rest());
        self.next += 1;
        if self.next < parts {
            return Ok(None);
        }
        (self.next, self.parts) = (0, 0);
        decode(&std::mem::take(&mut self.bytes)).map(Some)
    }
}

#[cfg(test)]
mod tests;
