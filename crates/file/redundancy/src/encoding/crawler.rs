//! Visits every chunk once a round, a bounded number at a time, and lists how loaded each is.

use super::{ChunkBytes, Counts, Load, ReadWeight, StripeId};
use crate::label::{ObjectId, StoreIndex};
use serde::Serialize;

/// A chunk's place in its file: it begins at this many chunks from the start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct ChunkIndex(pub u32);

/// A chunk of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct ChunkId {
    /// The file.
    pub object: ObjectId,
    /// Which of its chunks.
    pub index: ChunkIndex,
}

/// What the crawler has to know of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileView {
    /// The file.
    pub object: ObjectId,
    /// The store that keeps its data when the copies are given up.
    pub home: StoreIndex,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Where the crawler looks.
pub trait Census {
    /// The file with the least id that is at least `least`.
    fn file_from(&mut self, least: ObjectId) -> Option<FileView>;
    /// What was counted on a chunk since it was last asked for.
    fn take_counts(&mut self, chunk: ChunkId) -> Counts;
    /// The stripe that holds a chunk; `None` while it has copies.
    fn stripe_of(&mut self, chunk: ChunkId) -> Option<StripeId>;
}

/// One chunk that may be encoded, or is: 32 bytes, as in the chunk list of \[F\] section 4.3.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    object: ObjectId,
    /// Its load in the round.
    pub load: Load,
    /// The stripe that holds it; `None` while it has copies.
    pub stripe: Option<StripeId>,
    index: ChunkIndex,
    /// The store that keeps its data.
    pub home: StoreIndex,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    /// An entry.
    pub fn new(chunk: ChunkId, home: StoreIndex, load: Load, stripe: Option<StripeId>) -> Entry {
        Entry {
            object: chunk.object,
            load,
            stripe,
            index: chunk.index,
            home,
        }
    }

    /// The chunk.
    pub fn chunk(&self) -> ChunkId {
        ChunkId {
            object: self.object,
            index: self.index,
        }
    }
}

/// What a round found. Memory: 32 bytes a chunk, 64 MiB for 1 TiB at chunks of 512 KiB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkList {
    /// Bytes of a chunk.
    pub chunk: ChunkBytes,
    /// Every whole chunk.
    pub entries: Vec<Entry>,
    /// Bytes of all files, those too small to encode too: the whole of which R is a share.
    pub bytes_total: u64,
    /// Load of all chunks, the incomplete last ones of files too: the whole of which L is a
    /// share.
    pub load_total: u128,
}

/// How far a round is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to visit.
    More,
    /// Every file has been visited.
    Finished,
}

/// One round over all files, in the order of their ids. It may stop after any step, and files
/// may come, go, grow and shrink between steps: what it has not reached yet it sees as it is
/// then.
#[derive(Debug)]
pub struct Crawler {
    list: ChunkList,
    read_weight: ReadWeight,
    at: Option<Cursor>,
}

/// The next thing to visit.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    object: ObjectId,
    index: u32,
}

impl Crawler {
    /// A round that has visited nothing yet.
    pub fn new(chunk: ChunkBytes, read_weight: ReadWeight) -> Crawler {
        Crawler {
            list: ChunkList {
                chunk,
                entries: Vec::new(),
                bytes_total: 0,
                load_total: 0,
            },
            read_weight,
            at: Some(Cursor {
                object: ObjectId(0),
                index: 0,
            }),
        }
    }

    /// Visits at most `work` chunks, where a file without a whole chunk counts as one.
    pub fn step(&mut self, census: &mut impl Census, work: u32) -> Progress {
        for _ in 0..work {
            let Some(at) = self.at else {
                return Progress::Finished;
            };
            let Some(file) = census.file_from(at.object) else {
                self.at = None;
                return Progress::Finished;
            };
            self.visit(census, file, at);
        }
        Progress::More
    }

    /// The list, once a step has said [`Progress::Finished`]; before that the round goes on.
    ///
    /// # Errors
    /// The crawler itself: it has not finished.
    pub fn finish(self) -> Result<ChunkList, Crawler> {
        match self.at {
            None => Ok(self.list),
            Some(_) => Err(self),
        }
    }

    fn visit(&mut self, census: &mut impl Census, file: FileView, at: Cursor) {
        let index = if file.object == at.object {
            at.index
        } else {
            0
        };
        if index == 0 {
            self.list.bytes_total = self.list.bytes_total.saturating_add(file.bytes);
        }
        let chunk_bytes = self.list.chunk.get();
        // What lies beyond 2^32 chunks keeps its copies.
        let whole = u32::try_from(file.bytes / chunk_bytes).unwrap_or(u32::MAX);
        let chunk = ChunkId {
            object: file.object,
            index: ChunkIndex(index),
        };
        if index < whole {
            let load = self.take(census, chunk);
            let stripe = census.stripe_of(chunk);
            let entry = Entry::new(chunk, file.home, load, stripe);
            self.list.entries.push(entry);
        }
        let next = index.saturating_add(1);
        if next < whole {
            self.at = Some(Cursor {
                object: file.object,
                index: next,
            });
            return;
        }
        if whole > 0 && !file.bytes.is_multiple_of(chunk_bytes) {
            let tail = ChunkId {
                index: ChunkIndex(whole),
                ..chunk
            };
            self.take(census, tail);
        }
        self.at = file.object.0.checked_add(1).map(|next| Cursor {
            object: ObjectId(next),
            index: 0,
        });
    }

    fn take(&mut self, census: &mut impl Census, chunk: ChunkId) -> Load {
        let load = Load::new(census.take_counts(chunk), self.read_weight);
        self.list.load_total = self.list.load_total.saturating_add(u128::from(load.0));
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::FileCounters;
    use std::collections::BTreeMap;

    const CHUNK: u64 = 512 * 1024;

    /// Files with their home, length and counters.
    #[derive(Default)]
    struct Files(BTreeMap<ObjectId, (FileView, FileCounters)>);

    impl Files {
        fn add(&mut self, object: u64, bytes: u64) -> &mut FileCounters {
            let object = ObjectId(object);
            let view = FileView {
                object,
                home: StoreIndex(0),
                bytes,
            };
            &mut self
                .0
                .entry(object)
                .or_insert((view, FileCounters::default()))
                .1
        }
    }

    impl Census for Files {
        fn file_from(&mut self, least: ObjectId) -> Option<FileView> {
            self.0.range(least..).next().map(|(_, (view, _))| *view)
        }
        fn take_counts(&mut self, chunk: ChunkId) -> Counts {
            let file = self.0.get_mut(&chunk.object);
            file.map_or(Counts::NONE, |(_, counters)| counters.take(chunk.index))
        }
        fn stripe_of(&mut self, _: ChunkId) -> Option<StripeId> {
            None
        }
    }

    fn crawler() -> Crawler {
        Crawler::new(ChunkBytes::DEFAULT, ReadWeight::new(1.0).unwrap())
    }

    fn crawl(files: &mut Files, work: u32) -> (ChunkList, u32) {
        let mut crawler = crawler();
        let mut steps = 0;
        while crawler.step(files, work) == Progress::More {
            steps += 1;
        }
        (crawler.finish().expect("finished"), steps)
    }

    fn three_files() -> Files {
        let mut files = Files::default();
        files.add(2, CHUNK - 1).wrote(ChunkIndex(0));
        let counters = files.add(7, 3 * CHUNK + 5);
        counters.wrote(ChunkIndex(1));
        counters.read(ChunkIndex(1));
        counters.wrote(ChunkIndex(3));
        files.add(9, CHUNK);
        files
    }

    #[test]
    fn only_whole_chunks_are_listed_and_everything_counts_into_the_wholes() {
        let (list, _) = crawl(&mut three_files(), 100);
        let found: Vec<(u64, u32, u64)> = list
            .entries
            .iter()
            .map(|entry| (entry.object.0, entry.index.0, entry.load.0))
            .collect();
        assert_eq!(found, [(7, 0, 0), (7, 1, 2_000_000), (7, 2, 0), (9, 0, 0)]);
        assert_eq!(list.bytes_total, CHUNK - 1 + 3 * CHUNK + 5 + CHUNK);
        assert_eq!(list.load_total, 3_000_000, "with the tail of file 7");
    }

    #[test]
    fn any_size_of_step_finds_the_same() {
        let (whole, _) = crawl(&mut three_files(), 100);
        for work in 1..6 {
            let (list, steps) = crawl(&mut three_files(), work);
            assert_eq!(list, whole);
            // Four chunks and the small file are five pieces of work.
            assert_eq!(steps, 5 / work);
        }
    }

    #[test]
    fn a_round_takes_the_counts() {
        let mut files = three_files();
        crawl(&mut files, 3);
        assert_eq!(crawl(&mut files, 3).0.load_total, 0);
    }

    #[test]
    fn files_may_change_between_steps() {
        let mut files = three_files();
        let mut crawler = crawler();
        assert_eq!(crawler.step(&mut files, 2), Progress::More);
        // Visited: file 2 and the first chunk of file 7, which now goes away; 8 is new.
        files.0.remove(&ObjectId(7));
        files.add(8, 2 * CHUNK);
        let crawler = crawler.finish().expect_err("not finished");
        let mut crawler = crawler;
        while crawler.step(&mut files, 1) == Progress::More {}
        let list = crawler.finish().expect("finished");
        let found: Vec<u64> = list.entries.iter().map(|entry| entry.object.0).collect();
        assert_eq!(found, [7, 8, 8, 9]);
    }

    #[test]
    fn the_largest_id_ends_the_round() {
        let mut files = Files::default();
        files.add(u64::MAX, CHUNK);
        let (list, _) = crawl(&mut files, 1);
        assert_eq!(list.entries.len(), 1);
    }
}
