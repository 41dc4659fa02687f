//! Patterns of KEYS, SCAN and PSUBSCRIBE.

/// Whether `text` matches `pattern`: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`, and `\` before a byte that
/// is meant as it is. A class without its end reaches to the end of the pattern.
///
/// The time is bounded by the product of the lengths: of several stars only the last is tried anew.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, read));
            continue;
        }
        match text.get(read) {
            None => return pattern[at..].iter().all(|&byte| byte == b'*'),
            Some(&byte) => {
                if let Some(next) = one(pattern, at, byte, ignore_case) {
                    at = next;
                    read += 1;
                    continue;
                }
            }
        }
        let Some((behind, from)) = star else {
            return false;
        };
        at = behind;
        read = from + 1;
        star = Some((behind, read));
    }
}

/// Whether the pattern matches every text.
#[must_use]
pub fn matches_all(pattern: &[u8]) -> bool {
    !pattern.is_empty() && pattern.iter().all(|&byte| byte == b'*')
}

/// Matches one byte against the pattern at `at`; returns where the pattern goes on.
fn one(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let same = |a: u8, b: u8| {
        if ignore_case {
            a.eq_ignore_ascii_case(&b)
        } else {
            a == b
        }
    };
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => class(pattern, at + 1, byte, ignore_case),
        b'\\' if at + 1 < pattern.len() => same(pattern[at + 1], byte).then_some(at + 2),
        other => same(other, byte).then_some(at + 1),
    }
}

fn class(pattern: &[u8], mut at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| {
        if ignore_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let byte = fold(byte);
    let negated = pattern.get(at) == Some(&b'^');
    if negated {
        at += 1;
    }
    let mut found = false;
    loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= fold(*escaped) == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*low.max(high)));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            [single, ..] => {
                found |= fold(*single) == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "abc", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[abc", "b", true),
            ("[]", "a", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            (
                "*a*a*a*a*b",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                false,
            ),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes(), false);
            assert_eq!(found, expected, "{pattern} {text}");
        }
        assert!(matches(b"HeL*", b"hello", true));
        assert!(matches(b"[A-C]x", b"bX", true));
    }
}
