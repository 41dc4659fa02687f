use super::*;
use crate::stripes::tests::{CHUNK, Rig, id, random};
use env::Rng;
use env::sim::World;
use parity::Geometry;
use std::cell::Cell;

mod attack;
mod crash;

/// Bugs that the tests plant to see that they find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Planted {
    #[default]
    Nothing,
    /// A record behind the mark counts by its head alone.
    BelievesTornRecords,
    /// Pages are let go before the merge of them is durable.
    ClearsBeforeCommit,
    /// What is merged need not be durable in the logs.
    MergesUnsynced,
    /// What replaced a segment's content need not be durable when it goes.
    TrimsUnsynced,
    /// A store that returns keeps its log.
    KeepsStaleLog,
    /// Copies that differ after a crash stay so.
    LeavesCopiesUnequal,
    /// A sync reaches the first copy only.
    SyncsOneCopy,
    /// Bases are filled without a note that the copies are.
    GivesUpUnnoted,
    /// A stripe is forgotten before its bases have what was in differentials.
    ForgetsBeforeBases,
}

thread_local! {
    static PLANT: Cell<Planted> = const { Cell::new(Planted::Nothing) };
}

/// What the next [`Delayed::open`] of this thread gets.
pub(super) fn planted() -> Planted {
    PLANT.get()
}

const STRIPE: u64 = 7;

fn log_site(world: &World, store: StoreIndex) -> LogSite {
    LogSite {
        store,
        dir: world.dir(&format!("differential{}", store.0)),
    }
}

fn options() -> Options {
    Options {
        low_pages: 3,
        segment_bytes: 64 << 10,
        ..Options::new(8)
    }
}

/// Both layers on the stores that are there.
fn open(rig: &Rig, present: StoreMask) -> std::result::Result<(Arc<Stripes>, Delayed), String> {
    open_to(rig, present).map(|(stripes, delayed, _)| (stripes, delayed))
}

/// The same, and what was found.
fn open_to(
    rig: &Rig,
    present: StoreMask,
) -> std::result::Result<(Arc<Stripes>, Delayed, Found), String> {
    let (stripes, _) = rig.open(present)?;
    let stripes = Arc::new(stripes);
    let sites = present.iter().map(|store| log_site(&rig.world, store));
    let opened = Delayed::open(stripes.clone(), sites, options());
    let (delayed, found) = opened.map_err(|error| format!("opening differentials: {error}"))?;
    Ok((stripes, delayed, found))
}

/// A store comes back to both.
fn join(
    rig: &Rig,
    stripes: &Stripes,
    delayed: &Delayed,
    store: StoreIndex,
) -> std::result::Result<(), String> {
    let (site, notes) = rig.site(store)?;
    let joined = stripes.join(site, notes);
    joined.map_err(|error| format!("joining {}: {error}", store.0))?;
    let joined = delayed.join(log_site(&rig.world, store));
    joined.map_err(|error| format!("joining {}: {error}", store.0))?;
    Ok(())
}

fn leave(stripes: &Stripes, delayed: &Delayed, store: StoreIndex) {
    stripes.leave(store);
    delayed.leave(store);
}

/// All data shards.
fn read(rig: &Rig, delayed: &Delayed) -> Result<Vec<Vec<u8>>> {
    let read = rig.data().map(|shard| {
        let mut bytes = vec![0; CHUNK as usize];
        delayed.read(id(STRIPE), shard, 0, &mut bytes)?;
        Ok(bytes)
    });
    read.collect()
}

/// A write: shard, place, bytes. Most are whole pages; they crowd on the first `pages`, 3 or more.
fn some_write(rng: &mut Rng, data: u8, pages: u64) -> (Shard, u64, Vec<u8>) {
    let shard = Shard(rng.below(data.into()) as u8);
    let page = PAGE_BYTES as u64;
    let (offset, length) = match rng.below(4) {
        0 => (rng.below(pages * page - 600), 1 + rng.below(600)),
        1 => (rng.below((pages - 2) * page), 1 + rng.below(2 * page)),
        _ => (rng.below(pages - 1) * page, page * (1 + rng.below(2))),
    };
    (shard, offset, random(rng, length as usize))
}
