use super::*;
use proptest::prelude::*;

fn all(parser: &mut Parser, bytes: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    let mut at = 0;
    let mut found = Vec::new();
    while let Parsed::Request(length) = parser.parse(&bytes[at..], &Limits::default())? {
        let arguments = parser.arguments(&bytes[at..]);
        found.push(arguments.iter().map(|argument| argument.to_vec()).collect());
        at += length;
    }
    Ok(found)
}

fn encode(requests: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend(format!("*{}\r\n", request.len()).bytes());
        for argument in request {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend(argument);
            bytes.extend(b"\r\n");
        }
    }
    bytes
}

proptest! {
    #[test]
    fn requests_come_out_as_they_went_in_however_the_bytes_arrive(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), 0..8),
        pieces in prop::collection::vec(1usize..50, 1..40),
    ) {
        let bytes = encode(&requests);
        let mut parser = Parser::default();
        let (mut found, mut at, mut end) = (Vec::new(), 0, 0);
        let mut pieces = pieces.iter().cycle();
        while end < bytes.len() {
            end = (end + pieces.next().unwrap()).min(bytes.len());
            while let Parsed::Request(length) =
                parser.parse(&bytes[at..end], &Limits::default()).unwrap()
            {
                let arguments = parser.arguments(&bytes[at..end]);
                found.push(arguments.iter().map(|a| a.to_vec()).collect::<Vec<_>>());
                at += length;
            }
        }
        prop_assert_eq!(found, requests);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = all(&mut Parser::default(), &bytes);
        let mut framed = b"*2\r\n$3\r\n".to_vec();
        framed.extend(&bytes);
        let _ = all(&mut Parser::default(), &framed);
    }
}

#[test]
fn a_line_of_words_is_a_request() {
    let line = b"SET key \"a\\x41\\n\" 'it\\'s'\r\n\r\nPING\n";
    let found = all(&mut Parser::default(), line).unwrap();
    assert_eq!(found[0], [&b"SET"[..], b"key", b"aA\n", b"it's"]);
    assert!(found[1].is_empty());
    assert_eq!(found[2], [b"PING"]);
}

#[test]
fn what_breaks_the_protocol_is_named() {
    let error = |bytes: &[u8]| all(&mut Parser::default(), bytes).unwrap_err();
    assert_eq!(error(b"*x\r\n"), ProtocolError::Arguments);
    assert_eq!(error(b"*1048577\r\n"), ProtocolError::Arguments);
    assert_eq!(error(b"*1\r\n:1\r\n"), ProtocolError::NoBulk(b':'));
    assert_eq!(error(b"*1\r\n$-1\r\n"), ProtocolError::Bulk);
    assert_eq!(error(b"*1\r\n$536870913\r\n"), ProtocolError::Bulk);
    assert_eq!(error(b"\"a\r\n"), ProtocolError::Quotes);
    assert_eq!(
        error(&[b'a'; LINE_BYTES_MAX + 1]),
        ProtocolError::InlineTooLong
    );
    let mut parser = Parser::default();
    let refused = parser.parse(b"*11\r\n", &UNAUTHENTICATED).unwrap_err();
    assert_eq!(refused, ProtocolError::ArgumentsBeforeAuth);
    let mut parser = Parser::default();
    let refused = parser
        .parse(b"*1\r\n$16385\r\n", &UNAUTHENTICATED)
        .unwrap_err();
    assert_eq!(refused, ProtocolError::BulkBeforeAuth);
}
