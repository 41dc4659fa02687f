//! What clients of a volume send.

use volume::nbd::wire::{REQUEST_BYTES, Request, context_queries, go_name};

/// Any bytes are refused or taken apart without a panic.
pub(crate) fn check(bytes: &[u8]) {
    if let Some(head) = bytes.get(..REQUEST_BYTES).and_then(|b| b.try_into().ok())
        && let Some(request) = Request::decode(head)
    {
        assert_eq!(&request.encode(), head);
    }
    if let Some(name) = go_name(bytes) {
        assert!(name.len() + 6 <= bytes.len());
    }
    if let Some((name, queries)) = context_queries(bytes) {
        let all: usize = queries.iter().map(|query| 4 + query.len()).sum();
        assert_eq!(8 + name.len() + all, bytes.len());
    }
}
