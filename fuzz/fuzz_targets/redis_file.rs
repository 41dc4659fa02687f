#![no_main]

#[path = "../checks/redis_file.rs"]
mod redis_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redis_file::check(bytes));
