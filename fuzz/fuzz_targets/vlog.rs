#![no_main]

#[path = "../checks/vlog.rs"]
mod vlog;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vlog::check(bytes));
