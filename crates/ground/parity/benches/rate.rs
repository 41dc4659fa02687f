//! Rates of encode, delta update and reconstruct beside memcpy of the same bytes, alternating in one
//! run: `cargo bench --package holdfast-parity`, with `-- 6+2` for one geometry.
//!
//! Rates are by processor time of one thread, and count bytes of data: the data shards of a stripe
//! for encode and reconstruct, the changed bytes for a delta. Shards have 512 KiB. From "memory" they
//! come in turn from more than a cache holds, so that memcpy beside them shows the bandwidth of
//! memory; from "cache" it is one stripe over and over.

use holdfast_parity::{Code, Geometry, Kernel, ReedSolomon, Shard, difference};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

/// Bytes of a shard: a chunk of an encoded file.
const CHUNK_BYTES: usize = 512 << 10;

/// Bytes of a delta: a page of a differential file.
const PAGE_BYTES: usize = 4 << 10;

/// From where stripes come, and the bytes of all together: one stripe, and several times a
/// third-level cache.
const POOLS: [(&str, usize); 2] = [("cache", 0), ("memory", 192 << 20)];

/// Times that each candidate has its turn; the median counts.
const ROUNDS: usize = 9;

/// How long a turn is, about.
const TURN: Duration = Duration::from_millis(40);

/// All shards of one stripe, data first.
type Stripe = Vec<Vec<u8>>;

/// Does once what is measured; the number of the call picks a page.
type Run<'a> = Box<dyn FnMut(&mut Stripe, usize) + 'a>;

/// What is measured, by its name.
struct Candidate<'a> {
    name: String,
    bytes: usize,
    run: Run<'a>,
    rates: Vec<f64>,
}

/// Time that this thread has had on a processor, so that a busy machine does not count as ours.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl<'a> Candidate<'a> {
    fn new(
        name: impl Into<String>,
        bytes: usize,
        run: impl FnMut(&mut Stripe, usize) + 'a,
    ) -> Candidate<'a> {
        Candidate {
            name: name.into(),
            bytes,
            run: Box::new(run),
            rates: Vec::new(),
        }
    }

    /// One turn: as many calls as fit. The rate is in bytes a nanosecond, which is GB/s.
    fn turn(&mut self, pool: &mut [Stripe]) {
        let start = cpu_time();
        let mut calls = 0;
        while cpu_time() - start < TURN {
            for _ in 0..16 {
                let place = calls % pool.len();
                (self.run)(&mut pool[place], calls);
                calls += 1;
            }
        }
        let nanos = (cpu_time() - start).as_nanos() as f64;
        self.rates.push((calls * self.bytes) as f64 / nanos);
    }

    fn median(&mut self) -> f64 {
        self.rates.sort_by(f64::total_cmp);
        self.rates[self.rates.len() / 2]
    }
}

/// A page of a shard, another one with each call and in no order (Fibonacci hashing).
fn page(call: usize) -> std::ops::Range<usize> {
    let pages = CHUNK_BYTES / PAGE_BYTES;
    let start = (call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % pages * PAGE_BYTES;
    start..start + PAGE_BYTES
}

fn encode(code: &ReedSolomon, stripe: &mut Stripe) {
    let (data, parity) = stripe.split_at_mut(code.geometry().data().into());
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut parity).expect("a whole stripe");
}

fn delta(code: &ReedSolomon, stripe: &mut Stripe, new: &[u8], call: usize) {
    let geometry = code.geometry();
    let changed = Shard((call % usize::from(geometry.data())) as u8);
    let (data, parity) = stripe.split_at_mut(geometry.data().into());
    let mut change = [0; PAGE_BYTES];
    let old = &data[usize::from(changed.0)][page(call)];
    difference(old, new, &mut change).expect("three pages");
    let parity = parity.iter_mut().map(|shard| &mut shard[page(call)]);
    let mut parity: Vec<(Shard, &mut [u8])> = geometry.parity_shards().zip(parity).collect();
    code.update(changed, &change, &mut parity)
        .expect("one page of each");
}

/// The first `lost` data shards from all others.
fn reconstruct(code: &ReedSolomon, stripe: &mut Stripe, lost: usize) {
    let (wanted, present) = stripe.split_at_mut(lost);
    let shards = || (0..u8::MAX).map(Shard);
    let present = present.iter().map(Vec::as_slice);
    let present: Vec<(Shard, &[u8])> = shards().skip(lost).zip(present).collect();
    let wanted = wanted.iter_mut().map(Vec::as_mut_slice);
    let mut wanted: Vec<(Shard, &mut [u8])> = shards().zip(wanted).collect();
    code.reconstruct(&present, &mut wanted)
        .expect("enough shards");
}

/// Measures what is of the same bytes and prints it beside memcpy.
fn table(title: &str, pool: &mut [Stripe], mut candidates: Vec<Candidate<'_>>) {
    for candidate in &mut candidates {
        candidate.turn(pool);
        candidate.rates.clear();
    }
    for _ in 0..ROUNDS {
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.turn(pool));
    }
    let memcpy = candidates[0].median();
    for candidate in &mut candidates {
        let rate = candidate.median();
        let (least, most) = (candidate.rates[0], candidate.rates[ROUNDS - 1]);
        let nanos = candidate.bytes as f64 / rate;
        println!(
            "| {title} | {} | {rate:.2} | {least:.2} - {most:.2} | {nanos:.0} | {:.2} |",
            candidate.name,
            rate / memcpy
        );
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    println!("| what | from | by | GB/s of data | least - most | ns a call | to memcpy |");
    println!("|---|---|---|---|---|---|---|");
    for (data, parity) in [(2, 1), (4, 2), (6, 2), (10, 4)] {
        let geometry = Geometry::new(data, parity).expect("a geometry");
        if wanted.is_empty() || wanted.contains(&geometry.to_string()) {
            for (from, bytes) in POOLS {
                measure(geometry, from, bytes);
            }
        }
    }
}

/// All operations of a geometry.
fn measure(geometry: Geometry, from: &str, pool_bytes: usize) {
    let shards: Vec<usize> = (0..geometry.shards().into()).collect();
    let data = usize::from(geometry.data());
    let parity = usize::from(geometry.parity());
    let stripes = (pool_bytes / (shards.len() * CHUNK_BYTES)).max(1);
    let stripe: Stripe = shards.iter().map(|n| vec![*n as u8; CHUNK_BYTES]).collect();
    let mut pool = vec![stripe; stripes];
    let codes: Vec<ReedSolomon> = Kernel::ALL
        .into_iter()
        .filter_map(|kernel| ReedSolomon::with_kernel(geometry, kernel).ok())
        .collect();
    let whole = data * CHUNK_BYTES;
    let memcpy = || {
        let mut copies = vec![vec![0; whole]; stripes];
        Candidate::new("memcpy", whole, move |stripe, call| {
            let place = call % copies.len();
            let into = copies[place].chunks_exact_mut(CHUNK_BYTES);
            for (into, from) in into.zip(stripe.iter()) {
                into.copy_from_slice(from);
            }
            black_box(&copies[place]);
        })
    };

    let mut candidates = vec![memcpy()];
    candidates.extend(codes.iter().map(|code| {
        let name = code.kernel().to_string();
        Candidate::new(name, whole, move |stripe, _| encode(code, stripe))
    }));
    table(
        &format!("encode {geometry} | {from}"),
        &mut pool,
        candidates,
    );

    let new = &vec![0x5a; PAGE_BYTES];
    let mut candidates = vec![Candidate::new("memcpy", PAGE_BYTES, |stripe, call| {
        let (data, parity) = stripe.split_at_mut(data);
        let from = &data[call % data.len()][page(call)];
        parity[0][page(call)].copy_from_slice(from);
    })];
    candidates.extend(codes.iter().map(|code| {
        let name = code.kernel().to_string();
        Candidate::new(name, PAGE_BYTES, move |stripe, call| {
            delta(code, stripe, new, call);
        })
    }));
    table(
        &format!("delta 4 KiB {geometry} | {from}"),
        &mut pool,
        candidates,
    );

    let mut losses = vec![1, parity];
    losses.dedup();
    for lost in losses {
        let mut candidates = vec![memcpy()];
        candidates.extend(codes.iter().map(|code| {
            let name = code.kernel().to_string();
            Candidate::new(name, whole, move |stripe, _| {
                reconstruct(code, stripe, lost)
            })
        }));
        let title = format!("reconstruct {lost} of {geometry} | {from}");
        table(&title, &mut pool, candidates);
    }
}
