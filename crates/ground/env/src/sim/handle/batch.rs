//! Batches of a simulated disk: between two syncs, everything happens in an order that the seed
//! picks, and durable writes become durable in another.

use super::{Durable, SimDisk};
use crate::batch::Request;
use crate::sim::image::Event;
use crate::{Disk, Result, Rng};

impl SimDisk {
    /// Runs requests without syncs among them.
    pub(super) fn run_phase(&self, phase: &mut [Request<'_>]) -> Vec<Result<()>> {
        let mut rng = self.world.rng();
        let mut landed = Vec::new();
        let mut results = vec![Ok(()); phase.len()];
        for index in shuffled(phase.len(), &mut rng) {
            results[index] = match &mut phase[index] {
                Request::Read { offset, buffer } => self.read_at(*offset, buffer),
                Request::Write { offset, data } => {
                    self.write(*offset, data, Durable::Later(&mut landed))
                }
                Request::Sync => self.sync(),
            };
        }
        for index in shuffled(landed.len(), &mut rng) {
            let (offset, bytes) = landed[index];
            let inode = self.inode;
            self.world.lock().emit(Event::Flush {
                inode,
                offset,
                bytes,
            });
        }
        results
    }
}

/// The numbers below `count`, in any order (Fisher and Yates).
fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, rng.index(last + 1));
    }
    order
}
