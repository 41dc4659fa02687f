#![no_main]

#[path = "../checks/differential.rs"]
mod differential;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| differential::check(bytes));
