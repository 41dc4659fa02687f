#![no_main]

#[path = "../checks/volume.rs"]
mod disk;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| disk::check(bytes));
