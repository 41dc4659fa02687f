//! Numbers as people read them.

/// Bytes in binary units, three or four digits: `80.1 GiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = value as f64;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if scaled < 1000.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    if unit == UNITS[0] {
        format!("{value} B")
    } else {
        format!("{scaled:.1} {unit}")
    }
}

/// Bytes with a unit: `65536`, `64K`, `10G`.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits
        .parse()
        .map_err(|_| "want a number, such as 64K or 10G".to_owned())?;
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("the units are K, M, G and T, each 1024 of the one before".to_owned()),
    };
    number
        .checked_mul(1 << unit)
        .ok_or_else(|| "more bytes than there can be".to_owned())
}

/// Bytes a second, as rsync(1) reads `--bwlimit`: in KiB, or with a unit. K, M, G, also written with
/// `iB` behind, are 1024 of the one before; with `B` behind, 1000; `B` alone is a byte. Large or
/// small letters, fractions.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    const WANTED: &str = "want a number with a unit or without, such as 500, 1.5m or 10MB";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let plain = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let number: f64 = digits.parse().map_err(|_| WANTED.to_owned())?;
    let unit = text.get(digits.len()..).unwrap_or_default();
    let unit = unit.to_ascii_lowercase();
    let (name, base) = match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
        (Some(name), _) => (name, 1024.0_f64),
        (None, Some("")) => ("b", 1.0),
        (None, Some(name)) => (name, 1000.0),
        (None, None) => (&unit[..], 1024.0),
    };
    let power = match name {
        "b" => 1,
        "" | "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(WANTED.to_owned()),
    };
    let rate = number * base.powi(power);
    match plain && rate < 1e18 {
        // Below 512 bytes a second nothing would ever end.
        true if rate == 0.0 || rate >= 512.0 => Ok(rate as u64),
        true => Err("want 512 bytes a second or more, or 0 for no limit".to_owned()),
        false => Err(WANTED.to_owned()),
    }
}

/// A whole number with commas: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds in the two largest units: `3 h 12 min`.
pub fn duration(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// `text` in at most `width` characters; what is cut is at the front, where paths say least.
pub fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(3);
    let tail: String = text.chars().skip(length - kept).collect();
    format!("...{tail}")
}

/// `1 store`, `2 stores`.
pub fn plural(value: u64, noun: &str) -> String {
    let ending = if value == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(86_007_719_731), "80.1 GiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn rates_are_read_as_rsync_reads_them() {
        for (text, rate) in [
            ("0", 0),
            ("1", 1024),
            ("100", 102_400),
            ("1.5m", 1_572_864),
            ("1.5MiB", 1_572_864),
            ("10MB", 10_000_000),
            ("2g", 2 << 30),
            ("600b", 600),
            ("1KB", 1000),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for bad in [
            "", "m", "-1", "1x", "1mm", "inf", "NaN", "1e3", "1b", "0.1", "1 m",
        ] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_and_times_read_well() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(90_000), "1 d 1 h");
    }

    #[test]
    fn long_paths_lose_their_front() {
        assert_eq!(shorten("/a/b", 10), "/a/b");
        assert_eq!(shorten("/0123456789", 8), "...56789");
    }

    #[test]
    fn bytes_are_read_with_units_and_nothing_else() {
        assert_eq!(parse_bytes("64K"), Ok(65536));
        assert_eq!(parse_bytes("7"), Ok(7));
        for wrong in ["", "K", "1k", "1KB", "-1", "1.5G", "99999999999T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
