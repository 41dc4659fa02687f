//! From changed entries to records, in one group.

use super::Engine;
use crate::entry::{Entry, Flags};
use crate::record::{self, Kind};
use std::ops::Range;
use vlog::{Change, Position, VlogError};

/// Memory that commits use again.
#[derive(Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    positions: Vec<Position>,
}

/// Bytes of memory that are kept for the next commit at most.
const KEPT_BYTES: usize = 1 << 20;

/// A record that is to be appended.
struct Planned {
    /// Index of what was changed.
    dirty: usize,
    payload: Range<usize>,
    replaces: Option<Position>,
    /// Which of the graves are of records that it takes the place of.
    graves: Range<usize>,
}

impl Planned {
    fn append<'a>(&self, stream: crate::slot::ShardId, bytes: &'a [u8]) -> Change<'a> {
        Change::Append {
            stream: u32::from(stream.0),
            payload: bytes.get(self.payload.clone()).unwrap_or_default(),
            replaces: self.replaces,
        }
    }
}

fn kill<'a>((shard, position): &(crate::slot::ShardId, Position)) -> Change<'a> {
    Change::Kill {
        stream: u32::from(shard.0),
        position: *position,
    }
}

impl Engine {
    /// Brings all that was changed to the log, as one. Returns what has to be durable before anybody
    /// is told, or 0.
    ///
    /// # Errors
    /// Nothing was appended; what was changed is tried again with the next commit, as a whole.
    pub(crate) fn commit(&mut self) -> Result<u64, VlogError> {
        if let ([dirty], []) = (&*self.changes.dirty, &*self.changes.graves)
            && dirty.change.is_none()
            && self.changes.libraries.is_empty()
        {
            return self.commit_one();
        }
        self.commit_all()
    }

    /// As [`Engine::commit`], where one entry is to be logged as a whole: it is looked up once.
    fn commit_one(&mut self) -> Result<u64, VlogError> {
        let (Some(journal), Some(dirty)) = (&mut self.journal, self.changes.dirty.first()) else {
            return self.commit_all();
        };
        let shard = self.keyspace.shard_mut(dirty.shard);
        let text = shard.get_mut(dirty.database, &dirty.key);
        // An object may have changes that are dead from now on.
        let is_whole =
            |entry: &&mut Entry| matches!(entry, Entry::Text(_)) && entry.has(Flags::WHOLE);
        let Some(entry) = text.filter(is_whole) else {
            return self.commit_all();
        };
        let bytes = &mut self.scratch.bytes;
        bytes.clear();
        push_whole(bytes, dirty.database, entry);
        let change = Change::Append {
            stream: u32::from(dirty.shard.0),
            payload: bytes,
            replaces: entry.position(),
        };
        self.scratch.positions.clear();
        // What the log refuses stays as it is, and is tried again.
        let chunk = journal.append(&[change], &mut self.scratch.positions)?;
        entry.set_flag(Flags::WHOLE, false);
        entry.set_position(self.scratch.positions.first().copied());
        let waits = journal.policy == crate::journal::Policy::Always;
        self.changes.dirty.clear();
        Ok(if waits { chunk } else { 0 })
    }

    fn commit_all(&mut self) -> Result<u64, VlogError> {
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        let mut positions = std::mem::take(&mut self.scratch.positions);
        bytes.clear();
        positions.clear();
        let mut graves: Vec<_> = std::mem::take(&mut self.changes.graves);
        let (planned, too_long) = self.plan(&mut bytes, &mut graves);
        if bytes.len() > self.config.entry_bytes_max && planned.len() > 1 {
            let mut done = self.commit_apart(&planned, &bytes, graves);
            if done.is_ok() && !self.changes.libraries.is_empty() {
                done = self.commit_all();
            }
            return too_long.map_or(done, Err);
        }
        let kills = graves.iter().map(kill);
        let appends = planned.iter().filter_map(|planned| {
            let dirty = self.changes.dirty.get(planned.dirty)?;
            Some(planned.append(dirty.shard, &bytes))
        });
        let libraries = self.plan_libraries();
        let codes = libraries
            .iter()
            .map(|(name, payload, replaces)| Change::Append {
                stream: u32::from(crate::slot::ShardId::of(name.as_bytes()).0),
                payload,
                replaces: *replaces,
            });
        let changes: smallvec::SmallVec<[Change<'_>; 4]> =
            kills.chain(appends).chain(codes).collect();
        let appended = match (&mut self.journal, changes.is_empty()) {
            (Some(journal), false) => journal.append(&changes, &mut positions),
            _ => Ok(0),
        };
        drop(changes);
        let appended = match appended {
            Ok(chunk) => {
                let of_libraries = positions.get(planned.len()..).unwrap_or_default();
                for ((name, ..), position) in libraries.iter().zip(of_libraries) {
                    if let Some(library) = self.scripts.libraries.all.get_mut(name) {
                        library.position = Some(*position);
                    }
                }
                self.changes.libraries.clear();
                self.settle_positions(&planned, &positions);
                let always = self.journal.as_ref().map(|journal| journal.policy);
                match always {
                    Some(crate::journal::Policy::Always) => Ok(chunk),
                    _ => Ok(0),
                }
            }
            Err(error) => {
                self.changes.graves = graves;
                self.keep_for_later();
                Err(error)
            }
        };
        if bytes.capacity() > KEPT_BYTES {
            bytes = Vec::new();
        }
        self.scratch.bytes = bytes;
        self.scratch.positions = positions;
        too_long.map_or(appended, Err)
    }

    /// As [`Engine::commit`], of more than one group takes: each record is a group with what it takes the
    /// place of. After a crash some of them may be there.
    fn commit_apart(
        &mut self,
        planned: &[Planned],
        bytes: &[u8],
        graves: Vec<(crate::slot::ShardId, Position)>,
    ) -> Result<u64, VlogError> {
        let (mut positions, mut last, mut failed) = (Vec::new(), 0, None);
        for one in planned {
            let Some(dirty) = self.changes.dirty.get(one.dirty) else {
                continue;
            };
            let own = graves.get(one.graves.clone()).unwrap_or_default();
            let mut changes: Vec<Change<'_>> = own.iter().map(kill).collect();
            changes.push(one.append(dirty.shard, bytes));
            let journal = self.journal.as_mut();
            match journal.map_or(Ok(0), |journal| journal.append(&changes, &mut positions)) {
                Ok(chunk) => last = chunk,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let (done, rest) = planned.split_at(positions.len().min(planned.len()));
        let later = rest
            .iter()
            .filter_map(|one| self.changes.dirty.get(one.dirty));
        let later: Vec<_> = later.cloned().collect();
        let done_graves: Vec<Range<usize>> = done.iter().map(|one| one.graves.clone()).collect();
        let is_done = |at: &usize| done_graves.iter().any(|range| range.contains(at));
        // What no record takes the place of goes last: nothing is lost where it stays.
        let left = graves.into_iter().enumerate();
        let left = left.filter(|(at, _)| !is_done(at)).map(|(_, grave)| grave);
        self.changes.graves = left.collect();
        self.settle_positions(done, &positions);
        self.changes.dirty = later;
        if failed.is_none() && !self.changes.graves.is_empty() {
            let kills: Vec<Change<'_>> = self.changes.graves.iter().map(kill).collect();
            let journal = self.journal.as_mut();
            match journal.map_or(Ok(0), |journal| journal.append(&kills, &mut positions)) {
                Ok(chunk) => {
                    last = chunk;
                    self.changes.graves.clear();
                }
                Err(error) => failed = Some(error),
            }
        }
        let waits = self.journal.as_ref().map(|journal| journal.policy)
            == Some(crate::journal::Policy::Always);
        match failed {
            Some(error) => {
                self.keep_for_later();
                Err(error)
            }
            None => Ok(if waits { last } else { 0 }),
        }
    }

    /// The records of libraries that were loaded.
    fn plan_libraries(&self) -> Vec<(String, Vec<u8>, Option<Position>)> {
        let changed = self.changes.libraries.iter();
        changed
            .filter_map(|name| {
                let library = self.scripts.libraries.all.get(name)?;
                let mut payload = Vec::new();
                record::begin(&mut payload, Kind::Library, 0, None, name.as_bytes());
                payload.extend_from_slice(&library.code);
                Some((name.clone(), payload, library.position))
            })
            .collect()
    }

    /// Writes the records. What is too long for one is left out, and is said.
    fn plan(
        &mut self,
        bytes: &mut Vec<u8>,
        graves: &mut Vec<(crate::slot::ShardId, Position)>,
    ) -> (Vec<Planned>, Option<VlogError>) {
        let (bytes_max, mut too_long) = (self.config.entry_bytes_max, None);
        let mut planned = Vec::with_capacity(self.changes.dirty.len());
        let logs = self.journal.is_some();
        for (index, dirty) in self.changes.dirty.iter().enumerate() {
            let shard = self.keyspace.shard_mut(dirty.shard);
            let Some(entry) = shard.get_mut(dirty.database, &dirty.key) else {
                continue;
            };
            let (start, first_grave) = (bytes.len(), graves.len());
            let replaces = match &dirty.change {
                None if entry.has(Flags::WHOLE) => {
                    // So that it is not logged twice.
                    entry.set_flag(Flags::WHOLE, false);
                    if !logs {
                        continue;
                    }
                    push_whole(bytes, dirty.database, entry);
                    let length = bytes.len() - start;
                    self.has_long |= length > bytes_max / 2;
                    entry.set_flag(Flags::UNLOGGED, length > bytes_max);
                    if length > bytes_max {
                        bytes.truncate(start);
                        too_long = Some(VlogError::TooLong {
                            found: length as u64,
                            max: bytes_max as u64,
                        });
                        continue;
                    }
                    if let Entry::Object(object) = entry {
                        let changes = object.changes.drain(..);
                        graves.extend(changes.map(|position| (dirty.shard, position)));
                        object.changes_bytes = 0;
                        object.whole_bytes = (bytes.len() - start) as u64;
                    }
                    entry.position()
                }
                Some(body) if entry.has(Flags::CHANGED) && !entry.has(Flags::WHOLE) => {
                    if !logs {
                        continue;
                    }
                    record::begin(bytes, Kind::Change, dirty.database, None, &dirty.key);
                    bytes.extend_from_slice(body);
                    None
                }
                _ => continue,
            };
            planned.push(Planned {
                dirty: index,
                payload: start..bytes.len(),
                replaces,
                graves: first_grave..graves.len(),
            });
        }
        (planned, too_long)
    }

    /// Remembers where the log keeps what it got.
    fn settle_positions(&mut self, planned: &[Planned], positions: &[Position]) {
        for (planned, position) in planned.iter().zip(positions) {
            let Some(dirty) = self.changes.dirty.get(planned.dirty) else {
                continue;
            };
            let shard = self.keyspace.shard_mut(dirty.shard);
            let Some(entry) = shard.get_mut(dirty.database, &dirty.key) else {
                continue;
            };
            match (&dirty.change, entry) {
                (None, entry) => entry.set_position(Some(*position)),
                (Some(_), Entry::Object(object)) => {
                    object.changes.push(*position);
                    object.changes_bytes += planned.payload.len() as u64;
                }
                (Some(_), Entry::Text(_)) => {}
            }
        }
        let dirty = std::mem::take(&mut self.changes.dirty);
        for dirty in dirty.iter().filter(|dirty| dirty.change.is_some()) {
            let shard = self.keyspace.shard_mut(dirty.shard);
            if let Some(entry) = shard.get_mut(dirty.database, &dirty.key) {
                entry.set_flag(Flags::CHANGED, false);
            }
        }
    }

    /// After a refusal: all that was changed is logged as a whole next time.
    fn keep_for_later(&mut self) {
        for dirty in &mut self.changes.dirty {
            dirty.change = None;
            let shard = self.keyspace.shard_mut(dirty.shard);
            if let Some(entry) = shard.get_mut(dirty.database, &dirty.key) {
                entry.set_flag(Flags::WHOLE, true);
                entry.set_flag(Flags::CHANGED, false);
            }
        }
    }
}

/// The record of a whole entry.
fn push_whole(bytes: &mut Vec<u8>, database: u8, entry: &Entry) {
    let expires = entry.expires_ms();
    match (entry.as_text(), entry.as_value()) {
        (Some(text), _) => {
            record::begin(bytes, Kind::Text, database, expires, entry.key());
            bytes.extend_from_slice(text);
        }
        (None, Some(value)) => {
            record::begin(bytes, Kind::Object, database, expires, entry.key());
            value.encode(bytes);
        }
        (None, None) => {}
    }
}
