//! What a store knows in memory: requests that are in the journal and not yet in the files.

use super::medium::Medium;
use crate::action::Action;
use crate::block::{BLOCK_BYTES, Block};
use crate::composite::Composite;
use crate::header::Header;
use crate::key::{Number, ObjectKey};
use crate::superblock::{STORE_FILE, Superblock};
use crate::{MetaError, Result};
use env::errno::Errno;
use env::handle::Handle;
use log::Sequence;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Numbers that are set aside with one durable write; at most as many are lost at an end.
const NUMBERS_SET_ASIDE: u64 = 1024;

/// An object as the newest request left it, as far as that is not in its file.
#[derive(Clone)]
pub(crate) struct Shadow {
    /// `None`: the object is removed.
    pub(crate) header: Option<Header>,
    pub(crate) blocks: BTreeMap<u64, Arc<Block>>,
    /// Blocks from here on that are not in `blocks` are zeros, whatever the file has there.
    pub(crate) zeros_from: u64,
}

impl Shadow {
    /// An object whose blocks are all in its file.
    pub(crate) fn of_file(header: Header) -> Shadow {
        Shadow {
            header: Some(header),
            blocks: BTreeMap::new(),
            zeros_from: u64::MAX,
        }
    }

    /// An object that is not there.
    pub(crate) fn removed() -> Shadow {
        Shadow {
            header: None,
            blocks: BTreeMap::new(),
            zeros_from: 0,
        }
    }
}

/// A request between journal and files.
pub(crate) struct Pending {
    /// Sequences of its first and last record.
    pub(crate) first: Sequence,
    pub(crate) last: Sequence,
    pub(crate) actions: Vec<Action>,
    /// In the journal, and its blocks in memory for readers.
    pub(crate) bytes: usize,
    objects: Vec<ObjectKey>,
    owners: Vec<Handle>,
}

/// What a request changed, to be shown to readers until it is applied.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) objects: HashMap<ObjectKey, Shadow>,
    pub(crate) attributes: HashMap<Handle, Composite>,
    pub(crate) actions: Vec<Action>,
}

pub(crate) struct State {
    pub(crate) medium: Medium,
    /// With the sequence of the request that made them so.
    objects: HashMap<ObjectKey, (Sequence, Shadow)>,
    attributes: HashMap<Handle, (Sequence, Composite)>,
    pub(crate) queue: VecDeque<Pending>,
    pub(crate) queued_bytes: usize,
    superblock: Superblock,
    next_number: u64,
    /// Numbers whose objects are being written aside.
    pub(crate) staged: HashSet<Number>,
    /// Requests whose notes are open: last sequence to first.
    pub(crate) open: BTreeMap<Sequence, Sequence>,
    stopped: Option<(&'static str, Errno)>,
    #[cfg(test)]
    pub(crate) planted: super::Planted,
}

impl State {
    pub(crate) fn new(medium: Medium, superblock: Superblock) -> State {
        State {
            medium,
            objects: HashMap::new(),
            attributes: HashMap::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            next_number: superblock.numbers,
            superblock,
            staged: HashSet::new(),
            open: BTreeMap::new(),
            stopped: None,
            #[cfg(test)]
            planted: super::Planted::Nothing,
        }
    }

    /// # Errors
    /// [`MetaError::Stopped`].
    pub(crate) fn check(&self) -> Result<()> {
        match self.stopped {
            Some((doing, errno)) => Err(MetaError::Stopped { doing, errno }),
            None => Ok(()),
        }
    }

    /// From here on every call fails: files and journal may differ.
    pub(crate) fn stop(&mut self, doing: &'static str, errno: Errno) -> MetaError {
        let (doing, errno) = *self.stopped.get_or_insert((doing, errno));
        MetaError::Stopped { doing, errno }
    }

    pub(crate) fn shadow(&self, key: &ObjectKey) -> Option<&Shadow> {
        self.objects.get(key).map(|(_, shadow)| shadow)
    }

    pub(crate) fn composite(&self, owner: &Handle) -> Option<&Composite> {
        self.attributes.get(owner).map(|(_, composite)| composite)
    }

    /// A number that no object has had.
    pub(crate) fn take_number(&mut self) -> Result<Number> {
        if self.next_number == self.superblock.numbers {
            let mut next = self.superblock.clone();
            next.numbers = (next.numbers + NUMBERS_SET_ASIDE).min(Number::MAX.get());
            next.writes += 1;
            let bytes = next.encode();
            let written = self.medium.objects.replace(STORE_FILE, &bytes);
            written.map_err(MetaError::io("setting numbers aside"))?;
            self.superblock = next;
        }
        // The last number of all is never handed out, so that `numbers` can always be one more.
        let number = Number::new(self.next_number)
            .filter(|_| self.next_number < self.superblock.numbers)
            .ok_or(MetaError::TooLong {
                what: "the row of numbers",
                found: self.next_number,
                max: Number::MAX.get(),
            })?;
        self.next_number += 1;
        Ok(number)
    }

    /// Every number at or above was never used.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Takes over a request that is in the journal from `first` to `last`.
    pub(crate) fn queue(
        &mut self,
        changes: Changes,
        first: Sequence,
        last: Sequence,
        bytes: usize,
    ) {
        // Blocks that an earlier request made are held twice, here and in its shadow, and counted.
        let blocks = changes.objects.values().flat_map(|s| s.blocks.values());
        let new = blocks.filter(|block| Arc::strong_count(block) == 1).count();
        let bytes = bytes + new * BLOCK_BYTES;
        self.queue.push_back(Pending {
            first,
            last,
            actions: changes.actions,
            bytes,
            objects: changes.objects.keys().cloned().collect(),
            owners: changes.attributes.keys().copied().collect(),
        });
        self.queued_bytes += bytes;
        let objects = changes.objects.into_iter();
        self.objects
            .extend(objects.map(|(key, shadow)| (key, (last, shadow))));
        let attributes = changes.attributes.into_iter();
        self.attributes
            .extend(attributes.map(|(owner, composite)| (owner, (last, composite))));
    }

    /// Applies, in order, what is durable in the journal: the requests that end before `durable`.
    ///
    /// # Errors
    /// [`MetaError::Stopped`].
    pub(crate) fn settle(&mut self, durable: Sequence) -> Result<()> {
        self.check()?;
        while self.queue.front().is_some_and(|front| front.last < durable) {
            let Some(pending) = self.queue.pop_front() else {
                break;
            };
            for action in &pending.actions {
                if let Err((doing, errno)) = self.medium.apply(action) {
                    // The request stays in the journal, which is not truncated any more.
                    return Err(self.stop(doing, errno));
                }
            }
            self.queued_bytes -= pending.bytes;
            for key in &pending.objects {
                if self
                    .objects
                    .get(key)
                    .is_some_and(|(last, _)| *last == pending.last)
                {
                    self.objects.remove(key);
                }
            }
            for owner in &pending.owners {
                let newest = self.attributes.get(owner);
                if newest.is_some_and(|(last, _)| *last == pending.last) {
                    self.attributes.remove(owner);
                }
            }
        }
        Ok(())
    }
}
