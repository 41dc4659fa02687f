//! The grid of cells.

use super::{LATITUDE_MAX, LONGITUDE_MAX, Place};

/// How often the finest grid is halved in each direction.
pub(super) const STEPS_MAX: u32 = 26;

/// What a grid covers; it is symmetric about 0.
pub(super) struct Grid {
    longitude_max: f64,
    latitude_max: f64,
}

/// A cell of a grid that is halved `steps` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    column: u32,
    row: u32,
    pub(super) steps: u32,
}

/// What a cell covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) min: Place,
    pub(super) max: Place,
}

impl Grid {
    /// That of scores.
    pub(super) const SCORES: Self = Self {
        longitude_max: LONGITUDE_MAX,
        latitude_max: LATITUDE_MAX,
    };
    /// That of geohashes in letters.
    pub(super) const TEXT: Self = Self {
        longitude_max: 180.0,
        latitude_max: 90.0,
    };

    pub(super) fn cell(&self, place: Place, steps: u32) -> Cell {
        let index = |value: f64, max: f64| {
            let part = (value + max) / (max - -max);
            // The place at the very end belongs to no cell; in bits it is one more, as in Redis.
            (part * (1u64 << steps) as f64) as u32
        };
        Cell {
            column: index(place.longitude, self.longitude_max),
            row: index(place.latitude, self.latitude_max),
            steps,
        }
    }

    pub(super) fn area(&self, cell: Cell) -> Area {
        let value =
            |index: f64, max: f64| -max + (index / (1u64 << cell.steps) as f64) * (max - -max);
        let place = |column: f64, row: f64| Place {
            longitude: value(column, self.longitude_max),
            latitude: value(row, self.latitude_max),
        };
        let (column, row) = (f64::from(cell.column), f64::from(cell.row));
        Area {
            min: place(column, row),
            max: place(column + 1.0, row + 1.0),
        }
    }
}

impl Area {
    pub(super) fn middle(&self) -> Place {
        Place {
            longitude: (self.min.longitude + self.max.longitude) / 2.0,
            latitude: (self.min.latitude + self.max.latitude) / 2.0,
        }
    }
}

impl Cell {
    /// The bits of row and column in turns, the column's first.
    pub(super) fn bits(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    pub(super) fn of_bits(bits: u64, steps: u32) -> Self {
        Self {
            column: gather(bits >> 1),
            row: gather(bits),
            steps,
        }
    }

    /// The cell so many columns and rows away, around the ends.
    pub(super) fn beside(self, columns: i32, rows: i32) -> Self {
        let mask = ((1u64 << self.steps) - 1) as u32;
        Self {
            column: self.column.wrapping_add_signed(columns) & mask,
            row: self.row.wrapping_add_signed(rows) & mask,
            steps: self.steps,
        }
    }

    /// The scores of its places: from the first on, below the second.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 52 - self.steps * 2;
        let bits = self.bits();
        ((bits << shift) as f64, ((bits + 1) << shift) as f64)
    }
}

fn spread(value: u32) -> u64 {
    let mut bits = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

fn gather(bits: u64) -> u32 {
    let mut value = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        value = (value | value >> shift) & mask;
    }
    value as u32
}
