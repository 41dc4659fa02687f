//! Saving: a walk through all entries in slices, while commands run between them. What they change ahead of
//! the walk is written as it was before, so the file has all entries as they were at one moment.

use super::Engine;
use crate::keyspace::DATABASES;
use crate::rdb::{self, Background, Pipe};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use values::rdb::Writer;

/// Entries of a slice at least; more in a large table, because each slice looks at a whole table.
const SLICE_ENTRIES: usize = 256;

/// Slices that a large table has at most, about.
const TABLE_SLICES: usize = 16;

/// Bytes that wait for the disk before the walk does.
const QUEUED_BYTES_MAX: usize = 8 << 20;

/// What a save is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saving {
    /// None is under way.
    No,
    /// It has something to do at once.
    Walking,
    /// It waits for the disk.
    Waiting,
}

/// A save under way.
pub(crate) struct Save {
    background: Background,
    /// Until the walk is at its end.
    file: Option<Writer<Pipe>>,
    /// The database that the file is at.
    selected: Option<u8>,
    /// Where the walk goes on.
    database: u8,
    cursor: u64,
    /// Keys ahead of the walk that it passes over: they were written, or are newer.
    passed: HashSet<(u8, Box<[u8]>)>,
    failed: Option<io::Error>,
    /// When it began, in milliseconds since 1970: what is over then is left out.
    now_ms: u64,
    changes: u64,
}

/// How saves went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Saves {
    pub(crate) count: u64,
    pub(crate) last_failed: bool,
    pub(crate) last_s: Option<u64>,
    /// Of [`crate::Stats::changes`], when the last one began that went well.
    pub(crate) changes: u64,
}

impl Save {
    fn is_behind(&self, database: u8, cursor: u64) -> bool {
        (database, cursor) < (self.database, self.cursor) || self.file.is_none()
    }

    fn select(&mut self, database: u8) -> io::Result<()> {
        if self.selected != Some(database)
            && let Some(file) = &mut self.file
        {
            file.select(database.into())?;
            self.selected = Some(database);
        }
        Ok(())
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
            self.file = None;
        }
    }
}

impl Engine {
    /// The file that a save makes, where there is a place for it.
    fn rdb_path(&self) -> Option<PathBuf> {
        let directory = self.config.directory.as_deref()?;
        Some(Path::new(directory).join(self.config.rdb_name()))
    }

    /// Begins a save.
    pub(crate) fn begin_save(&mut self) -> io::Result<()> {
        let path = self.rdb_path().ok_or(io::ErrorKind::NotFound)?;
        let (background, pipe) = Background::start(&path)?;
        let libraries = self.scripts.libraries.all.values();
        let codes = libraries.map(|library| &library.code[..]);
        let file = rdb::begin(pipe, self.now_ms, codes)?;
        self.save = Some(Box::new(Save {
            background,
            file: Some(file),
            selected: None,
            database: 0,
            cursor: 0,
            passed: HashSet::new(),
            failed: None,
            now_ms: self.now_ms,
            changes: self.stats.changes,
        }));
        Ok(())
    }

    /// Whether a save is under way.
    pub(crate) fn is_saving(&self) -> bool {
        self.save.is_some()
    }

    /// Does a part of the save that is under way. To be called between requests until it says
    /// [`Saving::No`].
    pub fn save_slice(&mut self) -> Saving {
        let Some(mut save) = self.save.take() else {
            return Saving::No;
        };
        if save.file.is_none() {
            return match save.background.ended() {
                Some(result) => {
                    self.end_save(*save, result);
                    Saving::No
                }
                None => {
                    self.save = Some(save);
                    Saving::Waiting
                }
            };
        }
        let saving = match save.background.queued() > QUEUED_BYTES_MAX {
            true => Saving::Waiting,
            false => {
                self.walk(&mut save);
                Saving::Walking
            }
        };
        self.save = Some(save);
        saving
    }

    /// Writes the next entries.
    fn walk(&mut self, save: &mut Save) {
        let database = save.database;
        let largest = self.keyspace.table_len(database, save.cursor);
        let count = SLICE_ENTRIES.max(largest / TABLE_SLICES);
        let mut found = Vec::new();
        let keyspace = &self.keyspace;
        let next = keyspace.scan(database, save.cursor, count, |entry| found.push(entry));
        let mut result = Ok(());
        if !found.is_empty() {
            result = save.select(database);
        }
        for entry in found {
            let place = (database, Box::from(entry.key()));
            if save.passed.remove(&place) || result.is_err() {
                continue;
            }
            if let Some(file) = &mut save.file {
                result = rdb::write_entry(file, entry, save.now_ms).map(|_| ());
            }
        }
        save.note(result);
        save.cursor = next;
        if next == 0 {
            save.database += 1;
            // Nothing of it is ahead any more.
            save.passed.retain(|(ahead, _)| *ahead != database);
        }
        if usize::from(save.database) >= DATABASES
            && let Some(file) = save.file.take()
        {
            let finished = file.finish().map(|pipe| {
                save.background.whole();
                drop(pipe);
            });
            save.note(finished);
        }
    }

    /// An entry is about to be changed, made or removed.
    pub(crate) fn keep(&mut self, database: u8, key: &[u8]) {
        if self.save.is_some() {
            self.keep_in_save(database, key);
        }
    }

    fn keep_in_save(&mut self, database: u8, key: &[u8]) {
        let Some(save) = &mut self.save else {
            return;
        };
        #[cfg(test)]
        if self.forgets {
            return;
        }
        if save.is_behind(database, self.keyspace.cursor_of(key)) {
            return;
        }
        if !save.passed.insert((database, key.into())) {
            return;
        }
        let shard = crate::slot::ShardId::of(key);
        if let Some(entry) = self.keyspace.shard(shard).get(database, key) {
            let mut result = save.select(database);
            if let (Ok(()), Some(file)) = (&result, &mut save.file) {
                result = rdb::write_entry(file, entry, save.now_ms).map(|_| ());
            }
            save.note(result);
        }
    }

    /// Walks to the end at once, before all keys change.
    pub(crate) fn keep_all(&mut self) {
        if let Some(mut save) = self.save.take() {
            while save.file.is_some() {
                self.walk(&mut save);
            }
            self.save = Some(save);
        }
    }

    /// Waits until the save that is under way has ended.
    pub(crate) fn finish_save(&mut self) -> io::Result<()> {
        self.keep_all();
        let Some(save) = self.save.take() else {
            return Ok(());
        };
        let result = save.background.wait();
        let failed = result.as_ref().err().map(io::Error::kind);
        self.end_save(*save, result);
        match failed {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }

    fn end_save(&mut self, save: Save, result: io::Result<()>) {
        self.saves.last_failed = result.is_err() || save.failed.is_some();
        if let (Err(error), _) | (Ok(()), Some(error)) = (result, save.failed) {
            tracing::warn!(%error, "the RDB file was not written; the log has everything");
            return;
        }
        self.saves.count += 1;
        self.saves.changes = save.changes;
        self.saves.last_s = Some(self.now_ms.saturating_sub(save.now_ms) / 1000);
        self.stats.last_save_s = self.now_ms / 1000;
    }
}
