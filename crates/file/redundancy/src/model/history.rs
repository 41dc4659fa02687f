//! Versions of one thing since it was last certain.

/// A count of operations: when something happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Moment(pub u64);

/// From when on versions may be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certain {
    /// Nothing was lost: the last version only.
    Now,
    /// Everything up to this moment has happened, what came later may have.
    UpTo(Moment),
    /// Only what was synced has certainly happened.
    Synced,
}

/// Versions of a thing, oldest first, each with the moment since which it held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History<T>(Vec<(Moment, T)>);

impl<T: Clone + PartialEq> History<T> {
    /// One version, certain.
    pub fn new(value: T) -> History<T> {
        History(vec![(Moment(0), value)])
    }

    /// The last version.
    pub fn now(&self) -> &T {
        let (_, value) = self.0.last().expect("a history is never empty");
        value
    }

    /// Adds a version where it differs from the last.
    pub fn push(&mut self, at: Moment, value: T) {
        if *self.now() != value {
            self.0.push((at, value));
        }
    }

    /// The versions that may be found.
    pub fn allowed(&self, certain: Certain) -> impl DoubleEndedIterator<Item = &T> {
        let first = match certain {
            Certain::Now => self.0.len() - 1,
            Certain::UpTo(moment) => {
                let held = self.0.iter().rposition(|(at, _)| *at <= moment);
                held.unwrap_or(0)
            }
            Certain::Synced => 0,
        };
        self.0[first..].iter().map(|(_, value)| value)
    }

    /// Forgets every version but the last.
    pub fn settle(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// Forgets the versions that are impossible, never the last; returns whether there were any.
    pub fn forget(&mut self, impossible: impl Fn(&T) -> bool) -> bool {
        let last = self.0.len() - 1;
        let before = self.0.len();
        let mut index = 0;
        self.0.retain(|(_, value)| {
            index += 1;
            index - 1 == last || !impossible(value)
        });
        self.0.len() != before
    }

    /// Whether only one version is possible.
    pub fn is_settled(&self) -> bool {
        self.0.len() == 1
    }
}
