//! Which ordinals of a segment are live, in at most a little over two bytes for each that is.

use codec::Corruption;

/// Ordinals in a piece.
pub(crate) const PIECE: u32 = 1 << 16;

/// Most live ordinals that a piece lists one by one; more are bits. Both take 8 KiB there.
const LISTED_MAX: usize = 4096;

const WORDS: usize = PIECE as usize / 64;

#[derive(Clone, Debug)]
enum Piece {
    /// All that were given out.
    All,
    /// None.
    None,
    /// Those listed, rising; 1 to [`LISTED_MAX`].
    Listed(Vec<u16>),
    /// Those with a bit set, and how many they are.
    Bits(Box<[u64; WORDS]>, u32),
}

/// The live ordinals of a segment, among those given out: 0 to `records() - 1`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSet {
    pieces: Vec<Piece>,
    records: u32,
    live: u32,
}

fn no_bits() -> Box<[u64; WORDS]> {
    Box::new([0; WORDS])
}

fn word_and_mask(low: u16) -> (usize, u64) {
    (usize::from(low) / 64, 1 << (low % 64))
}

impl Piece {
    /// With `low` as the newest of `given` ordinals.
    fn push(&mut self, low: u16) {
        match self {
            Piece::All => {}
            Piece::None => *self = Piece::Listed(vec![low]),
            Piece::Listed(list) if list.len() < LISTED_MAX => list.push(low),
            Piece::Listed(list) => {
                let mut bits = no_bits();
                for low in list.iter().copied().chain([low]) {
                    let (word, mask) = word_and_mask(low);
                    if let Some(word) = bits.get_mut(word) {
                        *word |= mask;
                    }
                }
                *self = Piece::Bits(bits, LISTED_MAX as u32 + 1);
            }
            Piece::Bits(bits, live) => {
                let (word, mask) = word_and_mask(low);
                if let Some(word) = bits.get_mut(word) {
                    *word |= mask;
                    *live += 1;
                }
            }
        }
    }

    fn contains(&self, low: u16) -> bool {
        match self {
            Piece::All => true,
            Piece::None => false,
            Piece::Listed(list) => list.binary_search(&low).is_ok(),
            Piece::Bits(bits, _) => {
                let (word, mask) = word_and_mask(low);
                bits.get(word).is_some_and(|word| word & mask != 0)
            }
        }
    }

    /// Takes a live ordinal out, of `given` in this piece.
    fn remove(&mut self, low: u16, given: u32) {
        if let Piece::All = self {
            let rest = (0..given).filter(|other| *other != u32::from(low));
            *self = Piece::of(rest.map(|other| other as u16), given as usize - 1);
            return;
        }
        match self {
            Piece::All | Piece::None => {}
            Piece::Listed(list) => {
                if let Ok(at) = list.binary_search(&low) {
                    list.remove(at);
                }
                if list.is_empty() {
                    *self = Piece::None;
                } else if list.capacity() > list.len() + list.len() / 8 + 8 {
                    list.shrink_to_fit();
                }
            }
            Piece::Bits(bits, live) => {
                let (word, mask) = word_and_mask(low);
                if let Some(word) = bits.get_mut(word) {
                    *word &= !mask;
                    *live -= 1;
                }
                if *live as usize == LISTED_MAX {
                    *self = Piece::of(ones(bits), LISTED_MAX);
                }
            }
        }
    }

    /// The best form for `count` rising ordinals.
    fn of(ordinals: impl Iterator<Item = u16>, count: usize) -> Piece {
        match count {
            0 => Piece::None,
            1..=LISTED_MAX => {
                let mut list = Vec::with_capacity(count);
                list.extend(ordinals);
                Piece::Listed(list)
            }
            _ => {
                let mut bits = no_bits();
                for low in ordinals {
                    let (word, mask) = word_and_mask(low);
                    if let Some(word) = bits.get_mut(word) {
                        *word |= mask;
                    }
                }
                Piece::Bits(bits, count as u32)
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Piece::All | Piece::None => 0,
            Piece::Listed(list) => list.capacity() * 2,
            Piece::Bits(..) => WORDS * 8,
        }
    }
}

fn ones(bits: &[u64; WORDS]) -> impl Iterator<Item = u16> {
    let words = (0u16..).zip(bits.iter());
    words.flat_map(|(index, word)| {
        (0..64u16)
            .filter(move |bit| word >> bit & 1 == 1)
            .map(move |bit| index * 64 + bit)
    })
}

impl LiveSet {
    /// With this many ordinals, all live.
    pub(crate) fn all(records: u32) -> LiveSet {
        LiveSet {
            pieces: vec![Piece::All; records.div_ceil(PIECE) as usize],
            records,
            live: records,
        }
    }

    /// Ordinals given out.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Of these, live.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Gives out the next ordinal, live.
    pub(crate) fn push(&mut self) -> u32 {
        let ordinal = self.records;
        if ordinal.is_multiple_of(PIECE) {
            self.pieces.push(Piece::All);
        } else if let Some(piece) = self.pieces.last_mut() {
            piece.push((ordinal % PIECE) as u16);
        }
        self.records += 1;
        self.live += 1;
        ordinal
    }

    pub(crate) fn contains(&self, ordinal: u32) -> bool {
        let piece = self.pieces.get((ordinal / PIECE) as usize);
        ordinal < self.records
            && piece.is_some_and(|piece| piece.contains((ordinal % PIECE) as u16))
    }

    /// Whether it was live; it is not any more.
    pub(crate) fn kill(&mut self, ordinal: u32) -> bool {
        if !self.contains(ordinal) {
            return false;
        }
        let given = (self.records - ordinal / PIECE * PIECE).min(PIECE);
        if let Some(piece) = self.pieces.get_mut((ordinal / PIECE) as usize) {
            piece.remove((ordinal % PIECE) as u16, given);
        }
        self.live -= 1;
        true
    }

    /// Bytes of memory besides the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let pieces = self.pieces.iter().map(Piece::heap_bytes).sum::<usize>();
        pieces + self.pieces.capacity() * size_of::<Piece>()
    }

    /// The pieces as the validity file has them.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::All => into.push(0),
                Piece::None => into.push(1),
                Piece::Bits(bits, _) => {
                    into.push(2);
                    bits.iter()
                        .for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
                }
                Piece::Listed(list) => {
                    into.push(3);
                    into.extend_from_slice(&(list.len() as u16).to_le_bytes());
                    list.iter()
                        .for_each(|low| into.extend_from_slice(&low.to_le_bytes()));
                }
            }
        }
    }

    /// The set of `records` ordinals at the start of `bytes`, and the rest of them.
    ///
    /// # Errors
    /// What does not fit; the offset counts from the start of `bytes`.
    pub(crate) fn decode(bytes: &[u8], records: u32) -> Result<(LiveSet, &[u8]), Corruption> {
        let mut set = LiveSet {
            pieces: Vec::new(),
            records,
            live: 0,
        };
        let mut rest = bytes;
        let mut left = records;
        while left > 0 {
            let given = left.min(PIECE);
            let at = (bytes.len() - rest.len()) as u64;
            let (piece, live, behind) =
                decode_piece(rest, given).map_err(|corruption| corruption.moved(at))?;
            set.pieces.push(piece);
            set.live += live;
            rest = behind;
            left -= given;
        }
        Ok((set, rest))
    }
}

fn decode_piece(bytes: &[u8], given: u32) -> Result<(Piece, u32, &[u8]), Corruption> {
    let wrong = |what, offset, expected: usize, found: usize| Corruption {
        what,
        offset,
        expected: expected as u64,
        found: found as u64,
    };
    let short = |needed: usize| wrong("bytes of a piece", 0, needed, bytes.len());
    let (how, rest) = bytes.split_first().ok_or_else(|| short(1))?;
    match how {
        0 => Ok((Piece::All, given, rest)),
        1 => Ok((Piece::None, 0, rest)),
        2 => {
            let (words, rest) = rest
                .split_at_checked(WORDS * 8)
                .ok_or_else(|| short(WORDS * 8 + 1))?;
            let mut bits = no_bits();
            for (word, bytes) in bits.iter_mut().zip(words.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            let live = bits.iter().map(|word| word.count_ones()).sum::<u32>();
            if let Some(beyond) = ones(&bits).find(|low| u32::from(*low) >= given) {
                let found = usize::from(beyond);
                return Err(wrong("live ordinal of a piece", 1, given as usize, found));
            }
            if live as usize <= LISTED_MAX {
                return Err(wrong("live bits of a piece", 1, LISTED_MAX, live as usize));
            }
            Ok((Piece::Bits(bits, live), live, rest))
        }
        3 => {
            let (count, rest) = rest.split_first_chunk().ok_or_else(|| short(3))?;
            let count = usize::from(u16::from_le_bytes(*count));
            if !(1..=LISTED_MAX).contains(&count) {
                return Err(wrong("ordinals listed", 1, LISTED_MAX, count));
            }
            let (list, rest) = rest
                .split_at_checked(count * 2)
                .ok_or_else(|| short(count * 2 + 3))?;
            let list: Vec<u16> = list
                .as_chunks()
                .0
                .iter()
                .map(|low| u16::from_le_bytes(*low))
                .collect();
            let rising = list.windows(2).all(|pair| pair.first() < pair.last());
            let last = list.last().copied().unwrap_or_default();
            if !rising || u32::from(last) >= given {
                let found = usize::from(last);
                return Err(wrong(
                    "rising ordinals of a piece",
                    3,
                    given as usize,
                    found,
                ));
            }
            Ok((Piece::Listed(list), count as u32, rest))
        }
        other => Err(wrong("form of a piece", 0, 3, usize::from(*other))),
    }
}

#[cfg(test)]
mod tests;
