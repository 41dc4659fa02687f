//! New files made of parts of old ones.

use super::lister::Wanted;
use super::{Main, plain, say};
use crate::chunks::is_average;
use crate::content::{read_range, sums_of};
use crate::error::TransferError;
use crate::message::{Index, LISTS_AHEAD, PAGE_BYTES, Piece, RANGE_BYTES, ToSender, Want};
use std::sync::Arc;

impl Main<'_> {
    /// Has the chunks of an old file listed.
    pub(super) fn list(&mut self, index: Index, average: u32) -> Result<(), TransferError> {
        let (entry, _, want) = self.wanted(index)?;
        let has_old = matches!(want, Want::Content { old: 1.., .. });
        let again = self.olds.contains_key(&index) || self.olds.len() >= LISTS_AHEAD;
        if !has_old || again || !is_average(average) {
            return Err(TransferError::Violation("a list that is not to be had"));
        }
        let path = entry.path.clone();
        let there = self.root.file(&path).ok();
        self.root.forget();
        let there = there.and_then(|file| plain(&file).map(|(bytes, _)| (Arc::new(file), bytes)));
        let Some((file, bytes)) = there else {
            let none = ToSender::Chunks {
                index,
                chunks: Vec::new(),
                last: true,
            };
            return say(self.channel, self.clock, self.settings, &none);
        };
        // The sender was told how long it was: the list has no more.
        let bytes = match want {
            Want::Content { old, .. } => bytes.min(old),
            _ => bytes,
        };
        self.olds.insert(index, (file.clone(), bytes));
        let wanted = Wanted {
            index,
            file,
            bytes,
            average,
        };
        let sent = self.lists.send(wanted);
        sent.map_err(|_| TransferError::Violation("the lister has ended"))
    }

    /// Makes a range of what was sent and of what the old file has, and finds the pages that are
    /// not what they should be: the old file was written to since it was listed, or has rotted.
    pub(super) fn mixed(
        &self,
        index: Index,
        offset: u64,
        sums: &[u32],
        pieces: &[Piece],
        mut sent: &[u8],
    ) -> Result<(Vec<u8>, Vec<u64>), TransferError> {
        const WRONG: TransferError = TransferError::Violation("pieces that make no range");
        let length: u64 = pieces.iter().map(|piece| u64::from(piece.bytes())).sum();
        let fits = usize::try_from(length)
            .ok()
            .filter(|it| *it <= RANGE_BYTES && *it > 0);
        let length = fits.ok_or(WRONG)?;
        if sums.len() != length.div_ceil(PAGE_BYTES) {
            return Err(WRONG);
        }
        let mut bytes = vec![0; length];
        let mut rest = &mut bytes[..];
        for piece in pieces {
            let room;
            (room, rest) = rest
                .split_at_mut_checked(piece.bytes() as usize)
                .ok_or(WRONG)?;
            match piece {
                Piece::Sent(_) => {
                    let new;
                    (new, sent) = sent.split_at_checked(room.len()).ok_or(WRONG)?;
                    room.copy_from_slice(new);
                }
                Piece::Old { from, .. } => {
                    let (file, old) = self.olds.get(&index).ok_or(WRONG)?;
                    let end = from.checked_add(room.len() as u64);
                    end.filter(|end| end <= old).ok_or(WRONG)?;
                    // What cannot be read has other sums, or is right all the same.
                    let _read = read_range(file, *from, room, false);
                }
            }
        }
        if !sent.is_empty() {
            return Err(WRONG);
        }
        let pages = (offset..).step_by(PAGE_BYTES).zip(sums_of(&bytes));
        let unlike = pages.zip(sums).filter(|((_, found), sum)| found != *sum);
        let unlike = unlike.map(|((page, _), _)| page).collect();
        Ok((bytes, unlike))
    }
}
