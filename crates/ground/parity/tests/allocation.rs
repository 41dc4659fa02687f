//! Encoding, updating, reconstructing and verifying leave the allocator alone.

use holdfast_parity::{Code, Geometry, Kernel, ReedSolomon, Shard};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts what each thread asks for.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(call: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    call();
    ALLOCATIONS.get() - before
}

/// Allocations of one encode, one update, one reconstruction of all that may be lost, one verify.
fn counts(geometry: Geometry, kernel: Kernel) -> [usize; 4] {
    let code = ReedSolomon::with_kernel(geometry, kernel).expect("an available kernel");
    let data = usize::from(geometry.data());
    let mut shards: Vec<Vec<u8>> = (0..geometry.shards()).map(|n| vec![n; 100]).collect();

    let (inputs, outputs) = shards.split_at_mut(data);
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let encode = allocations(|| code.encode(&inputs, &mut outputs).expect("encodes"));

    let named = geometry.parity_shards().zip(outputs);
    let mut parity: Vec<(Shard, &mut [u8])> = named.collect();
    let change = [0; 100];
    let update = allocations(|| {
        code.update(Shard(0), &change, &mut parity)
            .expect("updates");
    });

    let present: Vec<(Shard, &[u8])> = (0..)
        .map(Shard)
        .zip(shards.iter().map(|s| &s[..]))
        .collect();
    let verify = allocations(|| code.verify(&present).expect("verifies"));

    let lost = usize::from(geometry.parity()).min(data);
    let mut made = vec![vec![0; 100]; lost];
    let made = made.iter_mut().map(Vec::as_mut_slice);
    let mut wanted: Vec<(Shard, &mut [u8])> = geometry.data_shards().zip(made).collect();
    let reconstruct = allocations(|| {
        code.reconstruct(&present[lost..], &mut wanted)
            .expect("reconstructs");
    });
    [encode, update, reconstruct, verify]
}

#[test]
fn no_call_allocates_up_to_32_data_and_16_parity_shards() {
    for kernel in [Kernel::Portable, Kernel::Simd] {
        for (data, parity) in [(2, 1), (4, 2), (6, 2), (10, 4), (32, 16)] {
            if kernel.is_available() {
                let geometry = Geometry::new(data, parity).unwrap();
                assert_eq!(counts(geometry, kernel), [0; 4], "{geometry} {kernel}");
            }
        }
    }
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(vec![1])), 1);
    let beyond = counts(Geometry::new(60, 30).unwrap(), Kernel::Portable);
    assert!(beyond[2] > 0, "lists of this size are on the heap");
}
