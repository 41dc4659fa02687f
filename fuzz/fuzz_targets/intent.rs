#![no_main]

#[path = "../checks/intent.rs"]
mod intent;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| intent::check(bytes));
