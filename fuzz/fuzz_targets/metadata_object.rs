#![no_main]

#[path = "../checks/metadata_object.rs"]
mod metadata_object;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metadata_object::check(bytes));
