//! Changes of an object's names, which stores make one after the other.
//!
//! Who looks for the object meanwhile, and does not know it on the store that is asked, finds
//! nothing where it was last seen, or nothing at all. That says nothing about the store.

use super::Inode;

/// How many changes of an object's names there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Naming {
    /// Those under way.
    under_way: u32,
    ended: u32,
}

/// A change that has ended is counted: where two answers are the same there was none between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamesAsOf(u32);

/// A change of an object's names; it ends when this is dropped. The new place is known by then.
pub(crate) struct Renaming<'a>(&'a Inode);

impl Drop for Renaming<'_> {
    fn drop(&mut self) {
        let mut content = self.0.content.lock();
        content.naming.under_way -= 1;
        content.naming.ended = content.naming.ended.wrapping_add(1);
        if let Some(waiting) = &content.waiting {
            waiting.notify_all();
        }
    }
}

impl Inode {
    /// Its names change from now on.
    pub(crate) fn renaming(&self) -> Renaming<'_> {
        self.content.lock().naming.under_way += 1;
        Renaming(self)
    }

    /// What to hold against [`Inode::names_moved_since`], before it is looked for.
    pub(crate) fn names_as_of(&self) -> NamesAsOf {
        NamesAsOf(self.content.lock().naming.ended)
    }

    /// Whether its names have changed since; waits for the end of changes that are under way. Who
    /// changes them does not ask.
    pub(crate) fn names_moved_since(&self, before: NamesAsOf) -> bool {
        let mut content = self.content.lock();
        while content.naming.under_way > 0 {
            let waiting = content.waiting.get_or_insert_with(Default::default).clone();
            self.wait(&waiting, &mut content);
        }
        content.naming.ended != before.0
    }
}
