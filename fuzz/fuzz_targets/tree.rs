#![no_main]

#[path = "../checks/tree.rs"]
mod tree;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tree::check(bytes));
