//! One sum for the content of a file.

use crate::message::PAGE_BYTES;
use codec::crc32c;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use std::fmt;

/// SHA-256 over the number (`u64`) and CRC-32C (`u32`, both little-endian) of each page of a file,
/// in order, without the pages that have the CRC-32C of zeros: holes and zeros are the same.
///
/// It is as good as the checksums below it: it finds accidents, and not who changes a file so that
/// its CRCs stay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootSum(pub [u8; 32]);

impl fmt::Display for RootSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RootSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A root sum in the making.
#[derive(Clone)]
pub(crate) struct Summing {
    context: Context,
    zeros: u32,
}

impl Summing {
    pub(crate) fn new() -> Summing {
        Summing {
            context: Context::new(&SHA256),
            zeros: crc32c(&[0; PAGE_BYTES]),
        }
    }

    /// Takes the sums of `bytes` bytes from `offset`, a multiple of a page. Ranges come in rising
    /// order.
    pub(crate) fn add(&mut self, offset: u64, bytes: usize, sums: &[u32]) {
        let mut left = bytes;
        for (page, sum) in (offset / PAGE_BYTES as u64..).zip(sums) {
            let length = left.min(PAGE_BYTES);
            left -= length;
            let zeros = match length {
                PAGE_BYTES => self.zeros,
                short => crc32c(&[0; PAGE_BYTES][..short]),
            };
            if *sum != zeros {
                self.context.update(&page.to_le_bytes());
                self.context.update(&sum.to_le_bytes());
            }
        }
    }

    pub(crate) fn finish(self) -> RootSum {
        let digest = self.context.finish();
        let mut sum = [0; 32];
        sum.copy_from_slice(digest.as_ref());
        RootSum(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::sums_of;

    fn sum(ranges: &[(u64, &[u8])]) -> RootSum {
        let mut summing = Summing::new();
        for (offset, bytes) in ranges {
            summing.add(*offset, bytes.len(), &sums_of(bytes));
        }
        summing.finish()
    }

    #[test]
    fn holes_and_zeros_are_the_same_and_everything_else_differs() {
        let page = [7; PAGE_BYTES];
        let zeros = [0; 2 * PAGE_BYTES];
        let whole = [&page[..], &zeros[..], &page[..], &[0; 100]].concat();
        let far = 3 * PAGE_BYTES as u64;
        let sparse = sum(&[(0, &page), (far, &page)]);
        assert_eq!(sum(&[(0, &whole)]), sparse);
        assert_eq!(
            sum(&[(0, &whole[..PAGE_BYTES]), (4096, &whole[4096..])]),
            sparse
        );
        let mut others = vec![
            sum(&[]),
            sum(&[(0, &page)]),
            sum(&[(far, &page)]),
            sum(&[(0, &page), (far + 4096, &page)]),
            sum(&[(0, &page), (far, &page), (far + 4096, &[1; 100])]),
            sum(&[(0, &page), (far, &[8; PAGE_BYTES])]),
            sparse,
        ];
        let count = others.len();
        others.sort_by_key(|sum| sum.0);
        others.dedup();
        assert_eq!(others.len(), count);
        assert_eq!(sum(&[(0, &[0; 100])]), sum(&[]));
    }
}
