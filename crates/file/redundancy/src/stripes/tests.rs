use super::*;
use crate::encoding::ChunkBytes;
use crate::label::{ObjectId, StoreMask};
use crate::store::Node;
use env::sim::World;
use env::{Dir, Open};
use filemeta::{OpenNote, Options, Places, StoreId};
use parity::Geometry;
use std::num::NonZeroU64;

mod attack;
mod crash;
mod rebuild;

/// Bugs that the tests plant to see that they find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Planted {
    #[default]
    Nothing,
    /// A merge writes in place when its parts are noted, before it counts.
    AppliesBeforeCommit,
    /// Each store writes in place as soon as it has noted that the merge counts.
    AppliesAfterFirstCommit,
    /// What was written in place is not synced before the notes are done with.
    ForgetsToSync,
    /// Checksums are not looked at.
    BelievesEveryPage,
    /// A stripe gets its names before its shards are durable.
    MakesUnsynced,
    /// A part that was made anew gets its name before it is durable.
    RebuildsUnsynced,
}

pub(in crate::stripes) const SET: SetId = SetId(0x5e7);
pub(in crate::stripes) const CHUNK: u64 = 64 << 10;
pub(in crate::stripes) const PAGES: u32 = (CHUNK / PAGE_BYTES as u64) as u32;
/// The bases do not begin where their files do.
pub(in crate::stripes) const BASE_AT: u64 = CHUNK;

pub(in crate::stripes) fn id(number: u64) -> StripeId {
    StripeId(NonZeroU64::new(number).expect("not 0"))
}

/// Simulated stores, one for each shard.
pub(in crate::stripes) struct Rig {
    pub(in crate::stripes) world: World,
    pub(in crate::stripes) layout: Layout,
    plant: Planted,
}

pub(in crate::stripes) fn dir(world: &World, what: &str, store: StoreIndex) -> Arc<dyn Dir> {
    world.dir(&format!("{what}{}", store.0))
}

fn base() -> Base {
    Base {
        node: Node(b"file".as_slice().into()),
        offset: BASE_AT,
        copies: Vec::new(),
    }
}

impl Rig {
    pub(in crate::stripes) fn new(world: &World, geometry: Geometry) -> Rig {
        let slots = (0..geometry.shards()).map(|n| {
            let store = StoreIndex(n);
            if n < geometry.data() {
                Slot::Data {
                    store,
                    object: ObjectId(100 + u64::from(n)),
                    chunk: 1,
                }
            } else {
                Slot::Parity { store }
            }
        });
        Rig {
            world: world.clone(),
            layout: Layout {
                geometry,
                chunk: ChunkBytes::new(CHUNK).expect("a chunk"),
                slots: slots.collect(),
            },
            plant: Planted::Nothing,
        }
    }

    pub(in crate::stripes) fn stores(&self) -> StoreMask {
        self.layout.stores()
    }

    pub(in crate::stripes) fn data(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.layout.geometry.data()).map(Shard)
    }

    /// The file with the base of a data shard.
    pub(in crate::stripes) fn base(&self, shard: Shard) -> Arc<dyn env::Disk> {
        let files = dir(&self.world, "base", StoreIndex(shard.0));
        files.open("file", Open::Write).expect("a file")
    }

    fn places(&self, store: StoreIndex) -> Places {
        Places {
            files: self.world.files(),
            objects: dir(&self.world, "objects", store),
            journal: dir(&self.world, "journal", store),
        }
    }

    /// New stores, and files with what the bases are to be.
    pub(in crate::stripes) fn create(&self, content: &[Vec<u8>]) {
        for store in self.stores().iter() {
            let options = small();
            let made = filemeta::Store::create(
                &self.places(store),
                StoreId(1 + u128::from(store.0)),
                c"trusted.hfm",
                options,
            );
            made.expect("a metadata store").close().expect("closes");
        }
        for (shard, content) in self.data().zip(content) {
            let files = dir(&self.world, "base", StoreIndex(shard.0));
            let file = files
                .open("file", Open::Create(BASE_AT + CHUNK))
                .expect("a file");
            file.write_at(BASE_AT, content).expect("writes");
            file.sync().expect("syncs");
            files.sync().expect("syncs");
        }
    }

    pub(in crate::stripes) fn site(
        &self,
        store: StoreIndex,
    ) -> std::result::Result<(Site, Vec<OpenNote>), String> {
        let opened = filemeta::Store::open(&self.places(store), None, small());
        let opened = opened.map_err(|error| format!("store {}: {error}", store.0))?;
        let site = Site {
            store,
            shards: dir(&self.world, "shards", store),
            notes: opened.store,
            bases: Arc::new(NamedBases(dir(&self.world, "base", store))),
        };
        Ok((site, opened.notes))
    }

    pub(in crate::stripes) fn open(
        &self,
        present: StoreMask,
    ) -> std::result::Result<(Stripes, Recovered), String> {
        let sites: std::result::Result<Vec<_>, _> = present.iter().map(|s| self.site(s)).collect();
        let opened = Stripes::open(SET, sites?, env::Rng::new(self.world.rng().next_u64()));
        let (stripes, report) = opened.map_err(|error| error.to_string())?;
        *stripes.planted.lock() = self.plant;
        Ok((stripes, report))
    }

    pub(in crate::stripes) fn prepare<'a>(
        &self,
        stripes: &'a Stripes,
        number: u64,
    ) -> Result<Prepared<'a>> {
        stripes.prepare([self.draft(number)])
    }

    fn draft(&self, number: u64) -> Draft {
        Draft {
            id: id(number),
            layout: self.layout.clone(),
            bases: self.data().map(|shard| (shard, base())).collect(),
        }
    }
}

fn small() -> Options {
    Options {
        segment_bytes: 256 << 10,
        journal_bytes: 1 << 20,
    }
}

pub(in crate::stripes) fn random(rng: &mut env::Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    bytes
}

/// What the bases of a stripe are to be.
#[derive(Clone, PartialEq, Eq)]
struct Content(Vec<Vec<u8>>);

impl Content {
    fn new(rng: &mut env::Rng, data: u8) -> Content {
        Content((0..data).map(|_| random(rng, CHUNK as usize)).collect())
    }

    /// Some new pages.
    fn change(&self, rng: &mut env::Rng) -> (Content, Vec<(Shard, u32, Vec<u8>)>) {
        let mut next = self.clone();
        let pages = (0..1 + rng.index(4)).map(|_| {
            let shard = rng.index(self.0.len());
            let page = rng.below(u64::from(PAGES).min(6)) as u32;
            let bytes = random(rng, PAGE_BYTES);
            let at = page as usize * PAGE_BYTES;
            next.0[shard][at..at + PAGE_BYTES].copy_from_slice(&bytes);
            (Shard(shard as u8), page, bytes)
        });
        let pages = pages.collect();
        (next, pages)
    }
}

fn writes(pages: &[(Shard, u32, Vec<u8>)]) -> Vec<PageWrite<'_>> {
    let writes = pages.iter().map(|(shard, page, bytes)| PageWrite {
        shard: *shard,
        page: *page,
        bytes,
    });
    writes.collect()
}

/// All bases, as they are or as the other shards say.
fn read_all(stripes: &Stripes, number: u64, data: u8, own: bool) -> Result<Content> {
    let read = (0..data).map(|shard| {
        let mut bytes = vec![0; CHUNK as usize];
        if own {
            stripes.read(id(number), Shard(shard), 0, &mut bytes)?;
        } else {
            stripes.reconstruct(id(number), Shard(shard), 0, &mut bytes)?;
        }
        Ok(bytes)
    });
    read.collect::<Result<_>>().map(Content)
}
