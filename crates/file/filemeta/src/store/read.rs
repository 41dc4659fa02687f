//! Reading.

use super::{Store, Transaction};
use crate::composite::{Composite, Entry};
use crate::key::{ObjectKey, SystemName, Tag};
use crate::{MetaError, Result};
use env::handle::Handle;

impl Store {
    fn look<T>(&self, work: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.with_state(|state| work(&mut Transaction::new(state)))
    }

    /// What metadata a file has: its tags and what each stands for.
    ///
    /// # Errors
    /// [`MetaError::OwnerGone`], [`MetaError::Foreign`], [`MetaError::AttributeCorrupt`].
    pub fn entries(&self, owner: &Handle) -> Result<Composite> {
        self.look(|txn| txn.composite(owner))
    }

    /// A tiny value.
    ///
    /// # Errors
    /// As [`Store::entries`], and [`MetaError::NoSuchEntry`], [`MetaError::WrongKind`].
    pub fn value(&self, owner: &Handle, tag: Tag) -> Result<Vec<u8>> {
        match self.entries(owner)?.entries.remove(&tag) {
            Some(Entry::Value(value)) => Ok(value),
            Some(_) => Err(MetaError::WrongKind { tag }),
            None => Err(MetaError::NoSuchEntry),
        }
    }

    /// The whole metadata of a tag, whatever kind it is.
    ///
    /// # Errors
    /// As [`Store::value`], and [`MetaError::Missing`], [`MetaError::Corrupt`],
    /// [`MetaError::OtherStore`].
    pub fn get(&self, owner: &Handle, tag: Tag) -> Result<Vec<u8>> {
        self.look(|txn| match txn.composite(owner)?.entries.remove(&tag) {
            Some(Entry::Value(value)) => Ok(value),
            Some(Entry::Linked(_)) => {
                let (key, header) = txn.linked(owner, tag)?;
                txn.content(&key, &header)
            }
            Some(Entry::Shared { number, place }) => {
                if txn.enrolled(number, place)? != Some(*owner) {
                    let object = ObjectKey::Roster(number);
                    return Err(MetaError::Missing { object });
                }
                let key = ObjectKey::Shared(number);
                let header = txn.known_header(&key)?;
                txn.content(&key, &header)
            }
            None => Err(MetaError::NoSuchEntry),
        })
    }

    /// Bytes of the linked metadata of a tag.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn length(&self, owner: &Handle, tag: Tag) -> Result<u64> {
        self.look(|txn| txn.linked(owner, tag).map(|(_, header)| header.length))
    }

    /// Fills `buffer` with the linked metadata of a tag, from `offset`.
    ///
    /// # Errors
    /// As [`Store::get`], and [`MetaError::OutOfRange`].
    pub fn read(&self, owner: &Handle, tag: Tag, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.look(|txn| {
            let (key, header) = txn.linked(owner, tag)?;
            txn.read(&key, &header, offset, buffer)
        })
    }

    /// How many owners share the metadata of a tag.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn references(&self, owner: &Handle, tag: Tag) -> Result<u64> {
        self.look(|txn| match txn.composite(owner)?.entries.get(&tag) {
            Some(Entry::Shared { number, .. }) => {
                let header = txn.known_header(&ObjectKey::Shared(*number))?;
                Ok(header.references)
            }
            Some(_) => Err(MetaError::WrongKind { tag }),
            None => Err(MetaError::NoSuchEntry),
        })
    }

    /// The whole of a system object.
    ///
    /// # Errors
    /// [`MetaError::NoSuchEntry`], [`MetaError::Corrupt`], [`MetaError::OtherStore`].
    pub fn system(&self, name: &SystemName) -> Result<Vec<u8>> {
        self.look(|txn| {
            let (key, header) = txn.system(name)?;
            txn.content(&key, &header)
        })
    }

    /// Fills `buffer` with a system object, from `offset`.
    ///
    /// # Errors
    /// As [`Store::system`], and [`MetaError::OutOfRange`].
    pub fn read_system(&self, name: &SystemName, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.look(|txn| {
            let (key, header) = txn.system(name)?;
            txn.read(&key, &header, offset, buffer)
        })
    }
}
