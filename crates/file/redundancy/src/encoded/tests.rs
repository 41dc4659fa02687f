//! What the index, the watch and a copy that looks whole do by themselves.

use super::Encoded;
use crate::encoding::{ChunkBytes, StripeId};
use crate::label::{ObjectId, StoreIndex};
use crate::set::SetId;
use crate::store::Node;
use crate::stripes::delayed::{Delayed, LogSite, Options};
use crate::stripes::{Base, Draft, Layout, NamedBases, Site, Slot, Stripe, Stripes};
use env::sim::World;
use env::{Dir as _, Open};
use parity::{Geometry, Shard};
use std::num::NonZeroU64;
use std::sync::Arc;

mod extents;
mod seek;
mod watch;

/// Bytes of a chunk, which is one page here.
const CHUNK: u64 = 4096;
/// Chunks of each file.
const CHUNKS: u32 = 8;
/// The file whose chunks are looked at: its home, and the store that has its other copy.
const FILE: ObjectId = ObjectId(10);
const HOME: StoreIndex = StoreIndex(0);
const OTHER: StoreIndex = StoreIndex(1);

fn home_node() -> Node {
    Node(b"file".as_slice().into())
}

fn other_node() -> Node {
    Node(b"copy of file".as_slice().into())
}

fn id(number: u64) -> StripeId {
    StripeId(NonZeroU64::new(number).expect("not 0"))
}

/// Three simulated stores with stripes of 2+1: shard 0 is a chunk of [`FILE`].
struct Scene {
    stripes: Arc<Stripes>,
    delayed: Arc<Delayed>,
    encoded: Arc<Encoded>,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let world = World::new(seed);
        let dir = |what: &str, store: u8| world.dir(&format!("{what}{store}"));
        let site = |store: u8| {
            let places = filemeta::Places {
                files: world.files(),
                objects: dir("objects", store),
                journal: dir("journal", store),
            };
            let options = filemeta::Options {
                segment_bytes: 64 << 10,
                journal_bytes: 256 << 10,
            };
            let id = filemeta::StoreId(u128::from(store) + 1);
            let notes = filemeta::Store::create(&places, id, c"trusted.hfm", options);
            let base = dir("base", store);
            let length = u64::from(CHUNKS) * CHUNK;
            let file = base.open("file", Open::Create(length)).expect("a file");
            file.sync().expect("syncs");
            let site = Site {
                store: StoreIndex(store),
                shards: dir("shards", store),
                notes: notes.expect("a metadata store"),
                bases: Arc::new(NamedBases(base)),
            };
            (site, Vec::<filemeta::OpenNote>::new())
        };
        let sites: Vec<_> = (0..3).map(site).collect();
        let opened = Stripes::open(SetId(1), sites, env::Rng::new(seed));
        let stripes = Arc::new(opened.expect("opens").0);
        let logs = (0..3).map(|store| LogSite {
            store: StoreIndex(store),
            dir: dir("log", store),
        });
        let opened = Delayed::open(stripes.clone(), logs, Options::new(1000));
        let delayed = Arc::new(opened.expect("opens").0);
        let encoded = Arc::new(Encoded::default());
        encoded.set_layers(stripes.clone(), delayed.clone());
        Scene {
            stripes,
            delayed,
            encoded,
        }
    }

    /// Encodes a chunk of the file; the stripe's number is one more than the chunk's.
    fn encode(&self, chunk: u32) -> Arc<Stripe> {
        let data = |store, object| Slot::Data {
            store,
            object,
            chunk,
        };
        let layout = Layout {
            geometry: Geometry::new(2, 1).expect("a code"),
            chunk: ChunkBytes::new(CHUNK).expect("a chunk"),
            slots: vec![
                data(HOME, FILE),
                data(OTHER, ObjectId(20)),
                Slot::Parity {
                    store: StoreIndex(2),
                },
            ],
        };
        let base = |copies| Base {
            node: home_node(),
            offset: u64::from(chunk) * CHUNK,
            copies,
        };
        let bases = [
            (Shard(0), base(vec![(OTHER, other_node())])),
            (Shard(1), base(Vec::new())),
        ];
        let id = id(u64::from(chunk) + 1);
        let draft = Draft {
            id,
            layout,
            bases: bases.to_vec(),
        };
        let prepared = self.stripes.prepare([draft]).expect("prepares");
        let mut stands = prepared.activate(|_| true).expect("stands");
        let stripe = stands.pop().expect("a stripe");
        self.encoded.add(&stripe);
        stripe
    }

    /// Something of a chunk is in differentials.
    fn differ(&self, chunk: u32) {
        let id = id(u64::from(chunk) + 1);
        let written = self.delayed.write(id, Shard(0), 7, b"new");
        written.expect("writes");
    }
}
