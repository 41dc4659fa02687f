//! Places on Earth as scores of a sorted set.
//!
//! A place is a cell of a grid of 2^26 by 2^26 over the range of the Web Mercator projection
//! (EPSG:3857); the bits of row and column, taken in turns, are the score, 52 bits of it. Numbers are
//! calculated in the order that Redis does, because clients compare the digits.

mod grid;
mod search;
#[cfg(test)]
mod tests;

pub use search::{Found, Shape, search};

use grid::{Cell, Grid, STEPS_MAX};

/// Longitude and latitude in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Degrees to the east.
    pub longitude: f64,
    /// Degrees to the north.
    pub latitude: f64,
}

/// The mean radius that Redis takes the Earth to have.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;

/// The highest longitude.
pub const LONGITUDE_MAX: f64 = 180.0;
/// The highest latitude.
pub const LATITUDE_MAX: f64 = 85.051_128_78;

/// Metres of a unit of length: `m`, `km`, `ft` or `mi` in any case.
#[must_use]
pub fn unit_m(name: &[u8]) -> Option<f64> {
    match name.to_ascii_lowercase().as_slice() {
        b"m" => Some(1.0),
        b"km" => Some(1000.0),
        b"ft" => Some(0.3048),
        b"mi" => Some(1609.34),
        _ => None,
    }
}

impl Place {
    /// A place, if it is within the limits (GEOADD).
    #[must_use]
    pub fn new(longitude: f64, latitude: f64) -> Option<Self> {
        let inside = (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&latitude);
        inside.then_some(Self {
            longitude,
            latitude,
        })
    }

    /// Its score.
    #[must_use]
    pub fn score(self) -> f64 {
        Grid::SCORES.cell(self, STEPS_MAX).bits() as f64
    }

    /// The place of a score: the middle of its cell (GEOPOS).
    #[must_use]
    pub fn of_score(score: f64) -> Self {
        let middle = Grid::SCORES
            .area(Cell::of_bits(score as u64, STEPS_MAX))
            .middle();
        Self {
            longitude: middle.longitude.clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: middle.latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// Metres to another place (GEODIST), by the haversine formula.
    #[must_use]
    pub fn distance_m(self, other: Self) -> f64 {
        let (here, there) = (self.longitude.to_radians(), other.longitude.to_radians());
        let v = ((there - here) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let (here, there) = (self.latitude.to_radians(), other.latitude.to_radians());
        let u = ((there - here) / 2.0).sin();
        let a = u * u + here.cos() * there.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }

    /// The geohash in letters, eleven of them (GEOHASH); the last is always 0.
    #[must_use]
    pub fn text(self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Grid::TEXT.cell(self, STEPS_MAX).bits();
        let letter = |index: u32| match index {
            10 => '0',
            _ => char::from(LETTERS[(bits >> (52 - (index + 1) * 5)) as usize & 0x1f]),
        };
        (0..11).map(letter).collect()
    }
}

/// A distance as commands answer it, with four decimals.
#[must_use]
pub fn format_distance(distance: f64) -> String {
    format!("{distance:.4}")
}

fn latitude_distance_m(a: f64, b: f64) -> f64 {
    EARTH_RADIUS_M * (b.to_radians() - a.to_radians()).abs()
}
