//! The nodes of the tree.

use std::cmp::Ordering;

use super::Entry;

/// Entries of a leaf.
const LEAF_MAX: usize = 96;
/// Children of an inner node.
const INNER_MAX: usize = 32;

#[derive(Debug, Clone)]
pub(super) enum Node {
    Leaf(Leaf),
    Inner(Vec<Child>),
}

/// Scores and rows apart, which saves the four bytes that a pair would be padded with.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaf {
    pub(super) scores: Vec<f64>,
    pub(super) rows: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(super) struct Child {
    /// Entries below.
    pub(super) count: usize,
    /// The last of them.
    last: Entry,
    pub(super) node: Box<Node>,
}

impl Child {
    fn new(node: Node) -> Self {
        let mut child = Self {
            count: 0,
            last: (0.0, 0),
            node: Box::new(node),
        };
        child.refresh();
        child
    }

    /// Says again what the node below has become.
    fn refresh(&mut self) {
        self.count = self.node.count();
        if let Some(last) = self.node.last() {
            self.last = last;
        }
    }
}

impl Leaf {
    pub(super) fn entry(&self, index: usize) -> Entry {
        (self.scores[index], self.rows[index])
    }

    fn partition(&self, before: &dyn Fn(Entry) -> bool) -> usize {
        partition(self.rows.len(), |index| before(self.entry(index)))
    }
}

/// The first index that `before` is false for.
fn partition(length: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl Node {
    pub(super) fn leaf() -> Self {
        Self::Leaf(Leaf::default())
    }

    pub(super) fn above(left: Self, right: Self) -> Self {
        Self::Inner(vec![Child::new(left), Child::new(right)])
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.rows.len(),
            Self::Inner(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    fn last(&self) -> Option<Entry> {
        match self {
            Self::Leaf(leaf) => leaf
                .rows
                .len()
                .checked_sub(1)
                .map(|index| leaf.entry(index)),
            Self::Inner(children) => children.last().map(|child| child.last),
        }
    }

    /// The new right neighbour, if this node had to be split.
    pub(super) fn insert(&mut self, entry: Entry, before: &dyn Fn(Entry) -> bool) -> Option<Self> {
        match self {
            Self::Leaf(leaf) => {
                let index = leaf.partition(before);
                if leaf.rows.len() < LEAF_MAX {
                    leaf.scores.insert(index, entry.0);
                    leaf.rows.insert(index, entry.1);
                    return None;
                }
                // Behind the last entry goes a new leaf, so that ascending scores fill theirs.
                let cut = if index == LEAF_MAX {
                    LEAF_MAX
                } else {
                    LEAF_MAX / 2
                };
                let mut right = Leaf {
                    scores: leaf.scores.split_off(cut),
                    rows: leaf.rows.split_off(cut),
                };
                let (into, index) = if index > cut || cut == LEAF_MAX {
                    (&mut right, index - cut)
                } else {
                    (leaf, index)
                };
                into.scores.insert(index, entry.0);
                into.rows.insert(index, entry.1);
                Some(Self::Leaf(right))
            }
            Self::Inner(children) => {
                let index = partition(children.len() - 1, |index| before(children[index].last));
                let right = children[index].node.insert(entry, before);
                children[index].refresh();
                children.insert(index + 1, Child::new(right?));
                if children.len() <= INNER_MAX {
                    return None;
                }
                let cut = if index + 2 == children.len() {
                    INNER_MAX
                } else {
                    INNER_MAX / 2
                };
                Some(Self::Inner(children.split_off(cut)))
            }
        }
    }

    pub(super) fn remove(&mut self, order: &dyn Fn(Entry) -> Ordering) -> bool {
        let before = |entry| order(entry) == Ordering::Less;
        match self {
            Self::Leaf(leaf) => {
                let index = leaf.partition(&before);
                if index == leaf.rows.len() || order(leaf.entry(index)) != Ordering::Equal {
                    return false;
                }
                leaf.scores.remove(index);
                leaf.rows.remove(index);
                true
            }
            Self::Inner(children) => {
                let index = partition(children.len() - 1, |index| before(children[index].last));
                let removed = children[index].node.remove(order);
                children[index].refresh();
                if removed {
                    settle(children, index);
                }
                removed
            }
        }
    }

    pub(super) fn renumber(&mut self, row: u32, order: &dyn Fn(Entry) -> Ordering) {
        let before = |entry| order(entry) == Ordering::Less;
        match self {
            Self::Leaf(leaf) => {
                let index = leaf.partition(&before);
                leaf.rows[index] = row;
            }
            Self::Inner(children) => {
                let index = partition(children.len() - 1, |index| before(children[index].last));
                children[index].node.renumber(row, order);
                children[index].refresh();
            }
        }
    }

    pub(super) fn rank(&self, before: &dyn Fn(Entry) -> bool) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.partition(before),
            Self::Inner(children) => {
                let index = partition(children.len() - 1, |index| before(children[index].last));
                let skipped: usize = children[..index].iter().map(|child| child.count).sum();
                skipped + children[index].node.rank(before)
            }
        }
    }

    /// An inner node with one child is that child.
    pub(super) fn flatten(&mut self) {
        while let Self::Inner(children) = self {
            match children.pop() {
                None => *self = Self::leaf(),
                Some(only) if children.is_empty() => *self = *only.node,
                Some(last) => {
                    children.push(last);
                    return;
                }
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.scores.capacity() * 8 + leaf.rows.capacity() * 4,
            Self::Inner(children) => {
                let below: usize = children.iter().map(|child| child.node.heap_bytes()).sum();
                children.capacity() * size_of::<Child>()
                    + children.len() * size_of::<Self>()
                    + below
            }
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.rows.len(),
            Self::Inner(children) => children.len(),
        }
    }

    fn width_max(&self) -> usize {
        match self {
            Self::Leaf(_) => LEAF_MAX,
            Self::Inner(_) => INNER_MAX,
        }
    }

    /// Takes the entries or children of the right neighbour, which is of the same height.
    fn join(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => {
                left.scores.extend_from_slice(&right.scores);
                left.rows.extend_from_slice(&right.rows);
            }
            (Self::Inner(left), Self::Inner(right)) => left.extend(right),
            _ => unreachable!("neighbours are of the same height"),
        }
    }
}

/// Drops a child that is empty, or joins it with a neighbour where both are small.
fn settle(children: &mut Vec<Child>, index: usize) {
    if children[index].count == 0 {
        children.remove(index);
        return;
    }
    let small = |child: &Child| child.node.width() < child.node.width_max() / 4;
    if !small(&children[index]) || children.len() < 2 {
        return;
    }
    let left = index.min(children.len() - 2);
    let together = children[left].node.width() + children[left + 1].node.width();
    if together <= children[left].node.width_max() * 3 / 4 {
        let right = children.remove(left + 1);
        children[left].node.join(*right.node);
        children[left].refresh();
    }
}
