#![no_main]

#[path = "../checks/recording.rs"]
mod recording;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recording::check(bytes));
