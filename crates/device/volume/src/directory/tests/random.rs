//! Random histories against the model, with crashes and restarts between.

use super::model::{Model, User, create, difference, look, open, step};
use crate::directory::catalogue::Limits;
use crate::directory::{Tree, check};
use env::Rng;
use env::sim::World;

/// Limits under which next to nothing is kept in memory.
const NOTHING: Limits = Limits {
    table_pages: 0,
    names: 0,
};

fn histories(seeds: std::ops::Range<u64>, limits: Option<Limits>) {
    let bytes = 4 << 20;
    let limit = |tree: &Tree| {
        if let Some(limits) = limits {
            tree.state.write().limits = limits;
        }
    };
    for seed in seeds {
        let world = World::new(seed);
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        let mut tree = create(&world, bytes);
        limit(&tree);
        let mut number = 0;
        for _ in 0..40 {
            let mut user = User::new(&tree);
            for _ in 0..30 {
                number += 1;
                let step = step(&mut rng);
                let expected = model.apply(&step);
                let found = user.perform(&step);
                assert_eq!(found, expected, "seed {seed}, step {number}: {step:?}");
            }
            drop(user);
            let found = look(&tree).unwrap();
            assert_eq!(
                difference(&found, &model.picture()),
                None,
                "seed {seed}, step {number}"
            );
            match rng.below(6) {
                0 => tree.settle().unwrap(),
                1 => tree.write_times().unwrap(),
                2 => drop(tree.volume().clean(u64::MAX).unwrap()),
                _ => {}
            }
            if rng.chance(1, 3) {
                tree.volume().sync().unwrap();
                drop(tree);
                world.crash();
                tree = open(&world, bytes).unwrap();
                limit(&tree);
                let found = look(&tree).unwrap();
                assert_eq!(
                    difference(&found, &model.picture()),
                    None,
                    "seed {seed}, reopened"
                );
                let report = check(tree.volume(), &[]).unwrap().unwrap();
                assert_eq!(report.problems, [], "seed {seed}, step {number}");
            }
        }
    }
}

#[test]
fn random_histories_are_those_of_a_tree_in_memory() {
    histories(0..4, None);
}

#[test]
fn so_they_are_where_nothing_is_kept_in_memory() {
    histories(10..13, Some(NOTHING));
}
