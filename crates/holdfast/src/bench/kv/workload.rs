//! What a load asks for: the workloads A to F of YCSB (Cooper et al., "Benchmarking cloud serving systems
//! with YCSB", SoCC 2010), and filling a database.

use super::content::{Content, Versions};
use super::keys::Keys;
use super::resp::{self, Reply};
use anyhow::{bail, ensure};
use env::Rng;

/// Where the keys in their order are, for scans.
pub(super) const INDEX: &[u8] = b"index";

/// Most keys of a scan.
const SCAN_MAX: u64 = 100;

/// The name of a key: 16 bytes.
pub(super) fn name(key: u64) -> [u8; 16] {
    let mut name = *b"k000000000000000";
    let mut left = key;
    for digit in name.iter_mut().skip(1).rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    name
}

/// The name of a field of a hash.
pub(super) fn field(field: usize) -> [u8; 2] {
    [b'f', b'0' + (field % 10) as u8]
}

/// What an answer has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// A word or a number: a key was written.
    Written { key: u64, ends: bool },
    /// A value of that key.
    Value { key: u64, ends: bool },
    /// A number, and nothing that is remembered.
    Number,
    /// An array of at most so many.
    Keys(u64),
}

impl Expected {
    /// Whether an operation of the workload is done with it.
    pub(super) fn ends_operation(self) -> bool {
        match self {
            Expected::Written { ends, .. } | Expected::Value { ends, .. } => ends,
            Expected::Number => false,
            Expected::Keys(_) => true,
        }
    }

    /// # Errors
    /// The answer is another.
    pub(super) fn check(
        self,
        found: &Reply<'_>,
        content: &Content,
        versions: &mut Versions,
    ) -> anyhow::Result<()> {
        match (self, found) {
            (Expected::Written { key, .. }, Reply::Line(_)) => versions.acknowledged(key),
            (Expected::Value { key, .. }, Reply::Bulk(value)) => {
                let version = content.version(key, value);
                ensure!(
                    version.is_some_and(|version| version < versions.allowed(key).end),
                    "key {key} was answered with another key's value, or one that never was"
                );
            }
            (Expected::Number, Reply::Line(_)) => {}
            (Expected::Keys(most), Reply::Array(count)) if *count as u64 <= most => {}
            (expected, found) => bail!("{expected:?} was answered with {found:?}"),
        }
        Ok(())
    }
}

/// A load.
pub(super) trait Workload {
    /// Writes the requests of the next operation, and says what has to be answered; false where there is
    /// none.
    fn next(
        &mut self,
        content: &Content,
        versions: &mut Versions,
        out: &mut Vec<u8>,
        expect: &mut dyn FnMut(Expected),
    ) -> bool;
}

/// Writes SET of the next version of a key.
fn write(
    key: u64,
    content: &Content,
    versions: &mut Versions,
    out: &mut Vec<u8>,
    expect: &mut dyn FnMut(Expected),
) {
    let version = versions.issue(key);
    resp::begin(out, 3);
    resp::push_bulk(out, b"SET");
    resp::push_bulk(out, &name(key));
    resp::push_head(out, b'$', content.bytes());
    content.push(out, key, version);
    out.extend_from_slice(b"\r\n");
    expect(Expected::Written { key, ends: true });
}

fn read(key: u64, ends: bool, out: &mut Vec<u8>, expect: &mut dyn FnMut(Expected)) {
    resp::push(out, &[b"GET", &name(key)]);
    expect(Expected::Value { key, ends });
}

fn index(key: u64, out: &mut Vec<u8>, expect: &mut dyn FnMut(Expected)) {
    let score = key.to_string();
    resp::push(out, &[b"ZADD", INDEX, score.as_bytes(), &name(key)]);
    expect(Expected::Number);
}

/// What a key gets when a database is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// A string.
    Text,
    /// A hash of so many fields, each with a value.
    Hash(usize),
    /// A place in the index, of keys that have a string.
    Indexed,
}

/// Fills a database with keys from 0.
#[derive(Clone, Debug)]
pub(super) struct Fill {
    pub(super) next: u64,
    pub(super) count: u64,
    pub(super) shape: Shape,
}

impl Workload for Fill {
    fn next(
        &mut self,
        content: &Content,
        versions: &mut Versions,
        out: &mut Vec<u8>,
        expect: &mut dyn FnMut(Expected),
    ) -> bool {
        if self.next == self.count {
            return false;
        }
        let key = self.next;
        self.next += 1;
        match self.shape {
            Shape::Text => write(key, content, versions, out, expect),
            Shape::Indexed => index(key, out, expect),
            Shape::Hash(fields) => {
                let version = versions.issue(key);
                resp::begin(out, 2 + 2 * fields);
                resp::push_bulk(out, b"HSET");
                resp::push_bulk(out, &name(key));
                for index in 0..fields {
                    resp::push_bulk(out, &field(index));
                    resp::push_head(out, b'$', content.bytes());
                    content.push(out, key, version);
                    out.extend_from_slice(b"\r\n");
                }
                expect(Expected::Written { key, ends: true });
            }
        }
        true
    }
}

/// A workload of YCSB.
#[derive(Clone, Debug)]
pub(super) struct Ycsb {
    which: Letter,
    keys: Keys,
    rng: Rng,
}

/// Which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Letter {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of what is new, 5 % new keys.
    D,
    /// 95 % scans of 1 to 100 keys, 5 % new keys.
    E,
    /// Half reads, half reads followed by an update.
    F,
    /// Updates: not of YCSB.
    Updates,
}

impl Ycsb {
    pub(super) fn new(which: Letter, keys: Keys, seed: u64) -> Ycsb {
        let rng = Rng::new(seed);
        Ycsb { which, keys, rng }
    }
}

impl Workload for Ycsb {
    fn next(
        &mut self,
        content: &Content,
        versions: &mut Versions,
        out: &mut Vec<u8>,
        expect: &mut dyn FnMut(Expected),
    ) -> bool {
        let count = versions.count();
        let key = self.keys.draw(&mut self.rng, versions.there());
        let percent = self.rng.below(100);
        let common = match self.which {
            Letter::A | Letter::F => percent < 50,
            Letter::B | Letter::D | Letter::E => percent < 95,
            Letter::C => true,
            Letter::Updates => false,
        };
        match (self.which, common) {
            (Letter::E, true) => {
                let most = 1 + self.rng.below(SCAN_MAX);
                let (from, limit) = (key.to_string(), most.to_string());
                resp::push(
                    out,
                    &[
                        b"ZRANGEBYSCORE",
                        INDEX,
                        from.as_bytes(),
                        b"+inf",
                        b"LIMIT",
                        b"0",
                        limit.as_bytes(),
                    ],
                );
                expect(Expected::Keys(most));
            }
            (_, true) => read(key, true, out, expect),
            (Letter::D, false) => write(count, content, versions, out, expect),
            (Letter::E, false) => {
                index(count, out, expect);
                write(count, content, versions, out, expect);
            }
            (Letter::F, false) => {
                read(key, false, out, expect);
                write(key, content, versions, out, expect);
            }
            (_, false) => write(key, content, versions, out, expect),
        }
        true
    }
}
