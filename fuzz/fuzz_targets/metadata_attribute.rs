#![no_main]

#[path = "../checks/metadata_attribute.rs"]
mod metadata_attribute;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metadata_attribute::check(bytes));
