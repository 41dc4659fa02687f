use super::*;

#[test]
fn a_string_takes_24_bytes() {
    assert_eq!(size_of::<StringValue>(), 24);
}

#[test]
fn encodings_are_those_of_redis() {
    assert_eq!(StringValue::new(b"123").encoding(), "int");
    assert_eq!(StringValue::new(b"0123").encoding(), "embstr");
    assert_eq!(StringValue::new(&[b'x'; 44]).encoding(), "embstr");
    assert_eq!(StringValue::new(&[b'x'; 45]).encoding(), "raw");
    let mut value = StringValue::new(b"12");
    value.append(b"3").unwrap();
    assert_eq!((value.encoding(), value.to_vec()), ("raw", b"123".to_vec()));
    assert_eq!(value.increment(1), Ok(124));
    assert_eq!(value.encoding(), "int");
    value
        .increment_float(Extended::parse(b"0.5").unwrap())
        .unwrap();
    assert_eq!(
        (value.encoding(), value.to_vec()),
        ("embstr", b"124.5".to_vec())
    );
}

#[test]
fn ranges_count_from_both_ends() {
    let value = StringValue::new(b"This is a string");
    assert_eq!(value.range(0, 3), b"This");
    assert_eq!(value.range(-3, -1), b"ing");
    assert_eq!(value.range(0, -1), b"This is a string");
    assert_eq!(value.range(10, 100), b"string");
    assert_eq!(value.range(5, 2), b"");
    assert_eq!(value.range(0, -100), b"T");
    assert_eq!(value.range(-90, -100), b"");
    assert_eq!(StringValue::new(b"").range(0, -1), b"");
    assert_eq!(value.range(i64::MIN, i64::MAX), b"This is a string");
}

#[test]
fn what_lies_between_is_zero() {
    let mut value = StringValue::new(b"ab");
    assert_eq!(value.set_range(4, b"c"), Ok(5));
    assert_eq!(value.to_vec(), b"ab\0\0c");
    assert_eq!(value.set_range(100, b""), Ok(5));
    assert_eq!(
        value.set_range(StringValue::BYTES_MAX, b"x"),
        Err(ValueError::TooLong)
    );
    assert_eq!(value.set_range(usize::MAX, b"x"), Err(ValueError::TooLong));
}

#[test]
fn sums_that_do_not_fit_change_nothing() {
    let mut value = StringValue::new(b"9223372036854775807");
    assert_eq!(value.increment(1), Err(ValueError::Overflow));
    assert_eq!(value.increment(-1), Ok(i64::MAX - 1));
    assert_eq!(
        StringValue::new(b"x").increment(1),
        Err(ValueError::NotInteger)
    );
    let mut inf = StringValue::new(b"inf");
    assert_eq!(
        inf.increment_float(Extended::from_double(1.0)),
        Err(ValueError::NotFinite)
    );
}
