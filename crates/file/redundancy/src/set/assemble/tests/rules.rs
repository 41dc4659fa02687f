//! The start rule and the go-on rule together, over random histories of starts, losses and returns
//! that a crash may cut between the headers of two stores.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// The process ends, and a start is tried with these stores; `cut` header writes are done.
    Start { with: u64, cut: usize },
    /// A member fails.
    Fence { store: u8, cut: usize },
    /// A store has been brought up to date.
    Join { store: u8, cut: usize },
}

/// What is on the stores, what the running process knows, and the last membership under which
/// changes may have been acknowledged.
struct World {
    disks: Vec<Header>,
    running: Option<Header>,
    acknowledged: Tenure,
    epochs: u64,
}

impl World {
    fn new(count: u8) -> World {
        let header = new_set(usize::from(count));
        World {
            disks: (0..count)
                .map(|n| header.for_store(StoreIndex(n)))
                .collect(),
            running: None,
            acknowledged: header.tenure(),
            epochs: 0,
        }
    }

    fn epoch(&mut self) -> u64 {
        self.epochs += 1;
        self.epochs
    }

    /// Writes a header to stores until the crash; whether all have it.
    fn write(&mut self, header: &Header, to: StoreMask, cut: &mut usize) -> bool {
        for index in to.iter() {
            if *cut == 0 {
                self.running = None;
                return false;
            }
            *cut -= 1;
            self.disks[usize::from(index.0)] = header.for_store(index);
        }
        true
    }

    fn take(&mut self, header: Header) {
        self.acknowledged = header.tenure();
        self.running = Some(header);
    }

    /// What a start with these stores says.
    fn judge(&self, with: u64) -> Result<Assembly, RefuseReason> {
        let found: Vec<Presence> = (0..self.disks.len())
            .map(|n| match with & (1 << n) {
                0 => missing(),
                _ => Presence::Header(Box::new(self.disks[n].clone())),
            })
            .collect();
        start(&found)
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let count = self.disks.len() as u8;
        match *step {
            Step::Start { with, mut cut } => {
                self.running = None;
                let Ok(assembly) = self.judge(with) else {
                    return Ok(());
                };
                prop_assert!(
                    assembly.header.descends_from(self.acknowledged),
                    "started from {:?}, and {:?} had been acknowledged",
                    assembly.header.tenure(),
                    self.acknowledged
                );
                let mut header = assembly.header.clone();
                if !self.write(&header, assembly.behind, &mut cut) {
                    return Ok(());
                }
                for index in StoreMask::first(self.disks.len())
                    .minus(assembly.present)
                    .and(header.members)
                    .iter()
                {
                    header.stores[usize::from(index.0)].1 = Departure {
                        generation: header.tenure().generation,
                        mount_count: header.mount_count,
                        mark: 0,
                    };
                }
                if header.members != assembly.present {
                    let epoch = self.epoch();
                    header.advance(assembly.present, epoch);
                }
                header.mount_count += 1;
                header.pending_starts += 1;
                if self.write(&header, assembly.present, &mut cut) {
                    header.pending_starts = 0;
                    if self.write(&header, assembly.present, &mut cut) {
                        self.take(header);
                    }
                }
            }
            Step::Fence { store, mut cut } => {
                let store = StoreIndex(store % count);
                let Some(header) = self.running.clone() else {
                    return Ok(());
                };
                let left = header.members.without(store);
                let may = header.members.has(store)
                    && !left.is_empty()
                    && 2 * left.count() >= header.members.count();
                if may {
                    let next = fence(&header, store.0, self.epoch());
                    if self.write(&next, left, &mut cut) {
                        self.take(next);
                    }
                }
            }
            Step::Join { store, mut cut } => {
                let store = StoreIndex(store % count);
                let Some(mut header) = self.running.clone() else {
                    return Ok(());
                };
                let returning = &self.disks[usize::from(store.0)];
                if header.members.has(store) || judge_return(returning, &header).is_err() {
                    return Ok(());
                }
                header.stores[usize::from(store.0)].1 = Departure::default();
                let epoch = self.epoch();
                header.advance(header.members.with(store), epoch);
                if self.write(&header, header.members, &mut cut) {
                    self.take(header);
                }
            }
        }
        Ok(())
    }
}

fn steps(cuts: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (any::<u64>(), cuts.clone()).prop_map(|(with, cut)| Step::Start { with, cut }),
        (any::<u8>(), cuts.clone()).prop_map(|(store, cut)| Step::Fence { store, cut }),
        (any::<u8>(), cuts).prop_map(|(store, cut)| Step::Join { store, cut }),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The stores that may start and those that may have gone on always share one.
    #[test]
    fn a_start_never_misses_what_was_acknowledged(count in 1u8..6, steps in steps(0..8)) {
        let mut world = World::new(count);
        for step in &steps {
            world.step(step)?;
        }
        for with in 0..1u64 << count {
            world.step(&Step::Start { with, cut: 0 })?;
        }
    }

    /// Nothing but losses and returns, without a crash: all stores together always start.
    #[test]
    fn without_a_crash_all_stores_together_start(count in 1u8..6, steps in steps(99..100)) {
        let mut world = World::new(count);
        for step in &steps {
            world.step(step)?;
        }
        prop_assert!(world.judge(u64::MAX).is_ok());
    }

    /// A start that is cut again and again leaves a set that starts.
    #[test]
    fn starts_may_be_interrupted_any_number_of_times(
        count in 1u8..6,
        cuts in proptest::collection::vec(0usize..8, 1..20),
    ) {
        let mut world = World::new(count);
        for cut in cuts {
            world.step(&Step::Start { with: u64::MAX, cut })?;
            let judged = world.judge(u64::MAX);
            prop_assert!(judged.is_ok(), "{judged:?}");
        }
    }
}
