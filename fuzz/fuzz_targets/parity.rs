#![no_main]

#[path = "../checks/parity.rs"]
mod parity;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parity::check(bytes));
