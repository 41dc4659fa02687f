#![no_main]

#[path = "../checks/transfer.rs"]
mod trees;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trees::check(bytes));
