//! The shard file: layout in docs/formats/shard.md.

use super::site::Pages;
use super::{PAGE_BYTES, Result, Site, Stripe, StripeError};
use crate::encoding::{ChunkBytes, ChunkId, ChunkIndex, StripeId};
use crate::label::{ObjectId, StoreIndex, StoreMask};
use crate::set::SetId;
use crate::store::{FILL_BYTES, Node};
use codec::{Corruption, Identity, open_object, page_sum, seal_object, split_object};
use env::{Disk, Open};
use parity::{Geometry, Role, Shard};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Bytes from the start of a shard file with its whole header, whatever the version.
pub(super) const HEADER_BYTES: u64 = 4096;

/// Bytes that a header may have at least, in a file that keeps it beside the checksums.
const HEADER_ROOM: u64 = 3072;

/// What is written as a whole.
const SECTOR_BYTES: u64 = 512;

/// How a shard file is laid out, which is the version of its format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Form {
    /// Version 1: header and checksums have blocks of their own.
    Apart,
    /// Version 2: they share the blocks before the parity.
    #[default]
    Together,
}

impl Form {
    pub(super) fn version(self) -> u16 {
        match self {
            Form::Apart => 1,
            Form::Together => 2,
        }
    }

    fn of_version(version: u16) -> Option<Form> {
        [Form::Apart, Form::Together]
            .into_iter()
            .find(|form| form.version() == version)
    }

    /// Bytes of the header with its padding; nothing else lies in these sectors.
    pub(super) fn header_bytes(self, layout: &Layout) -> u64 {
        match self {
            Form::Apart => HEADER_BYTES,
            Form::Together => {
                let room = self.sums_offset(layout) / SECTOR_BYTES * SECTOR_BYTES;
                room.min(HEADER_BYTES)
            }
        }
    }

    /// Where the checksums begin.
    pub(super) fn sums_offset(self, layout: &Layout) -> u64 {
        match self {
            Form::Apart => HEADER_BYTES,
            Form::Together => self.data_offset(layout) - layout.sums_bytes(),
        }
    }

    /// Where the parity begins: the bytes of header and checksums.
    pub(super) fn data_offset(self, layout: &Layout) -> u64 {
        let block = PAGE_BYTES as u64;
        match self {
            Form::Apart => HEADER_BYTES + layout.sums_bytes().next_multiple_of(block),
            Form::Together => (HEADER_ROOM + layout.sums_bytes()).next_multiple_of(block),
        }
    }
}

/// Bytes of the checksum of one page.
const SUM_BYTES: u64 = 4;

/// What one place of a stripe holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Slot {
    /// A chunk of a file.
    Data {
        /// The store with the base, the file's home.
        store: StoreIndex,
        /// The file.
        object: ObjectId,
        /// Which of its chunks.
        chunk: u32,
    },
    /// Nothing, which counts as zeros.
    Vacant,
    /// Parity.
    Parity {
        /// The store with the bytes.
        store: StoreIndex,
    },
}

impl Slot {
    /// The store that has the shard.
    pub fn store(self) -> Option<StoreIndex> {
        match self {
            Slot::Data { store, .. } | Slot::Parity { store } => Some(store),
            Slot::Vacant => None,
        }
    }

    /// The chunk, of a data shard.
    pub fn chunk(self) -> Option<ChunkId> {
        match self {
            Slot::Data { object, chunk, .. } => Some(ChunkId {
                object,
                index: ChunkIndex(chunk),
            }),
            _ => None,
        }
    }
}

/// Which shard of a stripe is where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Data and parity shards.
    pub geometry: Geometry,
    /// Bytes of each.
    pub chunk: ChunkBytes,
    /// One for each shard, in order.
    pub slots: Vec<Slot>,
}

impl Layout {
    /// Holds a layout against its own numbers: one slot for each shard, of its role, on different
    /// stores, with at least one chunk.
    ///
    /// # Errors
    /// [`StripeError::Misuse`].
    pub fn check(&self) -> Result<()> {
        if self.slots.len() != usize::from(self.geometry.shards()) {
            return Err(StripeError::Misuse("a layout needs a slot for each shard"));
        }
        let mut stores = StoreMask::default();
        for (shard, slot) in self.shards() {
            let fits = match self.geometry.role(shard) {
                Ok(Role::Data(_)) => matches!(slot, Slot::Data { .. } | Slot::Vacant),
                Ok(Role::Parity(_)) => matches!(slot, Slot::Parity { .. }),
                Err(_) => false,
            };
            if !fits {
                return Err(StripeError::Misuse("data comes first, then parity"));
            }
            let Some(store) = slot.store() else { continue };
            if store.0 >= 64 || stores.has(store) {
                return Err(StripeError::Misuse("two shards of a stripe on one store"));
            }
            stores = stores.with(store);
        }
        if !self.slots.iter().any(|slot| slot.chunk().is_some()) {
            return Err(StripeError::Misuse("a stripe of nothing"));
        }
        Ok(())
    }

    /// Each shard with its slot.
    pub fn shards(&self) -> impl DoubleEndedIterator<Item = (Shard, Slot)> {
        (0u8..=u8::MAX)
            .zip(&self.slots)
            .map(|(n, slot)| (Shard(n), *slot))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Stores with a shard.
    pub fn stores(&self) -> StoreMask {
        let stores = self.slots.iter().filter_map(|slot| slot.store());
        stores.fold(StoreMask::default(), StoreMask::with)
    }

    /// The slot of a shard.
    pub(super) fn slot(&self, shard: Shard) -> Result<Slot> {
        let slot = self.slots.get(usize::from(shard.0)).copied();
        slot.ok_or(StripeError::Misuse("no such shard"))
    }

    /// Pages of a shard.
    pub fn pages(&self) -> u32 {
        (self.chunk.get() / PAGE_BYTES as u64) as u32
    }

    pub(super) fn all_pages(&self) -> Pages {
        Pages {
            first: 0,
            count: self.pages(),
        }
    }

    fn sums_bytes(&self) -> u64 {
        u64::from(self.pages()) * SUM_BYTES
    }
}

/// Where a base lies on its store, and where the copies are that the stripe stands for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Base {
    /// The store's own reference to the file.
    pub node: Node,
    /// Where in it the base begins.
    pub offset: u64,
    /// The file's other copies: store, and its own reference.
    pub copies: Vec<(StoreIndex, Node)>,
}

/// The bases of a stripe by data shard.
pub(super) type BaseMap = BTreeMap<u8, Base>;

/// The header of a shard file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) form: Form,
    pub(super) stripe: StripeId,
    pub(super) shard: Shard,
    pub(super) layout: Layout,
    pub(super) bases: BaseMap,
}

/// The payload, in postcard's encoding. The order of fields is the format.
#[derive(Serialize, Deserialize)]
struct Payload {
    data: u8,
    parity: u8,
    chunk_bytes: u64,
    shard: u8,
    slots: Vec<Slot>,
    bases: BaseMap,
}

/// What a page checksum and a header carry of a stripe.
pub(super) fn identity(set: SetId, stripe: StripeId, shard: Shard) -> Identity {
    Identity {
        set: set.0.to_le_bytes(),
        object: stripe.0.get(),
        generation: shard.0.into(),
    }
}

impl Header {
    pub(super) fn encode(&self, set: SetId) -> Result<Vec<u8>> {
        let payload = Payload {
            data: self.layout.geometry.data(),
            parity: self.layout.geometry.parity(),
            chunk_bytes: self.layout.chunk.get(),
            shard: self.shard.0,
            slots: self.layout.slots.clone(),
            bases: self.bases.clone(),
        };
        let payload = postcard::to_allocvec(&payload)
            .map_err(|_| StripeError::Misuse("a layout that cannot be written"))?;
        let identity = identity(set, self.stripe, self.shard);
        let mut bytes = seal_object(codec::kind::SHARD, self.form.version(), &identity, &payload);
        let room = self.form.header_bytes(&self.layout);
        if bytes.len() as u64 > room {
            return Err(StripeError::Misuse(
                "a layout that is too long for a header",
            ));
        }
        bytes.resize(room as usize, 0);
        Ok(bytes)
    }

    pub(super) fn decode(
        bytes: &[u8],
        set: Option<SetId>,
    ) -> core::result::Result<Header, Corruption> {
        let wrong = |what, expected, found| Corruption {
            what,
            offset: codec::OBJECT_HEADER_BYTES as u64,
            expected,
            found,
        };
        let (object, behind) = split_object(bytes)?;
        let end = object.len() as u64;
        let object = open_object(object, codec::kind::SHARD, None)?;
        let newest = Form::default().version();
        let form = Form::of_version(object.version).ok_or(wrong(
            "version of a shard",
            newest.into(),
            object.version.into(),
        ))?;
        let found = object.identity;
        let payload: Payload = match postcard::take_from_bytes(object.payload) {
            Ok((payload, [])) => payload,
            _ => return Err(wrong("header of a shard", 1, 0)),
        };
        let stripe = NonZeroU64::new(found.object).ok_or(wrong("number of a stripe", 1, 0))?;
        let geometry = Geometry::new(payload.data, payload.parity)
            .map_err(|_| wrong("data shards", 1, payload.data.into()))?;
        let chunk = ChunkBytes::new(payload.chunk_bytes)
            .map_err(|_| wrong("bytes of a chunk", 0, payload.chunk_bytes))?;
        let header = Header {
            form,
            stripe: StripeId(stripe),
            shard: Shard(payload.shard),
            layout: Layout {
                geometry,
                chunk,
                slots: payload.slots,
            },
            bases: payload.bases,
        };
        let set = set.map_or(found.set, |set| set.0.to_le_bytes());
        let expected = Identity {
            set,
            object: stripe.get(),
            generation: payload.shard.into(),
        };
        if found != expected {
            return Err(wrong(
                "set of a shard",
                u64::from(set[0]),
                u64::from(found.set[0]),
            ));
        }
        let room = form.header_bytes(&header.layout).saturating_sub(end);
        let padding = behind.iter().take(room as usize);
        if let Some((at, byte)) = padding.enumerate().find(|(_, byte)| **byte != 0) {
            return Err(Corruption {
                what: "padding after the payload",
                offset: end + at as u64,
                expected: 0,
                found: (*byte).into(),
            });
        }
        if header.layout.check().is_err() {
            return Err(wrong("layout of a stripe", 1, 0));
        }
        header.layout.slot(header.shard).map_err(|_| {
            let shards = u64::from(header.layout.geometry.shards());
            wrong("number of a shard", shards - 1, header.shard.0.into())
        })?;
        let holders = header.layout.shards().filter_map(|(shard, slot)| {
            let store = slot.chunk().and(slot.store())?;
            Some((shard.0, store))
        });
        let holders: BTreeMap<u8, StoreIndex> = holders.collect();
        if !header.bases.keys().eq(holders.keys()) {
            let (expected, found) = (holders.len() as u64, header.bases.len() as u64);
            return Err(wrong("bases of data shards", expected, found));
        }
        for (base, store) in header.bases.values().zip(holders.values()) {
            let mut seen = StoreMask::only(*store);
            for (copy, _) in &base.copies {
                if copy.0 >= 64 || seen.has(*copy) {
                    return Err(wrong("store of a copy", 0, copy.0.into()));
                }
                seen = seen.with(*copy);
            }
        }
        Ok(header)
    }
}

/// Name of a shard file.
pub(super) fn name(stripe: StripeId, shard: Shard) -> String {
    format!("{:016x}-{:02x}", stripe.0, shard.0)
}

/// Name of one that is being made.
pub(super) fn new_name(stripe: StripeId, shard: Shard) -> String {
    format!("{}{NEW}", name(stripe, shard))
}

const NEW: &str = ".new";

/// Name of a shard of a standing stripe that is being made again. What a crash leaves under it
/// counts for nothing.
pub(super) fn rebuilt_name(stripe: StripeId, shard: Shard) -> String {
    format!("{}{REBUILT}", name(stripe, shard))
}

pub(super) const REBUILT: &str = ".rebuilt";

/// What a name says: stripe, shard, and whether it is finished. `None` for a file of another kind.
pub(super) fn parse(file: &str) -> Option<(StripeId, Shard, bool)> {
    let (stem, finished) = match file.strip_suffix(NEW) {
        Some(stem) => (stem, false),
        None => (file, true),
    };
    let (stripe, shard) = stem.split_once('-')?;
    let stripe = NonZeroU64::new(u64::from_str_radix(stripe, 16).ok()?)?;
    let shard = Shard(u8::from_str_radix(shard, 16).ok()?);
    let stripe = StripeId(stripe);
    (name(stripe, shard) == stem).then_some((stripe, shard, finished))
}

/// An open shard: its file, and what holds its bytes.
pub(super) struct OpenShard {
    pub(super) shard: Shard,
    pub(super) store: StoreIndex,
    identity: Identity,
    sums_offset: u64,
    data_offset: u64,
    disk: Arc<dyn Disk>,
    base: Option<(Arc<dyn Disk>, u64)>,
}

impl OpenShard {
    /// Opens a shard of a stripe that stands.
    pub(super) fn open(
        set: SetId,
        site: &Site,
        stripe: &Stripe,
        shard: Shard,
    ) -> Result<OpenShard> {
        let file = name(stripe.id, shard);
        OpenShard::open_as(set, site, stripe, shard, &file)
    }

    pub(super) fn open_as(
        set: SetId,
        site: &Site,
        stripe: &Stripe,
        shard: Shard,
        file: &str,
    ) -> Result<OpenShard> {
        let (layout, form) = (&stripe.layout, stripe.form);
        let io = |doing| StripeError::io(site.store, doing);
        let disk = site.shards.open(file, Open::Write);
        let disk = disk.map_err(io("opening a shard"))?;
        let base = match (layout.slot(shard)?, stripe.base(shard)) {
            (Slot::Data { .. }, Some(base)) => {
                let opened = site.bases.open(base);
                Some((opened.map_err(io("opening a base"))?, base.offset))
            }
            (Slot::Data { .. }, None) => {
                return Err(StripeError::Misuse("a base that is not known"));
            }
            _ => None,
        };
        Ok(OpenShard {
            shard,
            store: site.store,
            identity: identity(set, stripe.id, shard),
            sums_offset: form.sums_offset(layout),
            data_offset: form.data_offset(layout),
            disk,
            base,
        })
    }

    /// Reads the bytes of some pages, whatever they are.
    pub(super) fn read(&self, pages: Pages) -> Result<Vec<u8>> {
        let mut buffer = vec![0; pages.bytes()];
        let read = match &self.base {
            Some((file, base)) => file.read_at(base + pages.offset(), &mut buffer),
            None => self
                .disk
                .read_at(self.data_offset + pages.offset(), &mut buffer),
        };
        read.map_err(StripeError::io(self.store, "reading a shard"))?;
        Ok(buffer)
    }

    /// The checksums of some pages.
    pub(super) fn sums(&self, pages: Pages) -> Result<Vec<u32>> {
        let mut bytes = vec![0; pages.count as usize * SUM_BYTES as usize];
        let at = self.sums_offset + u64::from(pages.first) * SUM_BYTES;
        let read = self.disk.read_at(at, &mut bytes);
        read.map_err(StripeError::io(self.store, "reading checksums"))?;
        let sums = bytes.chunks_exact(4);
        Ok(sums
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect())
    }

    /// The checksum that a page with these bytes gets.
    pub(super) fn sum_of(&self, page: u32, bytes: &[u8]) -> u32 {
        page_sum(&self.identity, page.into(), bytes)
    }

    /// Which pages are what they were sealed as.
    pub(super) fn right(&self, pages: Pages, bytes: &[u8]) -> Result<Vec<bool>> {
        let sums = self.sums(pages)?;
        let right = pages.iter().zip(sums).zip(bytes.chunks(PAGE_BYTES));
        Ok(right
            .map(|((page, sum), bytes)| self.sum_of(page, bytes) == sum)
            .collect())
    }

    /// Writes a page in place, and its checksum.
    pub(super) fn write(&self, page: u32, bytes: &[u8]) -> Result<()> {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let written = match &self.base {
            Some((file, base)) => file.write_at(base + offset, bytes),
            None => self.disk.write_at(self.data_offset + offset, bytes),
        };
        written.map_err(StripeError::io(self.store, "writing a shard"))?;
        self.write_sums(page, &[self.sum_of(page, bytes)])
    }

    /// Writes the checksums of pages with these bytes.
    pub(super) fn seal(&self, pages: Pages, bytes: &[u8]) -> Result<()> {
        let sums = pages.iter().zip(bytes.chunks(PAGE_BYTES));
        let sums: Vec<u32> = sums.map(|(page, bytes)| self.sum_of(page, bytes)).collect();
        self.write_sums(pages.first, &sums)
    }

    /// Writes checksums from a page on.
    fn write_sums(&self, first: u32, sums: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let at = self.sums_offset + u64::from(first) * SUM_BYTES;
        let written = self.disk.write_at(at, &bytes);
        written.map_err(StripeError::io(self.store, "writing checksums"))
    }

    /// Writes parity without a checksum: those follow by [`OpenShard::seal`].
    pub(super) fn write_parity(&self, pages: Pages, bytes: &[u8]) -> Result<()> {
        let written = self.disk.write_at(self.data_offset + pages.offset(), bytes);
        written.map_err(StripeError::io(self.store, "writing parity"))
    }

    /// Makes pages what they are to be, where they are not, and seals them; the bytes written.
    pub(super) fn rewrite(&self, pages: Pages, bytes: &[u8]) -> Result<u64> {
        let mut written = 0;
        if self.read(pages).ok().as_deref() != Some(bytes) {
            written = bytes.len() as u64;
            match &self.base {
                Some((file, base)) => {
                    let mut at = base + pages.offset();
                    for piece in bytes.chunks(FILL_BYTES) {
                        let done = file.write_at(at, piece);
                        done.map_err(StripeError::io(self.store, "writing a base"))?;
                        at += piece.len() as u64;
                    }
                }
                None => self.write_parity(pages, bytes)?,
            }
        }
        self.seal(pages, bytes)?;
        Ok(written)
    }

    /// Has it go on its way to the medium.
    pub(super) fn start_sync(&self) {
        if let Some((file, _)) = &self.base {
            file.start_sync();
        }
        self.disk.start_sync();
    }

    /// Makes it durable.
    pub(super) fn sync(&self) -> Result<()> {
        if let Some((file, _)) = &self.base {
            file.sync()
                .map_err(StripeError::io(self.store, "syncing a base"))?;
        }
        self.disk
            .sync()
            .map_err(StripeError::io(self.store, "syncing a shard"))
    }
}
