//! What a simulated file holds: now, on the medium, and the edits in between.

use super::rng::Choose;
use env::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Unit of the page cache, bytes.
pub(super) const PAGE: u64 = 4096;
/// What a medium writes whole, bytes.
pub(super) const SECTOR: u64 = 512;

type Page = Arc<[u8; PAGE as usize]>;

/// Content at one moment: pages that are absent are holes.
#[derive(Clone, Default, Debug)]
pub(super) struct Image {
    pub(super) pages: BTreeMap<u64, Page>,
    pub(super) size: u64,
}

/// One change of content.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    Write {
        offset: u64,
        data: Arc<[u8]>,
    },
    Truncate(u64),
    Zero {
        offset: u64,
        length: u64,
    },
    Reserve {
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    Collapse {
        offset: u64,
        length: u64,
    },
    Insert {
        offset: u64,
        length: u64,
    },
}

/// What becomes of an edit that the file system has acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It reaches the medium with the next sync.
    Whole,
    /// It never does.
    Lost,
    /// Only its first sectors do.
    Torn(u64),
}

#[derive(Clone, Debug)]
struct Pending {
    edit: Edit,
    fate: Fate,
    /// The journal transaction that carries it; plain writes have none.
    transaction: Option<u64>,
    size_before: u64,
    size_after: u64,
}

/// A file's content with its history since the last sync.
#[derive(Clone, Default, Debug)]
pub(super) struct Content {
    pub(super) now: Image,
    durable: Image,
    pending: Vec<Pending>,
}

impl Image {
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let length = (buffer.len() as u64).min(self.size.saturating_sub(offset)) as usize;
        each_piece(offset, length as u64, PAGE, |page, within, at, count| {
            let target = &mut buffer[at..at + count];
            match self.pages.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[within..within + count]),
                None => target.fill(0),
            }
        });
        length
    }

    fn put(&mut self, offset: u64, data: &[u8]) {
        each_piece(
            offset,
            data.len() as u64,
            PAGE,
            |page, within, at, count| {
                let bytes = self
                    .pages
                    .entry(page)
                    .or_insert_with(|| Arc::new([0; PAGE as usize]));
                Arc::make_mut(bytes)[within..within + count].copy_from_slice(&data[at..at + count]);
            },
        );
    }

    fn zero(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let touched: Vec<u64> = self
            .pages
            .range(offset / PAGE..end.div_ceil(PAGE))
            .map(|(page, _)| *page)
            .collect();
        for page in touched {
            let start = page * PAGE;
            if offset <= start && start + PAGE <= end {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                let from = offset.max(start) - start;
                let to = end.min(start + PAGE) - start;
                Arc::make_mut(bytes)[from as usize..to as usize].fill(0);
            }
        }
    }

    fn shift(&mut self, from_page: u64, by: i64) {
        let tail = self.pages.split_off(&from_page);
        for (page, bytes) in tail {
            self.pages.insert(page.saturating_add_signed(by), bytes);
        }
    }

    /// Applies an edit's bytes; the size follows with [`Edit::size`].
    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Write { offset, data } => self.put(*offset, data),
            Edit::Truncate(length) => self.zero(*length, u64::MAX - *length),
            Edit::Zero { offset, length } => self.zero(*offset, *length),
            Edit::Reserve { offset, length, .. } => {
                for page in offset / PAGE..(offset + length).div_ceil(PAGE) {
                    self.pages
                        .entry(page)
                        .or_insert_with(|| Arc::new([0; PAGE as usize]));
                }
            }
            Edit::Collapse { offset, length } => {
                self.zero(*offset, *length);
                self.shift((offset + length) / PAGE, -((length / PAGE) as i64));
            }
            Edit::Insert { offset, length } => self.shift(offset / PAGE, (length / PAGE) as i64),
        }
    }

    /// Next data or hole; `None` past the end.
    pub(super) fn seek(&self, offset: u64, hole: bool) -> Option<u64> {
        if offset >= self.size {
            return None;
        }
        let mut at = offset;
        while at < self.size {
            if self.pages.contains_key(&(at / PAGE)) != hole {
                return Some(at);
            }
            at = (at / PAGE + 1) * PAGE;
        }
        hole.then_some(self.size)
    }
}

impl Edit {
    fn size(&self, size: u64) -> u64 {
        match self {
            Edit::Write { offset, data } => size.max(offset + data.len() as u64),
            Edit::Truncate(length) => *length,
            Edit::Reserve {
                offset,
                length,
                keep_size: false,
            } => size.max(offset + length),
            Edit::Zero { .. } | Edit::Reserve { .. } => size,
            Edit::Collapse { length, .. } => size.saturating_sub(*length),
            Edit::Insert { length, .. } => size + length,
        }
    }

    fn touches(&self, sector: u64) -> bool {
        let (start, end) = match self {
            Edit::Write { offset, data } => (*offset, offset + data.len() as u64),
            Edit::Truncate(length) => (*length, u64::MAX),
            Edit::Zero { offset, length } => (*offset, offset + length),
            Edit::Reserve { .. } => return false,
            Edit::Collapse { offset, .. } | Edit::Insert { offset, .. } => (*offset, u64::MAX),
        };
        start < (sector + 1) * SECTOR && sector * SECTOR < end
    }
}

impl Content {
    /// Applies `edit` to the page cache.
    pub(super) fn edit(&mut self, edit: Edit, transaction: Option<u64>, fate: Fate) {
        let size_before = self.now.size;
        self.now.apply(&edit);
        self.now.size = edit.size(size_before);
        self.pending.push(Pending {
            transaction,
            fate,
            size_before,
            size_after: self.now.size,
            edit,
        });
    }

    /// Whether a data-only sync needs the file system's journal too.
    pub(super) fn needs_journal(&self) -> bool {
        self.pending
            .iter()
            .any(|p| p.transaction.is_some() || p.size_before != p.size_after)
    }

    /// Everything up to now reaches the medium, apart from what is fated not to.
    pub(super) fn sync(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            match (pending.fate, &pending.edit) {
                (Fate::Lost, _) => {}
                (Fate::Torn(sectors), Edit::Write { offset, data }) => {
                    let length = (sectors * SECTOR).min(data.len() as u64) as usize;
                    self.durable.put(*offset, &data[..length]);
                }
                (_, edit) => self.durable.apply(edit),
            }
            self.durable.size = pending.size_after;
        }
    }

    /// A failed sync: the kernel takes the pages for clean, and they never reach the medium.
    pub(super) fn lose_unsynced(&mut self) {
        for pending in &mut self.pending {
            if matches!(pending.edit, Edit::Write { .. }) {
                pending.fate = Fate::Lost;
            }
        }
    }

    /// Flips a bit of the page that holds byte `offset`, in the cache and on the medium.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        let mut flipped = false;
        for image in [&mut self.now, &mut self.durable] {
            if offset < image.size
                && let Some(bytes) = image.pages.get_mut(&(offset / PAGE))
            {
                Arc::make_mut(bytes)[(offset % PAGE) as usize] ^= 1 << (bit % 8);
                flipped = true;
            }
        }
        flipped
    }

    /// Loses power. Journaled edits below transaction `kept` are there, later ones are not;
    /// every sector that plain writes touched holds some state of its own between the last
    /// journaled edit that is there and the first that is not; so does the size.
    pub(super) fn crash(&mut self, kept: u64, rng: &mut Rng) {
        let pending = std::mem::take(&mut self.pending);
        let is_kept = |p: &Pending| p.transaction.is_none_or(|t| t < kept);
        // Sizes first: the cut says how many of the pending edits the size has seen.
        let first_dropped = pending.iter().position(|p| !is_kept(p));
        let limit = first_dropped.unwrap_or(pending.len());
        let floor = pending[..limit]
            .iter()
            .rposition(|p| p.transaction.is_some() && p.size_before != p.size_after)
            .map_or(0, |at| at + 1);
        let cut = rng.between(floor as u64, limit as u64) as usize;
        let mut size = match cut.checked_sub(1).and_then(|last| pending.get(last)) {
            Some(last) => last.size_after,
            None => self.durable.size,
        };
        if cut > floor
            && let Some(last) = pending.get(cut - 1)
            && last.size_after > last.size_before
            && rng.chance(1, 3)
        {
            // Writeback had got through some of the write's pages only.
            let first = last.size_before.next_multiple_of(PAGE);
            let pages = last.size_after.saturating_sub(first) / PAGE;
            size = (first + rng.below(pages + 1) * PAGE).min(last.size_after);
        }
        let mut cuts: BTreeMap<u64, usize> = BTreeMap::new();
        let mut page_cuts: BTreeMap<u64, usize> = BTreeMap::new();
        for (index, p) in pending.iter().enumerate() {
            match &p.edit {
                Edit::Write { offset, data } => {
                    each_piece(
                        *offset,
                        data.len() as u64,
                        SECTOR,
                        |sector, within, at, count| {
                            let cut = *cuts.entry(sector).or_insert_with(|| {
                                let (low, high) = window(&pending, sector, &is_kept);
                                let whole_page =
                                    *page_cuts.entry(sector * SECTOR / PAGE).or_insert_with(|| {
                                        rng.between(0, pending.len() as u64) as usize
                                    });
                                if rng.chance(1, 8) {
                                    rng.between(low as u64, high as u64) as usize
                                } else {
                                    whole_page.clamp(low, high)
                                }
                            });
                            let arrives = match p.fate {
                                Fate::Whole => true,
                                Fate::Lost => false,
                                Fate::Torn(sectors) => (at as u64) < sectors * SECTOR,
                            };
                            if index < cut && arrives {
                                let start = sector * SECTOR + within as u64;
                                self.durable.put(start, &data[at..at + count]);
                            }
                        },
                    );
                }
                edit if is_kept(p) => self.durable.apply(edit),
                _ => {}
            }
        }
        self.durable.apply(&Edit::Truncate(size));
        self.durable.size = size;
        self.now = self.durable.clone();
    }

    /// Drops from the cache what a failed sync has lost: what is read now is what the next sync that
    /// succeeds brings to the medium (Rebello and others, "Can Applications Recover from fsync
    /// Failures?", USENIX ATC 2020, for ext4 and XFS).
    pub(super) fn drop_cache(&mut self) {
        let mut image = self.durable.clone();
        for edit in self.pending.iter().filter(|p| p.fate != Fate::Lost) {
            image.apply(&edit.edit);
        }
        self.now.pages = image.pages;
    }
}

/// How many of the pending edits `sector` has seen: least and most.
fn window(pending: &[Pending], sector: u64, is_kept: &dyn Fn(&Pending) -> bool) -> (usize, usize) {
    let mut low = 0;
    for (index, p) in pending.iter().enumerate() {
        if p.transaction.is_some() && p.edit.touches(sector) {
            if !is_kept(p) {
                return (low, index);
            }
            low = index + 1;
        }
    }
    (low, pending.len())
}

/// Cuts a byte range at multiples of `unit`: unit number, start within the unit, start within
/// the range, bytes.
pub(super) fn each_piece(
    offset: u64,
    length: u64,
    unit: u64,
    mut each: impl FnMut(u64, usize, usize, usize),
) {
    let mut done = 0;
    while done < length {
        let at = offset + done;
        let count = (unit - at % unit).min(length - done);
        each(
            at / unit,
            (at % unit) as usize,
            done as usize,
            count as usize,
        );
        done += count;
    }
}
