//! Frames between hosts.

use env::Rng;
use rpc::{Limits, Role, Session, Taken};

/// Any bytes behind a hello are refused or understood, however they are cut, and what is taken
/// is the same; then the same with checksums that fit.
pub(crate) fn check(bytes: &[u8]) {
    compare(bytes);
    compare(&sealed(bytes));
}

fn compare(bytes: &[u8]) {
    let whole = run(bytes, bytes.len().max(1));
    let pieces = run(bytes, 1 + bytes.len() / 7);
    assert_eq!(whole, pieces);
}

/// What came of it: sizes of the messages, and the error.
fn run(bytes: &[u8], most: usize) -> (Vec<(usize, usize)>, Option<String>) {
    let mut hello = Session::new(Role::Client, Limits::default());
    let mut session = Session::new(Role::Server, Limits::default());
    session.feed(&hello.take_output()).expect("a hello");
    let mut rng = Rng::new(bytes.len() as u64);
    let mut left = bytes;
    while !left.is_empty() && session.end().is_none() {
        let (piece, rest) = left.split_at((1 + rng.index(most)).min(left.len()));
        // The error is kept as the end.
        let _ = session.feed(piece);
        left = rest;
    }
    let mut got = Vec::new();
    while let Some(id) = session.accept() {
        while let Ok(Taken::Message(message)) = session.take(id) {
            got.push((message.body.len(), message.bulk.len()));
        }
        session.drop_stream(id, 1);
    }
    (got, session.end().map(ToString::to_string))
}

/// Frames whose kinds, streams and lengths are drawn from `bytes`, with sums that fit.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, chunk) in bytes.chunks(24).enumerate() {
        let [kind, stream, split, payload @ ..] = chunk else {
            break;
        };
        let split = usize::from(*split).min(payload.len());
        let (body, bulk) = payload.split_at(split);
        let mut header = Vec::from(*b"HRPC");
        header.extend_from_slice(&u16::from(kind % 9).to_le_bytes());
        header.extend_from_slice(&[0, 0]);
        header.extend_from_slice(&u32::from(stream % 7).to_le_bytes());
        header.extend_from_slice(&(body.len() as u32).to_le_bytes());
        header.extend_from_slice(&(1 + number as u64).to_le_bytes());
        header.extend_from_slice(&(bulk.len() as u32).to_le_bytes());
        header.extend_from_slice(&codec::crc32c(body).to_le_bytes());
        header.extend_from_slice(&codec::crc32c(bulk).to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        let sum = codec::crc32c(&[b"C", &header[..]].concat());
        header[36..].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(payload);
    }
    out
}
