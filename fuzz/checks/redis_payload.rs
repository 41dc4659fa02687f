//! What is checked of DUMP payloads, and of the HyperLogLogs in them.

use values::{Thresholds, Value, hyperloglog, rdb};

/// Takes a kind and an object; version and checksum, which no fuzzer would guess, are put behind.
pub(crate) fn check(bytes: &[u8]) {
    let _ = rdb::restore(bytes, &Thresholds::REDIS);
    let payload = sealed(bytes);
    if let Ok(codes) = rdb::restore_functions(&payload) {
        let again = rdb::dump_functions(codes.iter().map(Vec::as_slice));
        assert_eq!(rdb::restore_functions(&again), Ok(codes));
    }
    let Ok(mut value) = rdb::restore(&payload, &Thresholds::REDIS) else {
        return;
    };
    let again = rdb::restore(&rdb::dump(&value), &Thresholds::REDIS);
    assert_eq!(
        again.as_ref(),
        Ok(&value),
        "what was read is written so that it is read"
    );
    let tiny = Thresholds {
        list_max_listpack_size: 1,
        hash_max_listpack_entries: 0,
        set_max_intset_entries: 0,
        zset_max_listpack_entries: 0,
        ..Thresholds::REDIS
    };
    assert_eq!(
        rdb::restore(&payload, &tiny).as_ref(),
        Ok(&value),
        "whatever the thresholds are"
    );
    assert!(value.memory_bytes() >= size_of::<Value>());
    if let Value::String(string) = &mut value {
        let raw = string.raw();
        let _ = hyperloglog::count(raw);
        let _ = hyperloglog::add(raw, b"element", &Thresholds::REDIS);
        let _ = hyperloglog::merge(raw, &[], &Thresholds::REDIS);
    }
}

/// With version 10 and its checksum, calculated bit by bit.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9;
    let mut payload = bytes.to_vec();
    payload.extend_from_slice(&10u16.to_le_bytes());
    let mut sum = 0u64;
    for byte in &payload {
        sum ^= u64::from(*byte);
        for _ in 0..8 {
            let carry = sum & 1;
            sum >>= 1;
            if carry == 1 {
                sum ^= POLYNOMIAL.reverse_bits();
            }
        }
    }
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}
