#![no_main]

#[path = "../checks/shard.rs"]
mod shard;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shard::check(bytes));
