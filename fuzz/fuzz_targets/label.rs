#![no_main]

#[path = "../checks/label.rs"]
mod label;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| label::check(bytes));
