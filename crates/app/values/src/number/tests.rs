use super::*;

#[test]
fn integers_have_one_form() {
    for good in [
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "10",
    ] {
        let value = parse_integer(good.as_bytes()).unwrap();
        let mut buffer = [0; INTEGER_BYTES_MAX];
        assert_eq!(format_integer(value, &mut buffer), good.as_bytes());
    }
    for bad in [
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "01",
        "-0",
        "9223372036854775808",
        "1e3",
        "0x1",
        "--1",
    ] {
        assert_eq!(parse_integer(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(parse_unsigned(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(parse_unsigned(b"18446744073709551616"), None);
}

#[test]
fn doubles_are_written_with_17_digits() {
    for (value, text) in [
        (0.1, "0.10000000000000001"),
        (3.0, "3"),
        (-1.5, "-1.5"),
        (1e17, "1e+17"),
        (12_345_678_901_234_567.0, "12345678901234568"),
        (1e-5, "1.0000000000000001e-05"),
        (0.0001, "0.0001"),
        (f64::INFINITY, "inf"),
        (f64::MAX, "1.7976931348623157e+308"),
        (5e-324, "4.9406564584124654e-324"),
    ] {
        assert_eq!(format_double(value), text);
        assert_eq!(parse_double(text.as_bytes()), Some(value));
    }
}

#[test]
fn doubles_are_refused_as_redis_refuses_them() {
    for bad in [
        "", " 1", "1 ", "nan", "1e400", "1e-400", "abc", "1.2.3", "infx",
    ] {
        assert_eq!(parse_double(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(parse_double(b"+inf"), Some(f64::INFINITY));
    assert_eq!(parse_double(b"-Infinity"), Some(f64::NEG_INFINITY));
    assert_eq!(parse_double(b"0x10"), Some(16.0));
    assert_eq!(parse_double(b"0e-400"), Some(0.0));
    assert_eq!(parse_double(b"1."), Some(1.0));
}

#[test]
fn sums_are_those_of_long_double() {
    for (a, b, sum) in [
        ("10.50", "0.1", "10.6"),
        ("5.0e3", "2.0e2", "5200"),
        ("3", "-3", "0"),
        ("0.1", "0.2", "0.3"),
        ("1", "1e-30", "1"),
        ("-1.5", "0.25", "-1.25"),
        ("3.0e3", "-5", "2995"),
        ("17179869184", "0.5", "17179869184.5"),
        ("0", "1e20", "100000000000000000000"),
    ] {
        let result = Extended::parse(a.as_bytes()).unwrap();
        let result = result.plus(Extended::parse(b.as_bytes()).unwrap()).unwrap();
        assert_eq!(result.to_text(), sum, "{a} + {b}");
    }
    assert!(
        Extended::parse(b"inf")
            .unwrap()
            .plus(Extended::parse(b"1").unwrap())
            .is_none()
    );
    assert!(Extended::parse(b"1e5000").is_none());
    assert!(Extended::parse(b"").is_none());
    assert_eq!(Extended::from_double(0.1).to_text(), "0.10000000000000001");
    assert_eq!(
        Extended::from_double(13.361_389_338_970_184).to_text(),
        "13.36138933897018433"
    );
}
