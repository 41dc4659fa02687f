#![no_main]

#[path = "../checks/store_header.rs"]
mod store_header;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| store_header::check(bytes));
