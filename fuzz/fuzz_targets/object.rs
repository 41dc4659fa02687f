#![no_main]

#[path = "../checks/object.rs"]
mod object;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| object::check(bytes));
