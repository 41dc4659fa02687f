//! Reconstruction and verification with any shards, in any number, of any names. The input is: data
//! and parity shards, bytes of a shard, number of shards present and wanted, the place of a buffer of
//! another length (1 each), the names of those shards, and the content of data, over and over.

use parity::{Code, Geometry, Misuse, ReedSolomon, Shard, Unverified};

/// What is not refused is right, and what is refused leaves the buffers alone.
pub(crate) fn check(bytes: &[u8]) {
    let Some((&[data, parity, length, present, wanted, odd], rest)) = bytes.split_first_chunk()
    else {
        return;
    };
    let Ok(geometry) = Geometry::new(data, parity) else {
        return;
    };
    let names = rest.get(..usize::from(present) + usize::from(wanted));
    let Some((present, wanted)) = names.map(|names| names.split_at(present.into())) else {
        return;
    };
    let length = usize::from(length % 80);
    let code = ReedSolomon::new(geometry);
    let stripe = stripe(&code, length, &rest[present.len() + wanted.len()..]);

    let present: Vec<(Shard, Vec<u8>)> = (0..)
        .zip(present)
        .map(|(place, name)| {
            let mut content = stripe.get(usize::from(*name)).cloned();
            let content = content.get_or_insert_with(|| vec![0; length]);
            if place == odd {
                content.push(0);
            }
            (Shard(*name), std::mem::take(content))
        })
        .collect();
    let present: Vec<(Shard, &[u8])> = present.iter().map(|(s, b)| (*s, &b[..])).collect();
    let mut outputs: Vec<(Shard, Vec<u8>)> = wanted
        .iter()
        .map(|name| (Shard(*name), vec![0xa5; length]))
        .collect();
    let mut slices: Vec<(Shard, &mut [u8])> =
        outputs.iter_mut().map(|(s, b)| (*s, &mut b[..])).collect();
    match code.reconstruct(&present, &mut slices) {
        Ok(()) => {
            for (shard, output) in &outputs {
                assert_eq!(
                    output,
                    &stripe[usize::from(shard.0)],
                    "{shard} of {geometry}"
                );
            }
        }
        Err(_) => assert!(
            outputs
                .iter()
                .all(|(_, b)| b.iter().all(|byte| *byte == 0xa5))
        ),
    }
    match code.verify(&present) {
        Ok(()) => assert!(present.len() > usize::from(data)),
        Err(Unverified::Misuse(Misuse::TooFew { present, needed })) => assert!(present < needed),
        Err(Unverified::Misuse(_)) => {}
        Err(Unverified::Mismatch(mismatch)) => panic!("{geometry}: {mismatch}"),
    }
}

/// All shards, with data that repeats `content`.
fn stripe(code: &ReedSolomon, length: usize, content: &[u8]) -> Vec<Vec<u8>> {
    let geometry = code.geometry();
    let mut bytes = content.iter().copied().chain([1]).cycle();
    let mut shards: Vec<Vec<u8>> = (0..geometry.shards())
        .map(|_| bytes.by_ref().take(length).collect())
        .collect();
    let (data, parity) = shards.split_at_mut(geometry.data().into());
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut parity).expect("a whole stripe");
    shards
}
