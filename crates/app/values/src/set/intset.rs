//! Sorted integers in Redis's intset format: the width of an integer (2, 4 or 8), their number,
//! then the integers, all little-endian. The bytes are what DUMP and RDB files carry.

const HEADER: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intset(Vec<u8>);

impl Intset {
    pub(super) fn new() -> Self {
        Self(vec![2, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Takes bytes from outside if lengths are true and the integers are sorted without doubles.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let width = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let count = u32::from_le_bytes(bytes.get(4..HEADER)?.try_into().ok()?);
        if !matches!(width, 2 | 4 | 8) {
            return None;
        }
        let body = u64::from(width) * u64::from(count);
        if (bytes.len() - HEADER) as u64 != body {
            return None;
        }
        let set = Self(bytes);
        let sorted = set
            .iter()
            .zip(set.iter().skip(1))
            .all(|(low, high)| low < high);
        sorted.then_some(set)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn len(&self) -> usize {
        (self.0.len() - HEADER) / self.width()
    }

    pub(super) fn get(&self, index: usize) -> i64 {
        let width = self.width();
        let bytes = &self.0[HEADER + index * width..][..width];
        let mut wide = [0; 8];
        wide[8 - width..].copy_from_slice(bytes);
        i64::from_le_bytes(wide) >> (64 - 8 * width)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(super) fn contains(&self, value: i64) -> bool {
        self.search(value).is_ok()
    }

    pub(super) fn add(&mut self, value: i64) -> bool {
        let Err(index) = self.search(value) else {
            return false;
        };
        let needed = width_of(value);
        if needed > self.width() {
            self.widen(needed);
        }
        let width = self.width();
        let at = HEADER + index * width;
        let length = self.0.len();
        if self.0.capacity() < length + width {
            self.0.reserve_exact(width + length / 16);
        }
        self.0.resize(length + width, 0);
        self.0.copy_within(at..length, at + width);
        self.0[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        self.set_count();
        true
    }

    pub(super) fn remove(&mut self, value: i64) -> bool {
        let Ok(index) = self.search(value) else {
            return false;
        };
        let width = self.width();
        let at = HEADER + index * width;
        self.0.drain(at..at + width);
        self.set_count();
        true
    }

    fn width(&self) -> usize {
        usize::from(self.0[0])
    }

    fn search(&self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&value) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn widen(&mut self, width: usize) {
        let mut bytes = Vec::with_capacity(HEADER + (self.len() + 1) * width);
        bytes.extend_from_slice(&(width as u32).to_le_bytes());
        bytes.extend_from_slice(&self.0[4..HEADER]);
        for value in self.iter() {
            bytes.extend_from_slice(&value.to_le_bytes()[..width]);
        }
        self.0 = bytes;
    }

    fn set_count(&mut self) {
        let count = u32::try_from(self.len()).expect("fewer than 2^32 integers");
        self.0[4..HEADER].copy_from_slice(&count.to_le_bytes());
    }
}

fn width_of(value: i64) -> usize {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}
