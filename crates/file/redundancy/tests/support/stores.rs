//! Stores on a real file system, with one stripe over all of them.

use env::real::RealDir;
use env::{Dir, Open, Rng};
use filemeta::{MetaError, OpenNote, Options, Places, StoreId};
use parity::{Geometry, Shard};
use redundancy::encoding::{ChunkBytes, StripeId};
use redundancy::label::{ObjectId, StoreIndex, StoreMask};
use redundancy::set::SetId;
use redundancy::store::Node;
use redundancy::stripes::{Base, Draft, Layout, NamedBases, PAGE_BYTES, Site, Slot, Stripes};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;

pub(crate) const CHUNK: u64 = 256 << 10;
pub(crate) const PAGES: u64 = CHUNK / PAGE_BYTES as u64;
pub(crate) const DATA: u8 = 2;
pub(crate) const STORES: u8 = 4;
const SET: SetId = SetId(9);
pub(crate) const ID: StripeId = StripeId(NonZeroU64::MIN);

pub(crate) fn below(root: &Path, store: StoreIndex, name: &str) -> RealDir {
    let store = format!("store{}", store.0);
    let dir = RealDir::open(root).and_then(|root| root.subdirectory(&store));
    dir.and_then(|dir| dir.subdirectory(name))
        .expect("a directory")
}

pub(crate) fn site(root: &Path, store: StoreIndex) -> (Site, Vec<OpenNote>) {
    let options = Options {
        segment_bytes: 1 << 20,
        journal_bytes: 2 << 20,
    };
    let _made = below(root, store, "meta");
    let meta = root.join(format!("store{}", store.0)).join("meta");
    let places = Places::real(&meta).expect("places");
    let id = StoreId(1 + u128::from(store.0));
    let (notes, open) = match filemeta::Store::open(&places, Some(id), options) {
        Ok(opened) => (opened.store, opened.notes),
        Err(MetaError::NoStore) => {
            let made = filemeta::Store::create(&places, id, c"trusted.hfm", options);
            (made.expect("a metadata store"), Vec::new())
        }
        Err(error) => panic!("{error}"),
    };
    let site = Site {
        store,
        shards: Arc::new(below(root, store, "shards")),
        notes,
        bases: Arc::new(NamedBases(Arc::new(below(root, store, "data")))),
    };
    (site, open)
}

pub(crate) fn open(root: &Path, present: StoreMask) -> Stripes {
    let sites = present.iter().map(|store| site(root, store));
    let random = Rng::from_kernel().expect("random bytes");
    let (stripes, report) = Stripes::open(SET, sites, random).expect("opens");
    assert_eq!((report.incomplete.len(), report.damaged.len()), (0, 0));
    stripes
}

pub(crate) fn layout() -> Layout {
    let slots = (0..STORES).map(StoreIndex).map(|store| match store.0 {
        n if n < DATA => Slot::Data {
            store,
            object: ObjectId(10 + u64::from(n)),
            chunk: 0,
        },
        _ => Slot::Parity { store },
    });
    Layout {
        geometry: Geometry::new(DATA, STORES - DATA).expect("a geometry"),
        chunk: ChunkBytes::new(CHUNK).expect("a chunk"),
        slots: slots.collect(),
    }
}

pub(crate) fn all() -> StoreMask {
    StoreMask::first(STORES.into())
}

pub(crate) fn make(root: &Path, content: Vec<Vec<u8>>) {
    for (shard, content) in (0..DATA).zip(content) {
        let dir = below(root, StoreIndex(shard), "data");
        let file = dir.open("file", Open::Create(CHUNK)).expect("a file");
        file.write_at(0, &content).expect("writes");
    }
    let base = Base {
        node: Node(b"file".as_slice().into()),
        offset: 0,
        copies: Vec::new(),
    };
    let bases = (0..DATA).map(|shard| (Shard(shard), base.clone()));
    let draft = Draft {
        id: ID,
        layout: layout(),
        bases: bases.collect(),
    };
    let stripes = open(root, all());
    let prepared = stripes.prepare([draft]).expect("prepares");
    prepared.activate(|_| true).expect("stands");
}

/// Ends the child also when the test fails.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
