//! Numbers as C's `%.Ng` writes them.

/// A number with so many digits at most.
pub(crate) fn format_general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent).max(0) as usize;
    trim(&format!("{value:.places$}"))
}

#[cfg(test)]
mod tests {
    use super::format_general;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, digits, expected) in [
            (0.0, 17, "0"),
            (10.5, 17, "10.5"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e20, 14, "1e+20"),
            (1e15, 14, "1e+15"),
            (123_456.0, 17, "123456"),
            (1e17, 17, "1e+17"),
            (-1.5e-7, 14, "-1.5e-07"),
            (0.0001, 14, "0.0001"),
            (99_999_999_999_999.9, 14, "1e+14"),
        ] {
            assert_eq!(format_general(value, digits), expected);
        }
    }
}
