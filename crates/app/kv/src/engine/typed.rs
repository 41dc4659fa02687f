//! Collections, as commands use them.

use super::Engine;
use crate::fault::{Fault, WRONG_TYPE};
use crate::value::{Collection, Value};

/// What an edit gives, and whether it changed anything. What changed nothing is not logged.
pub(crate) trait Outcome {
    /// Whether anything was changed.
    fn changed(&self) -> bool;
}

impl Outcome for bool {
    fn changed(&self) -> bool {
        *self
    }
}

impl<T> Outcome for Option<T> {
    fn changed(&self) -> bool {
        self.is_some()
    }
}

impl<T, E> Outcome for Result<T, E> {
    fn changed(&self) -> bool {
        self.is_ok()
    }
}

impl<T> Outcome for Vec<T> {
    fn changed(&self) -> bool {
        !self.is_empty()
    }
}

/// The outcome of an edit that always counts as a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changed<T>(pub(crate) T);

impl<T> Outcome for Changed<T> {
    fn changed(&self) -> bool {
        true
    }
}

/// The outcome of an edit whose change the caller says to the log itself, with
/// [`Engine::touch_with`]: what it is follows from the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<T>(pub(crate) T);

impl<T> Outcome for Told<T> {
    fn changed(&self) -> bool {
        false
    }
}

/// How many elements an edit changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) usize);

impl Outcome for Count {
    fn changed(&self) -> bool {
        self.0 > 0
    }
}

/// The outcome of an edit of a collection, where there is one: what the edit says of itself counts.
struct Inside<T>(Option<T>);

impl<T: Outcome> Outcome for Inside<T> {
    fn changed(&self) -> bool {
        self.0.as_ref().is_some_and(Outcome::changed)
    }
}

impl Engine {
    /// A collection that is read.
    pub(crate) fn get<C: Collection>(
        &mut self,
        database: u8,
        key: &[u8],
    ) -> Result<Option<&C>, Fault> {
        match self.read(database, key) {
            None => Ok(None),
            Some(entry) => {
                let found = entry.as_value().and_then(C::of);
                found.map(Some).ok_or(WRONG_TYPE)
            }
        }
    }

    /// Whether a key has a collection of that type; refused where it has something else.
    pub(crate) fn has<C: Collection>(&mut self, database: u8, key: &[u8]) -> Result<bool, Fault> {
        match self.peek(database, key) {
            None => Ok(false),
            Some(entry) => match entry.as_value().and_then(C::of) {
                Some(_) => Ok(true),
                None => Err(WRONG_TYPE),
            },
        }
    }

    /// Changes a collection; `None` where there is none.
    pub(crate) fn edit<C: Collection, T: Outcome>(
        &mut self,
        database: u8,
        key: &[u8],
        change: Option<&[&[u8]]>,
        work: impl FnOnce(&mut C) -> T,
    ) -> Result<Option<T>, Fault> {
        if !self.has::<C>(database, key)? {
            return Ok(None);
        }
        let result = self.update(database, key, change, |value: &mut Value| {
            Inside(C::of_mut(value).map(work))
        });
        Ok(result.and_then(|inside| inside.0))
    }

    /// Changes a collection, of a new entry where there is none.
    pub(crate) fn edit_or_new<C: Collection, T: Outcome>(
        &mut self,
        database: u8,
        key: &[u8],
        change: Option<&[&[u8]]>,
        work: impl FnOnce(&mut C) -> T,
    ) -> Result<T, Fault> {
        if self.has::<C>(database, key)? {
            let result = self.update(database, key, change, |value: &mut Value| {
                Inside(C::of_mut(value).map(work))
            });
            return result.and_then(|inside| inside.0).ok_or(WRONG_TYPE);
        }
        let mut collection = C::default();
        let result = work(&mut collection);
        let value = collection.wrap();
        if !value.is_empty() {
            self.put(database, key, value, None);
        }
        Ok(result)
    }

    /// Puts the result of a command into an entry, or removes the entry where there is nothing.
    pub(crate) fn store<C: Collection>(
        &mut self,
        database: u8,
        key: &[u8],
        collection: C,
    ) -> usize {
        let value = collection.wrap();
        let count = value.len();
        if value.is_empty() {
            self.remove(database, key);
        } else {
            self.put(database, key, value, None);
        }
        count
    }
}

impl Engine {
    /// A collection, of an entry that was settled before: it is still there where nothing may be removed.
    pub(crate) fn look<C: Collection>(&self, database: u8, key: &[u8]) -> Option<&C> {
        let shard = self.keyspace.shard(crate::slot::ShardId::of(key));
        let entry = shard.get(database, key)?;
        let there = Some(entry).filter(|entry| !self.is_over(entry))?;
        there.as_value().and_then(C::of)
    }
}
