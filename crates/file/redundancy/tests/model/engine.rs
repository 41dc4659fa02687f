//! The engine under the harness.

use crate::system::{Running, System};
use anyhow::{Context, Result, ensure};
use holdfast_redundancy::encoding::{ChunkBytes, Geometry, Parameters, ReadWeight, Share};
use holdfast_redundancy::label::StoreIndex;
use holdfast_redundancy::store::Store;
use holdfast_redundancy::store::sim::SimStore;
use holdfast_redundancy::{Attach, AttachError, Candidate, Engine, EngineOptions};
use mount::Layer;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A set of three stores, without threads of its own.
pub(crate) struct Set {
    pub(crate) copies: u8,
    /// Most of the capacity to encode, where it encodes.
    encodes: Option<Share>,
    starts: Cell<u64>,
    /// Warmed chunks that gave their place to colder ones.
    pub(crate) swapped: Rc<Cell<u64>>,
}

struct Started {
    engine: Arc<Engine>,
    swapped: Rc<Cell<u64>>,
}

impl Set {
    pub(crate) fn new(copies: u8) -> Set {
        Set {
            copies,
            encodes: None,
            starts: Cell::new(0),
            swapped: Rc::default(),
        }
    }

    /// Two copies, of which the second is given up for parity.
    pub(crate) fn encoding() -> Set {
        Set {
            encodes: Some(Share::ALL),
            ..Set::new(2)
        }
    }

    /// The same where there is room for a third of the data, so that chunks that are written to
    /// give their place to colder ones.
    pub(crate) fn swapping() -> Set {
        Set {
            encodes: Some(Share::per_mille(600)),
            ..Set::new(2)
        }
    }
}

/// Everything is cold enough, up to a share of all.
fn coldest(share: Share) -> Parameters {
    Parameters {
        geometry: Geometry::new(2, 1, 2, 3).expect("2+1 on three stores"),
        chunk: ChunkBytes::new(8192).expect("a chunk"),
        read_weight: ReadWeight::new(0.0).expect("a weight"),
        load_limit: Share::ALL,
        target_rate: share,
        differential: Share::NONE,
        at_once: false,
        interval: Duration::from_secs(1),
    }
}

fn path(index: usize) -> String {
    format!("sim-{index}")
}

impl System for Set {
    fn stores(&self) -> usize {
        3
    }
    fn copies(&self) -> usize {
        self.copies.into()
    }
    fn tolerates_loss(&self) -> bool {
        true
    }
    fn checkpoint_syncs(&self) -> bool {
        true
    }
    fn encodes(&self) -> bool {
        self.encodes.is_some()
    }
    fn begin(&self) {
        self.starts.set(0);
    }
    fn open(&self, stores: &[Option<Arc<SimStore>>]) -> Result<Box<dyn Running>> {
        // Ids must differ from start to start, and be the same in a replay.
        self.starts.set(self.starts.get() + 1);
        let options = EngineOptions {
            copies: self.copies,
            background: false,
            reserve_bytes: 1 << 20,
            seed: Some(self.starts.get()),
            encoding: self.encodes.map(coldest),
            ..EngineOptions::default()
        };
        let candidates = stores.iter().enumerate().map(|(index, store)| Candidate {
            path: path(index),
            store: match store {
                Some(store) => Ok(Arc::clone(store) as Arc<dyn Store>),
                None => Err("it is gone".to_string()),
            },
        });
        let engine = Engine::open(candidates.collect(), &options)?;
        let started = Started {
            engine,
            swapped: self.swapped.clone(),
        };
        // No run puts an image of a store in its place: none may be taken for one.
        let taken = started.engine.status().stores;
        ensure!(
            !taken.iter().any(|s| s.detail.contains("older image")),
            "{taken:?}"
        );
        for (index, store) in stores.iter().enumerate() {
            if let Some(store) = store
                && !started.engine.members().has(StoreIndex(index as u8))
            {
                started.attach(index, Arc::clone(store))?;
            }
        }
        Ok(Box::new(started))
    }
}

impl Running for Started {
    fn layer(&self) -> &dyn Layer {
        &*self.engine
    }
    fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint().context("checkpoint")
    }
    fn shutdown(self: Box<Self>) -> Result<()> {
        self.engine.shutdown().context("shutdown")
    }
    fn in_sync(&self) -> bool {
        self.engine.status().redundant
    }
    fn health(&self) -> String {
        let stores = self.engine.status().stores;
        let lines = stores
            .iter()
            .map(|s| format!("{}: {:?} {}", s.index, s.state, s.detail));
        lines.collect::<Vec<_>>().join("; ")
    }
    fn encode(&self) -> Result<()> {
        let round = self.engine.encode_round().context("a round")?;
        self.swapped.set(self.swapped.get() + round.swapped);
        Ok(())
    }
    fn merge(&self) -> Result<()> {
        self.engine
            .merge_all(std::time::Duration::MAX)
            .context("a merge")
    }
    fn whole(&self, index: usize, store: &Arc<SimStore>) -> Arc<dyn Store> {
        let whole = self.engine.whole_stores();
        let mut found = whole.into_iter().filter(|(s, _)| usize::from(s.0) == index);
        found
            .next()
            .map_or_else(|| store.clone() as Arc<dyn Store>, |(_, whole)| whole)
    }
    fn resync(&self) -> Result<()> {
        self.engine.resync_now();
        Ok(())
    }
    fn attach(&self, index: usize, store: Arc<SimStore>) -> Result<()> {
        let place = StoreIndex(index as u8);
        if self.engine.members().has(place) {
            // It has failed, and nobody has asked it anything since.
            self.engine.detach(place).context("detach")?;
        }
        let answer = match self
            .engine
            .attach(&path(index), store.clone(), Attach::Return)
        {
            Err(AttachError::NoHeader) => self.engine.attach(&path(index), store, Attach::Empty),
            answer => answer,
        };
        let found = answer?;
        ensure!(
            found == place,
            "store {index} was taken for store {}",
            found.0
        );
        Ok(())
    }
}
