#![no_main]

#[path = "../checks/redis_payload.rs"]
mod redis_payload;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redis_payload::check(bytes));
