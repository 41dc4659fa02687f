#![no_main]

#[path = "../checks/nbd.rs"]
mod nbd;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nbd::check(bytes));
