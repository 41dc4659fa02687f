//! The two forms of a sorted set.

use std::cmp::Ordering;

use super::{Scored, tree::Tree};
use crate::{
    dict::{Dict, Row},
    element::Element,
    listpack::{BYTES_MAX, Listpack, Offset},
    number::{format_double, parse_double, parse_integer},
    thresholds::Thresholds,
};

#[derive(Debug, Clone)]
pub(super) enum Form {
    /// Members, each with its score behind it, in order.
    Packed(Listpack),
    Indexed(Box<Indexed>),
}

#[derive(Debug, Clone)]
pub(super) struct Indexed {
    members: Dict<Member>,
    tree: Tree,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    bytes: Box<[u8]>,
    score: f64,
}

impl Row for Member {
    fn key(&self) -> &[u8] {
        &self.bytes
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The order of a sorted set. Scores are never NaN.
fn order(a: (f64, &[u8]), b: (f64, &[u8])) -> Ordering {
    a.0.partial_cmp(&b.0)
        .unwrap_or(Ordering::Equal)
        .then_with(|| a.1.cmp(b.1))
}

impl Indexed {
    fn order_of<'a>(
        &'a self,
        score: f64,
        member: &'a [u8],
    ) -> impl Fn((f64, u32)) -> Ordering + 'a {
        let members = &self.members;
        move |(own, row)| order((own, members.row(row as usize).key()), (score, member))
    }

    fn insert(&mut self, member: &[u8], score: f64) {
        let row = self.members.add(Member {
            bytes: member.into(),
            score,
        });
        self.link(member, score, row);
    }

    fn link(&mut self, member: &[u8], score: f64, row: usize) {
        let row = u32::try_from(row).expect("fewer than 2^32 members");
        let mut tree = std::mem::replace(&mut self.tree, Tree::new());
        tree.insert((score, row), self.order_of(score, member));
        self.tree = tree;
    }

    fn unlink(&mut self, member: &[u8], score: f64) {
        let mut tree = std::mem::replace(&mut self.tree, Tree::new());
        let removed = tree.remove(self.order_of(score, member));
        assert!(removed, "the tree has every member");
        self.tree = tree;
    }

    fn remove(&mut self, member: &[u8], score: f64) {
        let Some(row) = self.members.find(member) else {
            return;
        };
        self.unlink(member, score);
        // The last row takes the number of the one that goes.
        let last = self.members.len() - 1;
        if row != last {
            let moved = self.members.row(last);
            let (score, bytes) = (moved.score, &moved.bytes);
            let mut tree = std::mem::replace(&mut self.tree, Tree::new());
            tree.renumber(
                u32::try_from(row).expect("below last"),
                self.order_of(score, bytes),
            );
            self.tree = tree;
        }
        self.members.remove(row);
    }

    fn scored(&self, row: u32) -> Scored<'_> {
        let member = self.members.row(row as usize);
        (Element::Bytes(&member.bytes), member.score)
    }
}

impl Form {
    pub(super) fn new() -> Self {
        Self::Packed(Listpack::new())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Packed(pack) => pack.len() / 2,
            Self::Indexed(indexed) => indexed.members.len(),
        }
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Packed(pack) => pack.find(member, 2).map(|at| score_behind(pack, at)),
            Self::Indexed(indexed) => indexed.members.get(member).map(|member| member.score),
        }
    }

    pub(super) fn rank_of(&self, member: &[u8]) -> Option<usize> {
        match self {
            Self::Packed(pack) => pack.iter().step_by(2).position(|own| own.equals(member)),
            Self::Indexed(indexed) => {
                let score = indexed.members.get(member)?.score;
                let order = indexed.order_of(score, member);
                Some(indexed.tree.rank(|entry| order(entry) == Ordering::Less))
            }
        }
    }

    /// How many members `before` is true for; it is so for none behind the first it is false for.
    pub(super) fn partition(&self, before: impl Fn(Scored<'_>) -> bool) -> usize {
        match self {
            Self::Packed(_) => self.walk(0).take_while(|&scored| before(scored)).count(),
            Self::Indexed(indexed) => indexed.tree.rank(|(_, row)| before(indexed.scored(row))),
        }
    }

    /// The same where only scores count, without a look at the members.
    pub(super) fn partition_scores(&self, before: impl Fn(f64) -> bool) -> usize {
        match self {
            Self::Packed(_) => self.walk(0).take_while(|&(_, score)| before(score)).count(),
            Self::Indexed(indexed) => indexed.tree.rank(|(score, _)| before(score)),
        }
    }

    /// Adds a member that is not there.
    pub(super) fn insert(&mut self, member: &[u8], score: f64, thresholds: &Thresholds) {
        let bytes = self.pack().map_or(0, |pack| pack.bytes().len()) + member.len();
        let full = self.len() + 1 > thresholds.zset_max_listpack_entries || bytes > BYTES_MAX;
        if full || member.len() > thresholds.zset_max_listpack_value {
            self.widen();
        }
        match self {
            Self::Packed(pack) => {
                let mut behind = |&at: &Offset| {
                    let own = pack.get(at);
                    let own_score = score_behind(pack, at);
                    own_score > score
                        || (own_score == score && compare(own, member) == Ordering::Greater)
                };
                let at = pack.offsets().step_by(2).find(&mut behind);
                match at {
                    Some(at) => {
                        insert_score(pack, at, score);
                        pack.insert(at, member);
                    }
                    None => {
                        pack.push_back(member);
                        push_score(pack, score);
                    }
                }
            }
            Self::Indexed(indexed) => indexed.insert(member, score),
        }
    }

    /// Gives a member that is there another score.
    pub(super) fn move_to(&mut self, member: &[u8], old: f64, new: f64, thresholds: &Thresholds) {
        match self {
            Self::Packed(_) => {
                self.remove(member, old);
                self.insert(member, new, thresholds);
            }
            Self::Indexed(indexed) => {
                let row = indexed.members.find(member).expect("the caller found it");
                indexed.unlink(member, old);
                indexed.members.row_mut(row).score = new;
                indexed.link(member, new, row);
            }
        }
    }

    pub(super) fn remove(&mut self, member: &[u8], score: f64) {
        match self {
            Self::Packed(pack) => {
                if let Some(at) = pack.find(member, 2) {
                    pack.remove(at, 2);
                }
            }
            Self::Indexed(indexed) => indexed.remove(member, score),
        }
    }

    pub(super) fn walk(&self, rank: usize) -> impl Iterator<Item = Scored<'_>> {
        let (pack, indexed) = self.parts();
        let packed = pack.into_iter().flat_map(move |pack| {
            let first = pack.at(i64::try_from(rank * 2).unwrap_or(i64::MAX));
            let next = |&at: &Offset| pack.next(pack.next(at)?);
            std::iter::successors(first, next).map(|at| (pack.get(at), score_behind(pack, at)))
        });
        packed.chain(
            indexed.into_iter().flat_map(move |indexed| {
                indexed.tree.walk(rank).map(|(_, row)| indexed.scored(row))
            }),
        )
    }

    pub(super) fn walk_back(&self, rank: usize) -> impl Iterator<Item = Scored<'_>> {
        let (pack, indexed) = self.parts();
        let packed = pack.into_iter().flat_map(move |pack| {
            let first = pack.at(i64::try_from(rank * 2).unwrap_or(i64::MAX));
            let next = |&at: &Offset| pack.prev(pack.prev(at)?);
            std::iter::successors(first, next).map(|at| (pack.get(at), score_behind(pack, at)))
        });
        packed.chain(indexed.into_iter().flat_map(move |indexed| {
            indexed
                .tree
                .walk_back(rank)
                .map(|(_, row)| indexed.scored(row))
        }))
    }

    pub(super) fn nth(&self, indices: &[usize]) -> Vec<Scored<'_>> {
        match self {
            Self::Packed(_) => {
                let all: Vec<_> = self.walk(0).collect();
                indices.iter().map(|&index| all[index]).collect()
            }
            Self::Indexed(indexed) => {
                let row = |&index: &usize| indexed.scored(u32::try_from(index).expect("a row"));
                indices.iter().map(row).collect()
            }
        }
    }

    pub(super) fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Scored<'_>)) -> u64 {
        match self {
            Self::Packed(_) => {
                self.walk(0).for_each(visit);
                0
            }
            Self::Indexed(indexed) => indexed.members.scan(cursor, count, |member| {
                visit((Element::Bytes(&member.bytes), member.score))
            }),
        }
    }

    pub(super) fn encoding(&self) -> &'static str {
        match self {
            Self::Packed(_) => "listpack",
            Self::Indexed(_) => "skiplist",
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Packed(pack) => pack.heap_bytes(),
            Self::Indexed(indexed) => {
                size_of::<Indexed>() + indexed.members.heap_bytes() + indexed.tree.heap_bytes()
            }
        }
    }

    pub(super) fn pack(&self) -> Option<&Listpack> {
        self.parts().0
    }

    fn parts(&self) -> (Option<&Listpack>, Option<&Indexed>) {
        match self {
            Self::Packed(pack) => (Some(pack), None),
            Self::Indexed(indexed) => (None, Some(indexed)),
        }
    }

    pub(super) fn widen(&mut self) {
        if let Self::Packed(_) = self {
            let mut indexed = Indexed {
                members: Dict::with_capacity(self.len()),
                tree: Tree::new(),
            };
            for (member, score) in self.walk(0) {
                indexed.insert(&member.to_vec(), score);
            }
            *self = Self::Indexed(Box::new(indexed));
        }
    }
}

fn compare(own: Element<'_>, member: &[u8]) -> Ordering {
    own.bytes(&mut [0; crate::number::INTEGER_BYTES_MAX])
        .cmp(member)
}

/// The score behind the member at `at`.
fn score_behind(pack: &Listpack, at: Offset) -> f64 {
    let score = pack.next(at).map(|at| pack.get(at));
    score
        .and_then(read_score)
        .expect("a score behind each member")
}

pub(super) fn read_score(element: Element<'_>) -> Option<f64> {
    match element {
        Element::Integer(score) => Some(score as f64),
        Element::Bytes(text) => {
            parse_double(text).or_else(|| parse_integer(text).map(|score| score as f64))
        }
    }
}

/// The bytes of a score in a listpack: those of Redis 7.0, which has no -0 there.
fn score_text(score: f64) -> String {
    format_double(if score == 0.0 { 0.0 } else { score })
}

fn insert_score(pack: &mut Listpack, at: Offset, score: f64) {
    pack.insert(at, score_text(score).as_bytes());
}

fn push_score(pack: &mut Listpack, score: f64) {
    pack.push_back(score_text(score).as_bytes());
}

/// Whether a listpack of members and scores is in order and within the limits. None if a score is
/// no number.
pub(super) fn may_be_taken(pack: &Listpack, thresholds: &Thresholds) -> Option<bool> {
    let mut fits = pack.len() / 2 <= thresholds.zset_max_listpack_entries;
    let mut before: Option<(f64, Vec<u8>)> = None;
    let mut elements = pack.iter();
    while let (Some(member), Some(score)) = (elements.next(), elements.next()) {
        let score = read_score(score).filter(|score| !score.is_nan())?;
        let member = member.to_vec();
        fits &= member.len() <= thresholds.zset_max_listpack_value;
        if let Some((low, own)) = &before {
            fits &= order((*low, own), (score, &member)) == Ordering::Less;
        }
        before = Some((score, member));
    }
    Some(fits)
}
