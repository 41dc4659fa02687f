//! Rows by number, in pieces of bounded size: adding one never copies all of them.

/// Rows of a piece. The first one grows up to that.
const PIECE: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Rows<R> {
    /// All but the last are full.
    pieces: Vec<Vec<R>>,
    length: usize,
}

impl<R> Rows<R> {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let pieces = if rows == 0 {
            Vec::new()
        } else {
            vec![Vec::with_capacity(rows.min(PIECE))]
        };
        Self { pieces, length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn get(&self, number: usize) -> &R {
        &self.pieces[number / PIECE][number % PIECE]
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut R {
        &mut self.pieces[number / PIECE][number % PIECE]
    }

    pub(super) fn push(&mut self, row: R) {
        let piece = self.length / PIECE;
        if piece == self.pieces.len() {
            let capacity = if piece == 0 { 4 } else { PIECE };
            self.pieces.push(Vec::with_capacity(capacity));
        }
        self.pieces[piece].push(row);
        self.length += 1;
    }

    /// Removes a row; the last one takes its number.
    pub(super) fn swap_remove(&mut self, number: usize) -> R {
        let last = self.pieces.last_mut().and_then(Vec::pop).expect("a row");
        self.length -= 1;
        let row = if number == self.length {
            last
        } else {
            std::mem::replace(self.get_mut(number), last)
        };
        match self.pieces.as_mut_slice() {
            [only] if only.capacity() > 64 && only.len() < only.capacity() / 4 => {
                only.shrink_to(only.len() * 2);
            }
            [.., empty] if empty.is_empty() => drop(self.pieces.pop()),
            _ => {}
        }
        row
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &R> {
        self.pieces.iter().flatten()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let rows: usize = self.pieces.iter().map(Vec::capacity).sum();
        rows * size_of::<R>() + self.pieces.capacity() * size_of::<Vec<R>>()
    }
}
