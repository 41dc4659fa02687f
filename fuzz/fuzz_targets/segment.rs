#![no_main]

#[path = "../checks/segment.rs"]
mod segment;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| segment::check(bytes));
