#![no_main]

#[path = "../checks/metadata_record.rs"]
mod metadata_record;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metadata_record::check(bytes));
