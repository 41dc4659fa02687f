#![no_main]

#[path = "../checks/page.rs"]
mod page;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| page::check(bytes));
