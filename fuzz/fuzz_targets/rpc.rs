#![no_main]

#[path = "../checks/rpc.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frames::check(bytes));
