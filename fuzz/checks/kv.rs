//! Requests, whole and in pieces, records, and files of users.

use holdfast_kv::acl::Acl;
use holdfast_kv::protocol::{Limits, Parsed, Parser};
use holdfast_kv::record;

/// All requests of some bytes that arrive in pieces of a size, and whether the protocol was broken.
fn requests(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, bool) {
    let mut parser = Parser::default();
    let limits = Limits {
        bulk_bytes_max: 1 << 16,
        arguments_max: 1 << 10,
        request_bytes_max: 1 << 18,
    };
    let (mut found, mut at, mut end) = (Vec::new(), 0, 0);
    while end < bytes.len() {
        end = (end + piece).min(bytes.len());
        loop {
            let rest = bytes.get(at..end).unwrap_or_default();
            match parser.parse(rest, &limits) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Request(length)) => {
                    let arguments = parser.arguments(rest);
                    found.push(arguments.iter().map(|argument| argument.to_vec()).collect());
                    at += length;
                    assert!(at <= end, "a request ends where its bytes do");
                }
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

pub(crate) fn check(bytes: &[u8]) {
    let whole = requests(bytes, bytes.len().max(1));
    for piece in [1, 7] {
        assert_eq!(requests(bytes, piece), whole, "pieces of {piece}");
    }
    if let Ok(users) = Acl::parse(bytes, "users") {
        let lines: Vec<Vec<u8>> = users.iter().map(|user| user.show()).collect();
        let again = Acl::parse(&lines.join(&b'\n'), "users");
        assert_eq!(again, Ok(users), "what is shown makes the same users");
    }
    // Whatever it is, it is refused or described.
    let _ = record::describe(bytes);
}
