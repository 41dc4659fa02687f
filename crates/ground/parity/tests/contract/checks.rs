//! What every code has to do. Each check takes a way to make the code of a geometry, and says what
//! it found wrong.

use crate::oracle;
use crate::stripe::{Refused, Stripe, geometries};
use holdfast_parity::{Code, Geometry, Misuse, Shard, Unverified};
use proptest::prelude::*;
use proptest::sample::subsequence;
use proptest::test_runner::{Config, TestRunner};

/// Steps toward a smaller example of a failure. The canaries fail on purpose and often.
const SHRINKS_MAX: u32 = 30;

/// Makes the code of a geometry.
pub(crate) type Make<'a, C> = &'a dyn Fn(Geometry) -> C;

/// The name of a check, and what says whether the code passes.
pub(crate) type Check<C> = (&'static str, fn(Make<C>) -> Result<(), String>);

/// All checks.
pub(crate) fn all<C: Code>() -> [Check<C>; 7] {
    [
        ("parity is that of the format", parity_is_of_the_format),
        ("every loss in a small stripe", every_loss_in_a_small_stripe),
        ("any loss in any stripe", any_loss_in_any_stripe),
        ("updates are as encoding anew", updates_are_as_encoding_anew),
        ("long shards at any address", long_shards_at_any_address),
        ("verify finds a changed byte", verify_finds_a_changed_byte),
        ("misuse changes nothing", misuse_changes_nothing),
    ]
}

/// The names of the checks that fail, with what they found.
pub(crate) fn failures<C: Code>(make: Make<C>) -> Vec<(&'static str, String)> {
    let results = all().map(|(name, check)| (name, check(make)));
    let failed = results
        .into_iter()
        .filter_map(|(name, result)| Some((name, result.err()?)));
    failed.collect()
}

fn run<S: Strategy>(
    cases: u32,
    inputs: S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) -> Result<(), String> {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: SHRINKS_MAX,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&inputs, test);
    result.map_err(|failure| failure.to_string())
}

/// A stripe by its geometry and length, with a seed for its content.
fn stripes(bytes: usize) -> impl Strategy<Value = Stripe> {
    let content = (geometries(), 0..bytes, any::<u64>());
    content.prop_map(|(geometry, bytes, seed)| {
        // The oracle is slow: it gets fewer bytes where there are many shards.
        let weights = usize::from(geometry.data()) * usize::from(geometry.parity());
        Stripe::new(geometry, bytes % (400_000 / (weights + 1) + 1), seed)
    })
}

fn parity_is_of_the_format<C: Code>(make: Make<C>) -> Result<(), String> {
    run(200, stripes(300), |stripe| {
        let code = make(stripe.geometry);
        prop_assert_eq!(code.geometry(), stripe.geometry);
        // Whatever was in the buffers does not matter.
        let mut parity = stripe.garbage(stripe.geometry.parity_shards().len());
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        code.encode(&stripe.data(), &mut outputs).expect("a stripe");
        prop_assert_eq!(&parity[..], stripe.parity());
        Ok(())
    })
}

/// Reconstructs `wanted` from `present` and compares.
fn recover(
    code: &impl Code,
    stripe: &Stripe,
    present: &[Shard],
    wanted: &[Shard],
) -> Result<(), TestCaseError> {
    let mut made = stripe.garbage(wanted.len());
    let mut outputs: Vec<(Shard, &mut [u8])> = wanted
        .iter()
        .copied()
        .zip(made.iter_mut().map(Vec::as_mut_slice))
        .collect();
    let result = code.reconstruct(&stripe.of(present), &mut outputs);
    prop_assert_eq!(result, Ok(()));
    for (shard, made) in wanted.iter().zip(&made) {
        prop_assert_eq!(made, stripe.shard(*shard), "{} from {:?}", shard, present);
    }
    Ok(())
}

fn every_loss_in_a_small_stripe<C: Code>(make: Make<C>) -> Result<(), String> {
    for data in 1..=8 {
        for parity in 0..=8 - data {
            let geometry = Geometry::new(data, parity).expect("a small geometry");
            let stripe = Stripe::new(geometry, 37, u64::from(data * 8 + parity));
            let code = make(geometry);
            for lost in 0..1u32 << geometry.shards() {
                let is_lost = |shard: &Shard| lost >> shard.0 & 1 == 1;
                let all = geometry.data_shards().chain(geometry.parity_shards());
                let (lost, present): (Vec<Shard>, Vec<Shard>) = all.partition(is_lost);
                let result = if lost.len() <= usize::from(parity) {
                    let each = lost
                        .iter()
                        .try_for_each(|shard| recover(&code, &stripe, &present, &[*shard]));
                    each.and_then(|()| recover(&code, &stripe, &present, &lost))
                } else {
                    let expected = Misuse::TooFew {
                        present: present.len(),
                        needed: usize::from(data),
                    };
                    stripe.refused(&code, Refused::Reconstruct(&present, &lost), expected)
                };
                result.map_err(|why| format!("{geometry}, lost {lost:?}: {why}"))?;
            }
        }
    }
    Ok(())
}

fn any_loss_in_any_stripe<C: Code>(make: Make<C>) -> Result<(), String> {
    // Shards in any order, of which a number is present and some of the others are wanted.
    let inputs = stripes(100).prop_flat_map(|stripe| {
        let all: Vec<Shard> = (0..stripe.geometry.shards()).map(Shard).collect();
        let present = usize::from(stripe.geometry.data())..=all.len();
        let lost = 0..=usize::from(stripe.geometry.parity());
        (Just(stripe), Just(all).prop_shuffle(), present, lost)
    });
    run(200, inputs, |(stripe, order, present, wanted)| {
        let (present, absent) = order.split_at(present);
        let wanted = &absent[..wanted.min(absent.len())];
        recover(&make(stripe.geometry), &stripe, present, wanted)
    })
}

/// A write to a range of a data shard: shard, start and length (bounded by the test), content.
type Write = (u8, usize, usize, u64);

fn updates_are_as_encoding_anew<C: Code>(make: Make<C>) -> Result<(), String> {
    let writes = prop::collection::vec(any::<Write>(), 1..8);
    let inputs = (stripes(300), writes).prop_flat_map(|(stripe, writes)| {
        let parity: Vec<Shard> = stripe.geometry.parity_shards().collect();
        let count = parity.len();
        // Which parity shards get the update with the write; the others get it at the end.
        let at_once = subsequence(parity, 0..=count).prop_shuffle();
        (Just(stripe), Just(writes), at_once)
    });
    run(200, inputs, |(mut stripe, writes, at_once)| {
        let geometry = stripe.geometry;
        let code = make(geometry);
        let mut parity = stripe.parity().to_vec();
        let mut later = Vec::new();
        for (shard, start, length, seed) in writes {
            let shard = Shard(shard % geometry.data());
            let start = start % (stripe.bytes() + 1);
            let range = start..start + length % (stripe.bytes() - start + 1);
            let mut change = stripe.shard(shard)[range.clone()].to_vec();
            stripe.overwrite(shard, range.clone(), seed);
            for (old, new) in change.iter_mut().zip(&stripe.shard(shard)[range.clone()]) {
                *old ^= new;
            }
            let mut outputs = Vec::new();
            let mut left: Vec<Option<&mut Vec<u8>>> = parity.iter_mut().map(Some).collect();
            for shard in &at_once {
                let place = usize::from(shard.0 - geometry.data());
                let buffer = left[place].take().expect("each once");
                outputs.push((*shard, &mut buffer[range.clone()]));
            }
            prop_assert_eq!(code.update(shard, &change, &mut outputs), Ok(()));
            later.push((shard, range, change));
        }
        // Updates add up in any order.
        for (shard, range, change) in later.iter().rev() {
            for (output, buffer) in geometry.parity_shards().zip(&mut parity) {
                if !at_once.contains(&output) {
                    let output = (output, &mut buffer[range.clone()]);
                    prop_assert_eq!(code.update(*shard, change, &mut [output]), Ok(()));
                }
            }
        }
        let fresh = oracle::stripe(geometry, &stripe.data_vecs());
        prop_assert_eq!(&parity[..], &fresh[usize::from(geometry.data())..]);
        Ok(())
    })
}

fn long_shards_at_any_address<C: Code>(make: Make<C>) -> Result<(), String> {
    // Past every strip length, with and without a rest, and not aligned to anything.
    for (bytes, skip) in [
        (8192, 1),
        (3 * 8192 + 5, 3),
        (2 * 65536, 0),
        (65536 + 31, 7),
    ] {
        let geometry = Geometry::new(3, 2).expect("a geometry");
        let stripe = Stripe::new(geometry, bytes + skip, 9);
        let code = make(geometry);
        let data: Vec<&[u8]> = stripe.data().iter().map(|data| &data[skip..]).collect();
        let mut made = stripe.garbage(2);
        let mut outputs: Vec<&mut [u8]> = made.iter_mut().map(|made| &mut made[skip..]).collect();
        let encoded = code.encode(&data, &mut outputs);
        let same = |made: &[Vec<u8>], wanted: &[Vec<u8>]| {
            let pairs = made.iter().zip(wanted);
            pairs
                .into_iter()
                .all(|(made, wanted)| made[skip..] == wanted[skip..])
        };
        if encoded.is_err() || !same(&made, stripe.parity()) {
            return Err(format!("encoding {bytes} bytes"));
        }
        let present: Vec<(Shard, &[u8])> = stripe.of(&[Shard(2), Shard(3), Shard(4)]);
        let present: Vec<(Shard, &[u8])> = present
            .into_iter()
            .map(|(shard, bytes)| (shard, &bytes[skip..]))
            .collect();
        let mut made = stripe.garbage(2);
        let [first, second] = &mut made[..] else {
            unreachable!("two")
        };
        let mut wanted = [
            (Shard(0), &mut first[skip..]),
            (Shard(1), &mut second[skip..]),
        ];
        let reconstructed = code.reconstruct(&present, &mut wanted);
        if reconstructed.is_err() || !same(&made, &stripe.data_vecs()) {
            return Err(format!("reconstructing {bytes} bytes"));
        }
        // A change of shard 1 that turns its whole content into zeros, and back.
        let mut parity = stripe.parity().to_vec();
        for _ in 0..2 {
            let [first, second] = &mut parity[..] else {
                unreachable!("two")
            };
            let mut outputs = [
                (Shard(4), &mut second[skip..]),
                (Shard(3), &mut first[skip..]),
            ];
            let change = &stripe.shard(Shard(1))[skip..];
            if code.update(Shard(1), change, &mut outputs).is_err() {
                return Err(format!("updating {bytes} bytes"));
            }
            if same(&parity, &stripe.without(Shard(1))) {
                continue;
            }
            if !same(&parity, stripe.parity()) {
                return Err(format!("updating {bytes} bytes gives other parity"));
            }
        }
    }
    Ok(())
}

fn verify_finds_a_changed_byte<C: Code>(make: Make<C>) -> Result<(), String> {
    let inputs = stripes(9000).prop_flat_map(|stripe| {
        let all: Vec<Shard> = (0..stripe.geometry.shards()).map(Shard).collect();
        let present = usize::from(stripe.geometry.data())..=all.len();
        (
            Just(stripe),
            Just(all).prop_shuffle(),
            present,
            any::<(usize, usize)>(),
            1..=255u8,
        )
    });
    run(
        100,
        inputs,
        |(mut stripe, order, present, place, change)| {
            let code = make(stripe.geometry);
            let present = &order[..present];
            let needed = usize::from(stripe.geometry.data()) + 1;
            let verified = code.verify(&stripe.of(present));
            if present.len() < needed {
                let present = present.len();
                let expected = Unverified::Misuse(Misuse::TooFew { present, needed });
                prop_assert_eq!(verified, Err(expected));
                return Ok(());
            }
            prop_assert_eq!(verified, Ok(()));
            if stripe.bytes() == 0 {
                return Ok(());
            }
            let (changed, offset) = (present[place.0 % present.len()], place.1 % stripe.bytes());
            stripe.damage(changed, offset, change);
            let verified = code.verify(&stripe.of(present));
            let Err(Unverified::Mismatch(mismatch)) = verified else {
                return Err(TestCaseError::fail(format!(
                    "{changed} at {offset}: {verified:?}"
                )));
            };
            prop_assert_eq!(mismatch.offset, offset);
            prop_assert!(present.contains(&mismatch.shard));
            prop_assert_eq!(mismatch.found, stripe.shard(mismatch.shard)[offset]);
            prop_assert_ne!(mismatch.expected, mismatch.found);
            Ok(())
        },
    )
}

fn misuse_changes_nothing<C: Code>(make: Make<C>) -> Result<(), String> {
    let geometry = Geometry::new(3, 2).expect("a geometry");
    let stripe = Stripe::new(geometry, 40, 5);
    let code = make(geometry);
    let s = |numbers: &[u8]| -> Vec<Shard> { numbers.iter().copied().map(Shard).collect() };
    let no_such = |shard| Misuse::NoSuchShard {
        shard: Shard(shard),
        shards: 5,
    };
    let twice = |shard| Misuse::Twice {
        shard: Shard(shard),
    };
    let count = |role, expected, found| Misuse::Count {
        role,
        expected,
        found,
    };
    let reconstructs: [(&[u8], &[u8], Misuse); 7] = [
        (&[0, 1, 5], &[2], no_such(5)),
        (&[0, 1, 3], &[255], no_such(255)),
        (&[0, 1, 1], &[2], twice(1)),
        (&[0, 1, 3], &[2, 2], twice(2)),
        (&[0, 1, 3], &[3], twice(3)),
        (
            &[0, 4],
            &[1, 2],
            Misuse::TooFew {
                present: 2,
                needed: 3,
            },
        ),
        (
            &[],
            &[],
            Misuse::TooFew {
                present: 0,
                needed: 3,
            },
        ),
    ];
    let updates: [(u8, &[u8], Misuse); 6] = [
        (3, &[4], Misuse::NotData { shard: Shard(3) }),
        (5, &[4], no_such(5)),
        (0, &[1], Misuse::NotParity { shard: Shard(1) }),
        (0, &[3, 0], Misuse::NotParity { shard: Shard(0) }),
        (0, &[3, 5], no_such(5)),
        (0, &[3, 3], twice(3)),
    ];
    let encodes = [
        (2, 2, count("data", 3, 2)),
        (4, 2, count("data", 3, 4)),
        (3, 1, count("parity", 2, 1)),
        (3, 3, count("parity", 2, 3)),
    ];
    let verifies: [(&[u8], Misuse); 4] = [
        (&[0, 1, 2, 9], no_such(9)),
        (&[0, 1, 2, 2], twice(2)),
        (
            &[0, 1, 2],
            Misuse::TooFew {
                present: 3,
                needed: 4,
            },
        ),
        (
            &[],
            Misuse::TooFew {
                present: 0,
                needed: 4,
            },
        ),
    ];
    let mut results = Vec::new();
    for (present, wanted, why) in reconstructs {
        results.push(stripe.refused(&code, Refused::Reconstruct(&s(present), &s(wanted)), why));
    }
    for (data, parity, why) in updates {
        results.push(stripe.refused(&code, Refused::Update(Shard(data), &s(parity)), why));
    }
    for (data, parity, why) in encodes {
        results.push(stripe.refused(&code, Refused::Encode(data, parity), why));
    }
    for (present, why) in verifies {
        results.push(stripe.refused(&code, Refused::Verify(&s(present)), why));
    }
    // One buffer a byte shorter or longer than the others, in each place of each call.
    for short in 0..5 {
        results.push(stripe.unequal(&code, Refused::Encode(3, 2), short));
        let (present, wanted) = (s(&[0, 3, 4]), s(&[1, 2]));
        results.push(stripe.unequal(&code, Refused::Reconstruct(&present, &wanted), short));
    }
    for short in 0..3 {
        results.push(stripe.unequal(&code, Refused::Update(Shard(1), &s(&[3, 4])), short));
    }
    for short in 0..4 {
        results.push(stripe.unequal(&code, Refused::Verify(&s(&[0, 1, 2, 4])), short));
    }
    let wrong: Vec<String> = results
        .into_iter()
        .filter_map(|result| Some(result.err()?.to_string()))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}
