//! A store as stripes see it: where its shards lie, and where the bases are.

use super::Index;
use crate::label::StoreIndex;
use crate::set::SetId;
use crate::store::{Store, StoreFile};
use crate::stripes::delayed::LogSite;
use crate::stripes::{Base, Bases, Site, standing};
use env::errno::{Errno, ErrorKind};
use env::{Dir, Disk};
use filemeta::{MetaError, OpenNote, Options, Places, StoreId};
use mount::AllocateFlags;
use std::sync::Arc;

/// Directory of the shard files below a store's own.
const SHARDS: &str = "shards";
/// Directory of the metadata below a store's own.
const METADATA: &str = "metadata";
/// Directory of the metadata's journal below a store's own.
const METADATA_JOURNAL: &str = "metadata-journal";
/// Directory of the log of differentials below a store's own.
const DIFFERENTIALS: &str = "differentials";
/// Attribute of files that have metadata.
const ATTRIBUTE: &std::ffi::CStr = c"trusted.hfm";

/// The metadata's journal of a store: the notes of merges and little else go through it.
const JOURNAL: Options = Options {
    segment_bytes: 1 << 20,
    journal_bytes: 4 << 20,
};

/// Opens what a store has for stripes, made where it is missing. EUCLEAN where it is damaged.
pub(crate) fn open_site(
    set: SetId,
    index: StoreIndex,
    bare: &Arc<dyn Store>,
) -> env::Result<(Site, Vec<OpenNote>)> {
    let places = Places {
        files: bare.files()?,
        objects: bare.part(METADATA)?,
        journal: bare.part(METADATA_JOURNAL)?,
    };
    let id = StoreId(set.0 ^ u128::from(index.0));
    let errno = |error: MetaError| {
        tracing::warn!(store = index.0, %error, "its metadata cannot be used");
        match error.kind() {
            ErrorKind::Transient => Errno::AGAIN,
            ErrorKind::NoSpace => Errno::NOSPC,
            ErrorKind::Corrupt | ErrorKind::Misuse => Errno::UCLEAN,
            ErrorKind::Fatal => Errno::IO,
        }
    };
    let (notes, open) = match filemeta::Store::open(&places, Some(id), JOURNAL) {
        Ok(opened) => (opened.store, opened.notes),
        Err(MetaError::NoStore) => {
            let made = filemeta::Store::create(&places, id, ATTRIBUTE, JOURNAL);
            (made.map_err(errno)?, Vec::new())
        }
        Err(error) => return Err(errno(error)),
    };
    let site = Site {
        store: index,
        shards: bare.part(SHARDS)?,
        notes,
        bases: Arc::new(StoreBases(bare.clone())),
    };
    Ok((site, open))
}

/// Where a store has its log of differentials.
pub(crate) fn log_site(index: StoreIndex, bare: &Arc<dyn Store>) -> env::Result<LogSite> {
    Ok(LogSite {
        store: index,
        dir: bare.part(DIFFERENTIALS)?,
    })
}

/// Whether a store has had anything to do with stripes.
pub(crate) fn has_site(bare: &Arc<dyn Store>) -> env::Result<bool> {
    bare.has_part(METADATA)
}

/// What is encoded on the stores of a set that does not run; nothing is changed.
pub(crate) fn index_of(set: SetId, stores: &[(StoreIndex, Arc<dyn Store>)]) -> env::Result<Index> {
    let mut parts = Vec::new();
    for (index, store) in stores {
        if store.has_part(SHARDS)? {
            parts.push((*index, store.part(SHARDS)?));
        }
    }
    let dirs = parts.iter().map(|(index, dir)| (*index, &**dir));
    let stand = standing(set, dirs).map_err(|error| {
        tracing::warn!(%error, "the shards of a store cannot be read");
        Errno::IO
    })?;
    let mut index = Index::default();
    stand.iter().for_each(|stripe| index.add(stripe));
    Ok(index)
}

/// Takes away everything that a store has for stripes: what is there is not to be believed.
pub(crate) fn clear_site(bare: &Arc<dyn Store>) -> env::Result<()> {
    clear(bare, &[SHARDS])?;
    clear_notes(bare)
}

/// Takes away what a store has for stripes besides its shards.
pub(crate) fn clear_notes(bare: &Arc<dyn Store>) -> env::Result<()> {
    clear(bare, &[METADATA, METADATA_JOURNAL, DIFFERENTIALS])
}

fn clear(bare: &Arc<dyn Store>, parts: &[&str]) -> env::Result<()> {
    for name in parts {
        let part: Arc<dyn Dir> = bare.part(name)?;
        for file in part.list()? {
            part.remove(&file)?;
        }
        part.sync()?;
    }
    Ok(())
}

/// Bases in the files of a store.
struct StoreBases(Arc<dyn Store>);

impl Bases for StoreBases {
    fn open(&self, base: &Base) -> env::Result<Arc<dyn Disk>> {
        let file = self.0.open(&base.node, true)?;
        // What is read here is cold and read in large pieces. Reading ahead would fill the cache with
        // large folios besides, of which ext4 looks at every block in each small write that follows.
        file.no_read_ahead();
        Ok(Arc::new(BaseFile(file)))
    }
}

/// An open file with a base.
struct BaseFile(Arc<dyn StoreFile>);

impl Disk for BaseFile {
    fn len(&self) -> env::Result<u64> {
        Ok(self.0.attr()?.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        match self.0.read_at(offset, buffer)? {
            got if got == buffer.len() => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> env::Result<()> {
        self.0.write_at(offset, data)
    }

    fn sync(&self) -> env::Result<()> {
        self.0.sync(true)
    }

    fn start_sync(&self) {
        self.0.start_sync();
    }

    fn discard(&self, offset: u64, length: u64) -> env::Result<()> {
        let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
        self.0.allocate(offset, length, punch)
    }
}
