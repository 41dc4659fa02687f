//! Random histories against the model, with crashes and restarts between.

use super::model::{Model, User, create, difference, look, open, step};
use crate::directory::check;
use env::Rng;
use env::sim::World;

#[test]
fn random_histories_are_those_of_a_tree_in_memory() {
    let bytes = 4 << 20;
    for seed in 0..4 {
        let world = World::new(seed);
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        let mut tree = create(&world, bytes);
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
