//! What a caller wants to happen together.

use crate::action::{Action, NOTE_BYTES_MAX};
use crate::composite::{Entry, VALUE_BYTES_MAX};
use crate::header::Header;
use crate::key::{Number, ObjectKey, SystemName, Tag};
use crate::store::{Store, Transaction};
use crate::{MetaError, Result, Ticket};
use env::handle::Handle;

/// Longest content of a linked object that goes through the journal; a longer one is written
/// aside and made durable before.
pub const JOURNALED_BYTES_MAX: usize = 64 << 10;

/// One wish.
enum Operation {
    SetValue(Handle, Tag, Vec<u8>),
    Put(Handle, Tag, Vec<u8>),
    Adopt(Handle, Tag, Number),
    Patch(Handle, Tag, u64, Vec<u8>),
    Resize(Handle, Tag, u64),
    Share(Handle, Tag, Vec<u8>),
    Clear(Handle, Tag),
    Forget(Handle),
    Reset(Handle),
    PutSystem(SystemName, Vec<u8>),
    PatchSystem(SystemName, u64, Vec<u8>),
    ResizeSystem(SystemName, u64),
    RemoveSystem(SystemName),
    Note(u16, Vec<u8>),
}

/// Several changes that become one: after a crash all of them are there, or none. Nothing happens
/// before [`Request::commit`] or [`Request::submit`]; then the changes are made in the order in
/// which they were asked for, and where one cannot be made none is.
///
/// Two requests on the same metadata take effect one after the other. A caller who reads, decides
/// and then changes keeps others out in between by a lock of its own.
#[must_use = "a request does nothing until it is committed or submitted"]
pub struct Request<'a> {
    store: &'a Store,
    operations: Vec<Operation>,
    staged: Vec<Number>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(store: &'a Store) -> Request<'a> {
        Request {
            store,
            operations: Vec::new(),
            staged: Vec::new(),
        }
    }

    /// Makes `tag` of `owner` a tiny value of at most [`VALUE_BYTES_MAX`] bytes, kept in the
    /// file's attribute; what it was before is let go.
    pub fn set_value(&mut self, owner: &Handle, tag: Tag, value: &[u8]) -> &mut Self {
        self.add(Operation::SetValue(*owner, tag, value.to_vec()))
    }

    /// Makes `tag` of `owner` metadata with this content, up to 1 GiB
    /// ([`crate::OBJECT_BYTES_MAX`]). More than [`JOURNALED_BYTES_MAX`] bytes are written aside
    /// and synced now.
    ///
    /// # Errors
    /// Of that writing, then nothing was changed.
    pub fn put(&mut self, owner: &Handle, tag: Tag, content: &[u8]) -> Result<&mut Self> {
        if content.len() <= JOURNALED_BYTES_MAX {
            return Ok(self.add(Operation::Put(*owner, tag, content.to_vec())));
        }
        let number = self.store.stage(owner, tag, content)?;
        self.staged.push(number);
        Ok(self.add(Operation::Adopt(*owner, tag, number)))
    }

    /// Changes bytes inside the metadata of `tag`, in place: the cost is that of the range, not
    /// of the whole.
    pub fn patch(&mut self, owner: &Handle, tag: Tag, offset: u64, bytes: &[u8]) -> &mut Self {
        self.add(Operation::Patch(*owner, tag, offset, bytes.to_vec()))
    }

    /// Cuts the metadata of `tag`, or makes it longer with zeros.
    pub fn resize(&mut self, owner: &Handle, tag: Tag, length: u64) -> &mut Self {
        self.add(Operation::Resize(*owner, tag, length))
    }

    /// Makes `tag` of `owner` metadata that is kept once for all owners with the same content, at
    /// most [`crate::SHARED_BYTES_MAX`] bytes.
    pub fn share(&mut self, owner: &Handle, tag: Tag, content: &[u8]) -> &mut Self {
        self.add(Operation::Share(*owner, tag, content.to_vec()))
    }

    /// Removes the metadata of `tag`, whatever it is; nothing where there is none.
    pub fn clear(&mut self, owner: &Handle, tag: Tag) -> &mut Self {
        self.add(Operation::Clear(*owner, tag))
    }

    /// Removes all metadata of `owner`, as before the file is removed.
    pub fn forget(&mut self, owner: &Handle) -> &mut Self {
        self.add(Operation::Forget(*owner))
    }

    /// Lets go of an attribute that is damaged or another file's ([`MetaError::Foreign`]) without
    /// touching what it refers to; the file has no metadata then.
    pub fn reset(&mut self, owner: &Handle) -> &mut Self {
        self.add(Operation::Reset(*owner))
    }

    /// Makes or replaces a system object.
    pub fn put_system(&mut self, name: &SystemName, content: &[u8]) -> &mut Self {
        self.add(Operation::PutSystem(name.clone(), content.to_vec()))
    }

    /// Changes bytes inside a system object.
    pub fn patch_system(&mut self, name: &SystemName, offset: u64, bytes: &[u8]) -> &mut Self {
        self.add(Operation::PatchSystem(name.clone(), offset, bytes.to_vec()))
    }

    /// Cuts a system object, or makes it longer with zeros.
    pub fn resize_system(&mut self, name: &SystemName, length: u64) -> &mut Self {
        self.add(Operation::ResizeSystem(name.clone(), length))
    }

    /// Removes a system object; nothing where there is none.
    pub fn remove_system(&mut self, name: &SystemName) -> &mut Self {
        self.add(Operation::RemoveSystem(name.clone()))
    }

    /// Has the journal keep `payload` until [`Store::done`] is called with this request's ticket,
    /// and hand it back at an open after a crash: what is to be done to the files themselves (a
    /// hole, a length) together with this change of their metadata. Doing it twice must do no
    /// harm.
    pub fn note(&mut self, kind: u16, payload: &[u8]) -> &mut Self {
        self.add(Operation::Note(kind, payload.to_vec()))
    }

    /// Makes the changes, durable when this returns.
    ///
    /// # Errors
    /// Nothing was changed, unless [`MetaError::Stopped`]: then the next open decides.
    pub fn commit(self) -> Result<Ticket> {
        let store = self.store;
        let ticket = self.submit()?;
        store.flush_to(ticket)?;
        Ok(ticket)
    }

    /// Makes the changes for everybody to see, in order, durable with the next [`Request::commit`]
    /// of anybody, or [`Store::flush`].
    ///
    /// # Errors
    /// As [`Request::commit`].
    pub fn submit(mut self) -> Result<Ticket> {
        let ticket = self.store.change(|txn| self.plan(txn))?;
        // They belong to their owners now.
        let staged = std::mem::take(&mut self.staged);
        self.store.unstage(&staged, false);
        Ok(ticket)
    }

    fn add(&mut self, operation: Operation) -> &mut Self {
        self.operations.push(operation);
        self
    }

    fn plan(&self, txn: &mut Transaction<'_>) -> Result<()> {
        self.operations
            .iter()
            .try_for_each(|operation| operation.plan(txn))
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.store.unstage(&self.staged, true);
    }
}

impl Operation {
    fn plan(&self, txn: &mut Transaction<'_>) -> Result<()> {
        match self {
            Operation::SetValue(owner, tag, value) => {
                if value.len() > VALUE_BYTES_MAX {
                    return Err(MetaError::TooLong {
                        what: "a tiny value",
                        found: value.len() as u64,
                        max: VALUE_BYTES_MAX as u64,
                    });
                }
                txn.replace_entry(owner, *tag, Some(Entry::Value(value.clone())))
            }
            Operation::Put(owner, tag, content) => txn.put(owner, *tag, content),
            Operation::Adopt(owner, tag, number) => {
                let key = ObjectKey::Linked(*number);
                let mut header = txn.known_header(&key)?;
                header.references = 1;
                txn.set_header(&key, &header);
                txn.replace_entry(owner, *tag, Some(Entry::Linked(*number)))
            }
            Operation::Patch(owner, tag, offset, bytes) => {
                let (key, header) = txn.linked(owner, *tag)?;
                txn.patch(&key, &header, *offset, bytes)
            }
            Operation::Resize(owner, tag, length) => {
                let (key, header) = txn.linked(owner, *tag)?;
                txn.resize(&key, &header, *length)
            }
            Operation::Share(owner, tag, content) => {
                // The old one goes first: its place in the roster may serve again.
                txn.replace_entry(owner, *tag, None)?;
                let (number, place) = txn.enroll(owner, content)?;
                txn.replace_entry(owner, *tag, Some(Entry::Shared { number, place }))
            }
            Operation::Clear(owner, tag) => txn.replace_entry(owner, *tag, None),
            Operation::Forget(owner) => txn.forget(owner),
            Operation::Reset(owner) => txn.set_composite(owner, Default::default()),
            Operation::PutSystem(name, content) => txn.put_system(name, content),
            Operation::PatchSystem(name, offset, bytes) => {
                let (key, header) = txn.system(name)?;
                txn.patch(&key, &header, *offset, bytes)
            }
            Operation::ResizeSystem(name, length) => {
                let (key, header) = txn.system(name)?;
                txn.resize(&key, &header, *length)
            }
            Operation::RemoveSystem(name) => {
                txn.remove(&ObjectKey::System(name.clone()));
                Ok(())
            }
            Operation::Note(kind, payload) => {
                if payload.len() > NOTE_BYTES_MAX {
                    return Err(MetaError::TooLong {
                        what: "a note",
                        found: payload.len() as u64,
                        max: NOTE_BYTES_MAX as u64,
                    });
                }
                txn.push(Action::Note {
                    kind: *kind,
                    payload: payload.clone(),
                });
                Ok(())
            }
        }
    }
}

impl Transaction<'_> {
    /// The linked object of a tag, and its header, held against the owner.
    pub(crate) fn linked(&mut self, owner: &Handle, tag: Tag) -> Result<(ObjectKey, Header)> {
        let composite = self.composite(owner)?;
        match composite.entries.get(&tag) {
            Some(Entry::Linked(number)) => self.linked_object(owner, tag, *number),
            Some(_) => Err(MetaError::WrongKind { tag }),
            None => Err(MetaError::NoSuchEntry),
        }
    }

    fn linked_object(
        &mut self,
        owner: &Handle,
        tag: Tag,
        number: Number,
    ) -> Result<(ObjectKey, Header)> {
        let key = ObjectKey::Linked(number);
        let header = self.known_header(&key)?;
        #[cfg(test)]
        if self.state.planted == crate::store::Planted::BelievesEveryAttribute {
            return Ok((key, header));
        }
        // The attribute's checksum covers the owner; the object says it again, for itself.
        match header.owner_handle() {
            Some(found) if found == *owner && header.tag == tag.get() => Ok((key, header)),
            Some(found) => Err(MetaError::Foreign { owner: found }),
            None => Err(MetaError::Missing { object: key }),
        }
    }

    /// The system object of a name, and its header.
    pub(crate) fn system(&mut self, name: &SystemName) -> Result<(ObjectKey, Header)> {
        let key = ObjectKey::System(name.clone());
        let header = self.header(&key)?.ok_or(MetaError::NoSuchEntry)?;
        Ok((key, header))
    }

    fn put(&mut self, owner: &Handle, tag: Tag, content: &[u8]) -> Result<()> {
        match self.linked(owner, tag) {
            Ok((key, header)) if header.length <= 4 * JOURNALED_BYTES_MAX as u64 => {
                return self.overwrite(&key, &header, content);
            }
            // A new object, also in place of one that is damaged.
            Ok(_)
            | Err(
                MetaError::NoSuchEntry
                | MetaError::WrongKind { .. }
                | MetaError::Missing { .. }
                | MetaError::Corrupt { .. }
                | MetaError::OtherStore { .. },
            ) => {}
            Err(error) => return Err(error),
        }
        let number = self.state.take_number()?;
        let header = Header {
            references: 1,
            ..Header::new(number.get(), tag.get(), owner.as_bytes())
        };
        self.create(&ObjectKey::Linked(number), header, content)?;
        self.replace_entry(owner, tag, Some(Entry::Linked(number)))
    }

    fn put_system(&mut self, name: &SystemName, content: &[u8]) -> Result<()> {
        let key = ObjectKey::System(name.clone());
        match self.header(&key) {
            Ok(Some(header)) => return self.overwrite(&key, &header, content),
            Ok(None) => {}
            Err(MetaError::Corrupt { .. } | MetaError::OtherStore { .. }) => self.remove(&key),
            Err(error) => return Err(error),
        }
        let generation = self.state.take_number()?.get();
        let header = Header::new(generation, 0, name.as_str().as_bytes());
        self.create(&key, header, content)
    }

    /// Changes what a tag stands for, and lets go of what it stood for.
    fn replace_entry(&mut self, owner: &Handle, tag: Tag, entry: Option<Entry>) -> Result<()> {
        let mut composite = self.composite(owner)?;
        let old = match entry {
            Some(entry) => composite.entries.insert(tag, entry),
            None => match composite.entries.remove(&tag) {
                None => return Ok(()),
                old => old,
            },
        };
        self.release(owner, old)?;
        self.set_composite(owner, composite)
    }

    fn forget(&mut self, owner: &Handle) -> Result<()> {
        let composite = self.composite(owner)?;
        if composite.entries.is_empty() {
            return Ok(());
        }
        for entry in composite.entries.into_values() {
            self.release(owner, Some(entry))?;
        }
        self.set_composite(owner, Default::default())
    }

    fn release(&mut self, owner: &Handle, entry: Option<Entry>) -> Result<()> {
        match entry {
            Some(Entry::Linked(number)) => {
                let key = ObjectKey::Linked(number);
                let header = self.header(&key).ok().flatten();
                // Another file's object is never removed, whatever an attribute says.
                if header.is_none_or(|header| header.owner == owner.as_bytes()) {
                    self.remove(&key);
                }
            }
            Some(Entry::Shared { number, place }) => match self.leave(owner, number, place) {
                // What is damaged cannot be left; the garbage collector counts again.
                Err(MetaError::Corrupt { .. } | MetaError::Missing { .. }) => {}
                left => return left,
            },
            _ => {}
        }
        Ok(())
    }
}
