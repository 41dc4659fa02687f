//! A request in the making: reads see the store as it will be, writes become actions.

use super::state::{Changes, Shadow, State};
use crate::action::Action;
use crate::block::{BLOCK_BYTES, Block, SUM_AT, blocks, content_at, file_at, locate};
use crate::composite::{Composite, Entry};
use crate::header::{HEADER_AREA_BYTES, Header, OBJECT_BYTES_MAX};
use crate::key::ObjectKey;
use crate::{MetaError, Result};
use codec::Corruption;
use env::errno::Errno;
use env::handle::Handle;
use std::sync::Arc;

/// What a block held before it is changed.
enum Old {
    /// Zeros without a checksum: a new object's.
    Nothing,
    /// This.
    Known(Arc<Block>),
    /// Something that does not matter or does not verify.
    Unknown,
}

/// A request in the making.
pub(crate) struct Transaction<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) changes: Changes,
    /// Files that were made to reserve room.
    made: Vec<ObjectKey>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(state: &'a mut State) -> Transaction<'a> {
        Transaction {
            state,
            changes: Changes::default(),
            made: Vec::new(),
        }
    }

    /// Takes back what was reserved.
    pub(crate) fn abandon(self) {
        for key in &self.made {
            // An empty file that stays is the garbage collector's.
            let _ = self.state.medium.remove(key);
        }
    }

    pub(crate) fn push(&mut self, action: Action) {
        self.changes.actions.push(action);
    }

    fn shadow(&self, key: &ObjectKey) -> Option<&Shadow> {
        let own = self.changes.objects.get(key);
        own.or_else(|| self.state.shadow(key))
    }

    /// The object's shadow, to be changed.
    fn shadow_mut(&mut self, key: &ObjectKey, header: &Header) -> &mut Shadow {
        let state = &*self.state;
        self.changes.objects.entry(key.clone()).or_insert_with(|| {
            let shadow = state.shadow(key).filter(|shadow| shadow.header.is_some());
            shadow
                .cloned()
                .unwrap_or_else(|| Shadow::of_file(header.clone()))
        })
    }

    /// An object's header; `None` where there is no such object.
    pub(crate) fn header(&mut self, key: &ObjectKey) -> Result<Option<Header>> {
        if let Some(shadow) = self.shadow(key) {
            return Ok(shadow.header.clone());
        }
        let Some(disk) = self
            .state
            .medium
            .disk(key)
            .map_err(MetaError::io("opening metadata"))?
        else {
            return Ok(None);
        };
        let mut area = [0; HEADER_AREA_BYTES];
        let length = disk.len().map_err(MetaError::io("reading metadata"))?;
        let there = length.min(HEADER_AREA_BYTES as u64) as usize;
        let part = area.get_mut(..there).unwrap_or_default();
        disk.read_at(0, part)
            .map_err(MetaError::io("reading metadata"))?;
        if area.iter().all(|byte| *byte == 0) {
            // Room that was reserved and never used.
            return Ok(None);
        }
        let corrupt = |corruption| MetaError::Corrupt {
            object: key.clone(),
            corruption,
        };
        let (store, identity, header) = Header::decode(&area).map_err(corrupt)?;
        if store != self.state.medium.store {
            return Err(MetaError::OtherStore {
                object: key.clone(),
                found: store,
            });
        }
        let expected = key.identity(store, header.generation);
        if identity != expected || header.key(&identity).as_ref() != Some(key) {
            return Err(corrupt(Corruption {
                what: "object number",
                offset: 32,
                expected: expected.object,
                found: identity.object,
            }));
        }
        Ok(Some(header))
    }

    /// An object's header, where something refers to it.
    pub(crate) fn known_header(&mut self, key: &ObjectKey) -> Result<Header> {
        let missing = || MetaError::Missing {
            object: key.clone(),
        };
        self.header(key)?.ok_or_else(missing)
    }

    /// Whether an object is removed, or was in the meantime, and only its file perhaps not yet.
    pub(crate) fn is_away(&mut self, key: &ObjectKey) -> bool {
        match self.shadow(key) {
            Some(shadow) => shadow.header.is_none(),
            None => matches!(self.state.medium.disk(key), Ok(None)),
        }
    }

    /// Verifies every block of an object.
    pub(crate) fn verify(&mut self, key: &ObjectKey, header: &Header) -> Result<()> {
        (0..blocks(header.length)).try_for_each(|index| self.block(key, header, index).map(drop))
    }

    /// Whether the file has a composite attribute, be it one that says nothing.
    pub(crate) fn has_attribute(&self, owner: &Handle) -> bool {
        let medium = &self.state.medium;
        self.state.composite(owner).is_some()
            || medium.files.attribute(owner, &medium.attribute).is_ok()
    }

    /// A verified block.
    fn block(&mut self, key: &ObjectKey, header: &Header, index: u64) -> Result<Arc<Block>> {
        let identity = key.identity(self.state.medium.store, header.generation);
        if let Some(shadow) = self.shadow(key) {
            if let Some(block) = shadow.blocks.get(&index) {
                return Ok(block.clone());
            }
            if index >= shadow.zeros_from {
                return Ok(Arc::new(Block::zeros(&identity, index)));
            }
        }
        let disk = self
            .state
            .medium
            .disk(key)
            .map_err(MetaError::io("opening metadata"))?
            .ok_or_else(|| MetaError::Missing {
                object: key.clone(),
            })?;
        let mut block = Block::empty();
        let corrupt = |corruption| MetaError::Corrupt {
            object: key.clone(),
            corruption,
        };
        let skip = content_at(index);
        let part = block.bytes_mut().get_mut(skip..).unwrap_or_default();
        match disk.read_at(file_at(index) + skip as u64, part) {
            Ok(()) => {}
            Err(Errno::INVAL) => {
                return Err(corrupt(Corruption {
                    what: "bytes of the metadata file",
                    offset: file_at(index),
                    expected: file_at(index + 1),
                    found: disk.len().unwrap_or_default(),
                }));
            }
            Err(errno) => return Err(MetaError::io("reading metadata")(errno)),
        }
        block.verify(&identity, index).map_err(corrupt)?;
        Ok(Arc::new(block))
    }

    /// Fills `buffer` with content from `offset`.
    pub(crate) fn read(
        &mut self,
        key: &ObjectKey,
        header: &Header,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        within(header.length, offset, buffer.len())?;
        let mut offset = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let (index, at) = locate(offset);
            let block = self.block(key, header, index)?;
            let count = (SUM_AT - at).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&block.bytes()[at..at + count]);
            rest = later;
            offset += count as u64;
        }
        Ok(())
    }

    /// The whole content.
    pub(crate) fn content(&mut self, key: &ObjectKey, header: &Header) -> Result<Vec<u8>> {
        let length = usize::try_from(header.length)
            .map_err(|_| MetaError::object_too_long(header.length))?;
        let mut content = vec![0; length];
        self.read(key, header, 0, &mut content)?;
        Ok(content)
    }

    /// Makes a new object with this content; `header.length` is set from it.
    pub(crate) fn create(&mut self, key: &ObjectKey, header: Header, content: &[u8]) -> Result<()> {
        let header = Header {
            length: content.len() as u64,
            ..header
        };
        if self.header(key)?.is_some() {
            // Its file would be taken for a new one, which is zeros.
            return Err(MetaError::Corrupt {
                object: key.clone(),
                corruption: Corruption {
                    what: "number that was used before",
                    offset: 32,
                    expected: 0,
                    found: key.identity(self.state.medium.store, 0).object,
                },
            });
        }
        let count = blocks(header.length);
        self.reserve(key, count)?;
        self.changes.objects.insert(
            key.clone(),
            Shadow {
                zeros_from: 0,
                ..Shadow::of_file(header.clone())
            },
        );
        self.write_header(key, &header);
        for index in 0..count {
            let block = whole_block(content, index);
            self.set_block(key, &header, index, block, &Old::Nothing);
        }
        Ok(())
    }

    /// Replaces the whole content, also where the old one does not verify.
    pub(crate) fn overwrite(
        &mut self,
        key: &ObjectKey,
        old: &Header,
        content: &[u8],
    ) -> Result<()> {
        let header = Header {
            length: content.len() as u64,
            ..old.clone()
        };
        let (before, after) = (blocks(old.length), blocks(header.length));
        self.reserve(key, after)?;
        self.set_header(key, &header);
        for index in 0..after {
            let known = if index < before {
                self.block(key, old, index).ok()
            } else {
                None
            };
            let known = known.map_or(Old::Unknown, Old::Known);
            let block = whole_block(content, index);
            self.set_block(key, &header, index, block, &known);
        }
        self.drop_blocks(key, &header, after, before);
        Ok(())
    }

    /// Changes a range inside the content.
    pub(crate) fn patch(
        &mut self,
        key: &ObjectKey,
        header: &Header,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        within(header.length, offset, bytes.len())?;
        let mut offset = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (index, at) = locate(offset);
            let old = self.block(key, header, index)?;
            let (now, later) = rest.split_at((SUM_AT - at).min(rest.len()));
            let mut block = (*old).clone();
            block.bytes_mut()[at..at + now.len()].copy_from_slice(now);
            self.set_block(key, header, index, block, &Old::Known(old));
            offset += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Cuts the content, or makes it longer with zeros.
    pub(crate) fn resize(&mut self, key: &ObjectKey, old: &Header, length: u64) -> Result<()> {
        if length > OBJECT_BYTES_MAX {
            return Err(MetaError::object_too_long(length));
        }
        let header = Header {
            length,
            ..old.clone()
        };
        let (before, after) = (blocks(old.length), blocks(length));
        if length < old.length {
            // What is behind the end is zeros, so that a later extension finds zeros.
            let (last, at) = match length.checked_sub(1) {
                Some(end) => {
                    let (index, at) = locate(end);
                    (index, at + 1)
                }
                None => (0, HEADER_AREA_BYTES),
            };
            let known = self.block(key, old, last)?;
            let mut block = (*known).clone();
            block.bytes_mut()[at..SUM_AT].fill(0);
            self.set_header(key, &header);
            self.set_block(key, &header, last, block, &Old::Known(known));
            self.drop_blocks(key, &header, after, before);
            return Ok(());
        }
        self.reserve(key, after)?;
        self.set_header(key, &header);
        if after > before {
            let shadow = self.shadow_mut(key, &header);
            shadow.zeros_from = shadow.zeros_from.min(before);
            self.push(Action::Fill {
                object: key.clone(),
                generation: header.generation,
                first: before,
                end: after,
            });
        }
        Ok(())
    }

    /// Removes an object; nothing where there is none.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.changes.objects.insert(key.clone(), Shadow::removed());
        self.push(Action::Remove {
            object: key.clone(),
        });
    }

    /// Changes the header.
    pub(crate) fn set_header(&mut self, key: &ObjectKey, header: &Header) {
        self.shadow_mut(key, header).header = Some(header.clone());
        self.write_header(key, header);
    }

    fn write_header(&mut self, key: &ObjectKey, header: &Header) {
        self.push(Action::Write {
            object: key.clone(),
            offset: 0,
            bytes: header.encode(key, self.state.medium.store),
        });
    }

    /// Blocks `from` to `to` are behind the end now.
    fn drop_blocks(&mut self, key: &ObjectKey, header: &Header, from: u64, to: u64) {
        if from >= to {
            return;
        }
        self.shadow_mut(key, header).blocks.split_off(&from);
        self.push(Action::Discard {
            object: key.clone(),
            offset: file_at(from),
            length: file_at(to - from),
        });
    }

    /// Puts a block in place and writes down what differs from the old one.
    fn set_block(&mut self, key: &ObjectKey, header: &Header, index: u64, block: Block, old: &Old) {
        let identity = key.identity(self.state.medium.store, header.generation);
        let mut block = block;
        block.seal(&identity, index);
        let start = content_at(index);
        let changed = match old {
            Old::Unknown => Some((start, SUM_AT)),
            Old::Nothing => difference(&[0; BLOCK_BYTES], block.bytes(), start),
            Old::Known(old) => difference(old.bytes(), block.bytes(), start),
        };
        let is_new = !matches!(old, Old::Known(_));
        match changed {
            // One write where the range touches the checksum anyway.
            Some((from, SUM_AT)) => self.write(key, index, from, &block.bytes()[from..]),
            Some((from, to)) => {
                self.write(key, index, from, &block.bytes()[from..to]);
                self.write(key, index, SUM_AT, block.sum());
            }
            None if is_new => self.write(key, index, SUM_AT, block.sum()),
            None => return,
        }
        let shadow = self.shadow_mut(key, header);
        shadow.blocks.insert(index, Arc::new(block));
    }

    fn write(&mut self, key: &ObjectKey, index: u64, at: usize, bytes: &[u8]) {
        self.push(Action::Write {
            object: key.clone(),
            offset: file_at(index) + at as u64,
            bytes: bytes.to_vec(),
        });
    }

    /// Makes sure, before anything is in the journal, that the object's file has room for so many
    /// blocks.
    fn reserve(&mut self, key: &ObjectKey, count: u64) -> Result<()> {
        if self
            .shadow(key)
            .is_some_and(|shadow| shadow.header.is_none())
        {
            // Its old file is there until the removal is applied, and makes room then.
            return Ok(());
        }
        let doing = "reserving room for metadata";
        let no_room = |errno| match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => MetaError::NoSpace { doing, errno },
            errno => MetaError::Io { doing, errno },
        };
        let (disk, made) = self.state.medium.disk_or_make(key).map_err(no_room)?;
        if made {
            self.made.push(key.clone());
        }
        let length = disk.len().map_err(no_room)?;
        let mut at = length;
        let end = file_at(count);
        let zeros = vec![0; (1 << 20).min(end.saturating_sub(at)) as usize];
        while at < end {
            let piece = &zeros[..(end - at).min(zeros.len() as u64) as usize];
            disk.write_at(at, piece).map_err(no_room)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// An owner's entries.
    pub(crate) fn composite(&mut self, owner: &Handle) -> Result<Composite> {
        let own = self.changes.attributes.get(owner);
        if let Some(known) = own.or_else(|| self.state.composite(owner)) {
            return Ok(known.clone());
        }
        let medium = &self.state.medium;
        match medium.files.attribute(owner, &medium.attribute) {
            Ok(bytes) => match Composite::decode(&bytes, medium.store, owner) {
                Ok(composite) => Ok(composite),
                Err(corruption) => self.doubtful(owner, &bytes, corruption),
            },
            Err(Errno::NODATA) => Ok(Composite::default()),
            Err(Errno::STALE) => Err(MetaError::OwnerGone),
            Err(errno) => Err(MetaError::io("reading the attribute of a file")(errno)),
        }
    }

    /// Whose attribute is it that does not verify?
    fn doubtful(&mut self, owner: &Handle, bytes: &[u8], why: Corruption) -> Result<Composite> {
        #[cfg(test)]
        if self.state.planted == super::Planted::BelievesEveryAttribute {
            return Composite::decode_unverified(bytes).map_err(MetaError::AttributeCorrupt);
        }
        let entries = Composite::decode_unverified(bytes)
            .unwrap_or_default()
            .entries;
        for entry in entries.values() {
            let other = match entry {
                Entry::Linked(number) => {
                    let header = self.header(&ObjectKey::Linked(*number)).ok().flatten();
                    header.and_then(|header| header.owner_handle())
                }
                Entry::Shared { number, place } => self.enrolled(*number, *place).ok().flatten(),
                Entry::Value(_) => None,
            };
            let store = self.state.medium.store;
            if let Some(other) = other
                && other != *owner
                && Composite::decode(bytes, store, &other).is_ok()
            {
                return Err(MetaError::Foreign { owner: other });
            }
        }
        Err(MetaError::AttributeCorrupt(why))
    }

    /// Sets an owner's entries.
    pub(crate) fn set_composite(&mut self, owner: &Handle, composite: Composite) -> Result<()> {
        let store = self.state.medium.store;
        let action = if composite.entries.is_empty() {
            self.reserve_attribute(owner, 0)?;
            Action::Clear { owner: *owner }
        } else {
            let value = composite
                .encode(store, owner, 0)
                .ok_or_else(MetaError::attribute_too_long)?;
            self.reserve_attribute(owner, value.len())?;
            Action::Attribute {
                owner: *owner,
                value,
            }
        };
        // One write of the attribute a request: the last says all.
        let others = |action: &Action| match action {
            Action::Attribute { owner: other, .. } | Action::Clear { owner: other } => {
                other != owner
            }
            _ => true,
        };
        self.changes.actions.retain(others);
        self.push(action);
        self.changes.attributes.insert(*owner, composite);
        Ok(())
    }

    /// Makes sure, before anything is in the journal, that the file takes the attribute: pads the
    /// one that is there, which does not change what it says. Also where it is long enough: a file
    /// that may not be changed (immutable, read-only) refuses now.
    fn reserve_attribute(&mut self, owner: &Handle, bytes: usize) -> Result<()> {
        let medium = &self.state.medium;
        let old = match medium.files.attribute(owner, &medium.attribute) {
            Ok(old) => old,
            Err(Errno::NODATA) => Vec::new(),
            Err(Errno::STALE) => return Err(MetaError::OwnerGone),
            Err(errno) => return Err(MetaError::io("reading the attribute of a file")(errno)),
        };
        if old.is_empty() && bytes == 0 {
            return Ok(());
        }
        let known = match old.is_empty() {
            true => Some(Composite::default()),
            false => Composite::decode(&old, medium.store, owner).ok(),
        };
        let padded = match known {
            Some(known) => known
                .encode(medium.store, owner, bytes)
                .ok_or_else(MetaError::attribute_too_long)?,
            // Another file's, or damaged: its bytes stay as they are until the request replaces it.
            None => [&old[..], &vec![0; bytes.saturating_sub(old.len())]].concat(),
        };
        let set = medium
            .files
            .set_attribute(owner, &medium.attribute, &padded);
        set.map_err(|errno| match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::RANGE => {
                MetaError::NoAttributeSpace { bytes, errno }
            }
            Errno::STALE => MetaError::OwnerGone,
            errno => MetaError::io("reserving room for an attribute")(errno),
        })
    }
}

/// # Errors
/// [`MetaError::OutOfRange`].
fn within(length: u64, offset: u64, count: usize) -> Result<()> {
    let end = offset.saturating_add(count as u64);
    if end > length {
        return Err(MetaError::OutOfRange {
            offset,
            end,
            length,
        });
    }
    Ok(())
}

/// Block `index` of an object with this content, its checksum still missing.
pub(crate) fn whole_block(content: &[u8], index: u64) -> Block {
    let mut block = Block::empty();
    let start = crate::block::content_offset(index) as usize;
    let rest = content.get(start..).unwrap_or_default();
    let room = block.content_mut(index);
    room.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    block
}

/// First and one past the last byte of content that differ. Most of a block is the same, so it is
/// compared in pieces first.
fn difference(old: &[u8], new: &[u8], start: usize) -> Option<(usize, usize)> {
    const PIECE_BYTES: usize = 64;
    let pieces = || (start..SUM_AT).step_by(PIECE_BYTES);
    let piece = |at: usize| at..(at + PIECE_BYTES).min(SUM_AT);
    let piece_differs = |at: &usize| old.get(piece(*at)) != new.get(piece(*at));
    let differs = |at: &usize| old.get(*at) != new.get(*at);
    let first = piece(pieces().find(piece_differs)?).find(differs)?;
    let last = piece(pieces().rfind(piece_differs)?).rfind(differs)?;
    Some((first, last + 1))
}
