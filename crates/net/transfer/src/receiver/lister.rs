//! The chunks of old files, for senders that look for parts of new ones in them.

use crate::chunks::{CHUNKS_A_MESSAGE, Chunk, Cutter, hash};
use crate::content::{next_data, read_range};
use crate::error::TransferError;
use crate::message::{Index, RANGE_BYTES};
use env::errno::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A list that is wanted.
pub(super) struct Wanted {
    pub(super) index: Index,
    pub(super) file: Arc<OwnedFd>,
    /// The file's length.
    pub(super) bytes: u64,
    pub(super) average: u32,
}

impl Wanted {
    /// Reads the file once, and hands over its chunks as it comes to them; the last with `true`.
    /// What cannot be read is not in the list.
    pub(super) fn list(
        &self,
        mut hand_over: impl FnMut(Vec<Chunk>, bool) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let cutter = Cutter::new(self.average);
        let (mut chunks, mut at) = (Vec::new(), 0);
        // What is mapped or written by others meanwhile is another matter: the sums of pages tell.
        while let Ok(Some((start, end))) = next_data(&self.file, at, self.bytes) {
            let mut reading = Reading {
                buffer: VecDeque::new(),
                at: start,
                end,
            };
            while let Ok(Some(chunk)) = reading.next(&self.file, cutter) {
                chunks.push(chunk);
                if chunks.len() == CHUNKS_A_MESSAGE {
                    hand_over(std::mem::take(&mut chunks), false)?;
                }
            }
            if reading.at < end {
                break;
            }
            at = end;
        }
        hand_over(chunks, true)
    }
}

struct Reading {
    buffer: VecDeque<u8>,
    /// Where the buffer begins in the file.
    at: u64,
    end: u64,
}

impl Reading {
    fn next(&mut self, file: &OwnedFd, cutter: Cutter) -> Result<Option<Chunk>, Errno> {
        loop {
            let known = self.at + self.buffer.len() as u64;
            let bytes = self.buffer.make_contiguous();
            if let Some(length) = cutter.first(bytes, known >= self.end) {
                let chunk = Chunk {
                    offset: self.at,
                    bytes: u32::try_from(length).unwrap_or(u32::MAX),
                    hash: hash(bytes.get(..length).unwrap_or_default()),
                };
                self.buffer.drain(..length);
                self.at += length as u64;
                return Ok(Some(chunk));
            }
            let more = RANGE_BYTES.max(cutter.longest()) as u64;
            let more = more.min(self.end.saturating_sub(known)) as usize;
            if more == 0 {
                return Ok(None);
            }
            let mut piece = vec![0; more];
            if read_range(file, known, &mut piece, false)? < more {
                return Err(Errno::IO);
            }
            self.buffer.extend(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn chunks(file: File, bytes: u64) -> Vec<Chunk> {
        let wanted = Wanted {
            index: 0,
            file: Arc::new(file.into()),
            bytes,
            average: 16 << 10,
        };
        let (mut all, mut ended) = (Vec::new(), 0);
        let listed = wanted.list(|chunks, last| {
            assert!(ended == 0 && (last || chunks.len() == CHUNKS_A_MESSAGE));
            all.extend(chunks);
            ended += usize::from(last);
            Ok(())
        });
        assert_eq!((listed, ended), (Ok(()), 1));
        all
    }

    #[test]
    fn all_data_is_in_chunks_and_holes_are_not() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("file");
        let file = File::create_new(&path).unwrap();
        let mut noise = vec![0; 300_000];
        env::Rng::new(1).fill(&mut noise);
        file.set_len(80 << 20).unwrap();
        file.write_all_at(&noise, 0).unwrap();
        file.write_all_at(&noise, 64 << 20).unwrap();
        let found = chunks(File::open(&path).unwrap(), 80 << 20);
        let mut at = 0;
        for chunk in &found {
            assert!(chunk.offset >= at);
            at = chunk.offset + u64::from(chunk.bytes);
            let mut bytes = vec![0; chunk.bytes as usize];
            file.read_exact_at(&mut bytes, chunk.offset).unwrap();
            assert_eq!(chunk.hash, hash(&bytes));
        }
        let covered: u64 = found.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        assert!((600_000..2 << 20).contains(&covered), "{covered}");
    }

    #[test]
    fn a_file_that_has_become_shorter_has_a_list_that_ends_early() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![3; 100_000]).unwrap();
        assert!(chunks(File::open(&path).unwrap(), 5 << 20).len() < 20);
    }
}
