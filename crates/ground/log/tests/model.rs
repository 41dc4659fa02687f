//! The log against a vector, with crashes.

use env::sim::World;
use holdfast_log::{Log, LogId, Options, Sequence};
use proptest::prelude::*;

const ID: LogId = LogId(1);
const OPTIONS: Options = Options {
    segment_bytes: 16 << 10,
};

#[derive(Clone, Debug)]
enum Step {
    Append {
        kind: u16,
        length: usize,
    },
    /// Commit a record that is this far back of the newest.
    Commit {
        back: u64,
    },
    /// Truncate before a record this far back of the newest.
    Truncate {
        back: u64,
    },
    /// Close and open; `crash` cuts the power too.
    Reopen {
        crash: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u16>(), 0usize..5000).prop_map(|(kind, length)| Step::Append { kind, length }),
        3 => (0u64..4).prop_map(|back| Step::Commit { back }),
        1 => (0u64..10).prop_map(|back| Step::Truncate { back }),
        1 => any::<bool>().prop_map(|crash| Step::Reopen { crash }),
    ]
}

/// All records ever, `durable` of them promised, those before `truncated` free to go.
#[derive(Default)]
struct Model {
    records: Vec<(u16, Vec<u8>)>,
    durable: usize,
    truncated: usize,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_log_does_what_a_vector_would(seed: u64, steps in prop::collection::vec(step(), 1..60)) {
        let world = World::new(seed);
        let mut log = Log::create(world.dir("d"), "log", ID, OPTIONS).unwrap();
        let mut model = Model::default();
        for step in steps {
            let count = model.records.len() as u64;
            match step {
                Step::Append { kind, length } => {
                    let payload = vec![count as u8; length];
                    prop_assert_eq!(log.append(kind, &payload).unwrap(), Sequence(count + 1));
                    model.records.push((kind, payload));
                }
                Step::Commit { back } if back < count => {
                    log.commit(Sequence(count - back)).unwrap();
                    model.durable = model.durable.max((count - back) as usize);
                    prop_assert!(log.durable_sequence().0 > count - back);
                }
                Step::Truncate { back } if back < count => {
                    log.truncate_before(Sequence(count - back)).unwrap();
                    model.truncated = model.truncated.max((count - back - 1) as usize);
                }
                Step::Reopen { crash } => {
                    drop(log);
                    if crash { world.crash() } else { world.kill() }
                    let (opened, found) = Log::open(world.dir("d"), "log", ID, OPTIONS).unwrap();
                    let first = opened.held().first.0 as usize - 1;
                    prop_assert!(first <= model.truncated);
                    prop_assert!(first + found.len() >= model.durable);
                    model.records.truncate(first + found.len());
                    prop_assert_eq!(model.records.len(), first + found.len());
                    for (record, (kind, payload)) in found.iter().zip(&model.records[first..]) {
                        prop_assert_eq!(record.kind, *kind);
                        prop_assert_eq!(&record.payload, payload);
                    }
                    model.durable = model.records.len();
                    log = opened;
                }
                _ => {}
            }
        }
    }
}
