//! What the harness drives: anything that makes one tree out of several stores.

use anyhow::Result;
use holdfast_redundancy::store::Store;
use holdfast_redundancy::store::sim::SimStore;
use mount::Layer;
use std::sync::Arc;

/// How to start one.
pub(crate) trait System {
    /// Number of stores.
    fn stores(&self) -> usize;
    /// Copies of each file.
    fn copies(&self) -> usize;
    /// Whether it goes on when one store fails.
    fn tolerates_loss(&self) -> bool;
    /// Whether a checkpoint makes everything durable.
    fn checkpoint_syncs(&self) -> bool;
    /// Whether cold chunks give up their copies.
    fn encodes(&self) -> bool {
        false
    }
    /// A run begins, on new stores.
    fn begin(&self) {}
    /// Starts on stores that may be empty, used, or (`None`) missing.
    fn open(&self, stores: &[Option<Arc<SimStore>>]) -> Result<Box<dyn Running>>;
}

/// One that runs.
pub(crate) trait Running {
    /// Its tree.
    fn layer(&self) -> &dyn Layer;
    /// Ends the bookkeeping of past writes.
    fn checkpoint(&self) -> Result<()>;
    /// Stops in good order: everything is durable.
    fn shutdown(self: Box<Self>) -> Result<()>;
    /// Whether every store holds all that it should.
    fn in_sync(&self) -> bool;
    /// Lets what is cold give up its copies.
    fn encode(&self) -> Result<()> {
        Ok(())
    }
    /// Merges what was written to it since.
    fn merge(&self) -> Result<()> {
        Ok(())
    }
    /// A store with whole copies, where some were given up.
    fn whole(&self, index: usize, store: &Arc<SimStore>) -> Arc<dyn Store> {
        let _ = index;
        store.clone()
    }
    /// What it says of its stores, for the report of a failure.
    fn health(&self) -> String;
    /// Brings every present store up to date before it returns.
    fn resync(&self) -> Result<()>;
    /// A store that has come back, or a new one in its place.
    fn attach(&self, index: usize, store: Arc<SimStore>) -> Result<()>;
}
