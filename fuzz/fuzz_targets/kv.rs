#![no_main]

#[path = "../checks/kv.rs"]
mod kv;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kv::check(bytes));
