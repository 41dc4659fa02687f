//! Members within a circle or a box (GEOSEARCH, GEORADIUS).

use super::{
    EARTH_RADIUS_M, Place,
    grid::{Cell, Grid, STEPS_MAX},
    latitude_distance_m,
};
use crate::{Element, ScoreRange, SortedSet, sorted_set::ScoreBound};

/// What is searched around a place. Lengths are metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Up to a distance.
    Circle {
        /// The distance.
        radius_m: f64,
    },
    /// Up to half of these to each side.
    Box {
        /// West to east.
        width_m: f64,
        /// South to north.
        height_m: f64,
    },
}

/// A member within a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found<'a> {
    /// The member.
    pub member: Element<'a>,
    /// Its score.
    pub score: f64,
    /// Its place.
    pub place: Place,
    /// Metres from the centre.
    pub distance_m: f64,
}

/// The members within a shape around `centre`, in the order in which Redis finds them; at most
/// `limit`, which are any (COUNT with ANY).
#[must_use]
pub fn search(
    set: &SortedSet,
    centre: Place,
    shape: Shape,
    limit: Option<usize>,
) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    let mut last = None;
    for (index, cell) in cells(centre, shape).into_iter().enumerate() {
        let Some(cell) = cell.filter(|&cell| last != Some(cell)) else {
            continue;
        };
        // Cells around the ends of a coarse grid can be the same; the middle is never one of them.
        last = Some(cell).filter(|_| index > 0);
        let (min, max) = cell.scores();
        let range = ScoreRange {
            min: ScoreBound {
                score: min,
                exclusive: false,
            },
            max: ScoreBound {
                score: max,
                exclusive: true,
            },
        };
        for (member, score) in set.by_score(range, false, 0, None) {
            let place = Place::of_score(score);
            if let Some(distance_m) = shape.distance(centre, place) {
                found.push(Found {
                    member,
                    score,
                    place,
                    distance_m,
                });
            }
            if limit.is_some_and(|limit| found.len() >= limit) {
                return found;
            }
        }
    }
    found
}

impl Shape {
    /// The distance of a place from the centre, if it is within.
    fn distance(self, centre: Place, place: Place) -> Option<f64> {
        if let Self::Box { width_m, height_m } = self {
            let across = Place {
                latitude: place.latitude,
                ..centre
            };
            if latitude_distance_m(place.latitude, centre.latitude) > height_m / 2.0
                || place.distance_m(across) > width_m / 2.0
            {
                return None;
            }
        }
        let distance = centre.distance_m(place);
        match self {
            Self::Circle { radius_m } if distance > radius_m => None,
            _ => Some(distance),
        }
    }

    /// Half of its extent: west to east, south to north.
    fn half(self) -> (f64, f64) {
        match self {
            Self::Circle { radius_m } => (radius_m, radius_m),
            Self::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
        }
    }

    /// The lowest and the highest longitude and latitude.
    fn bounds(self, centre: Place) -> (Place, Place) {
        let (width, height) = self.half();
        let up = (height / EARTH_RADIUS_M).to_degrees();
        let across =
            |latitude: f64| (width / EARTH_RADIUS_M / latitude.to_radians().cos()).to_degrees();
        // The side that is nearer to a pole spans more degrees.
        let side = if centre.latitude < 0.0 {
            across(centre.latitude - up)
        } else {
            across(centre.latitude + up)
        };
        let place = |sign: f64| Place {
            longitude: centre.longitude + sign * side,
            latitude: centre.latitude + sign * up,
        };
        (place(-1.0), place(1.0))
    }
}

/// The cell of the centre and those around it that the shape may reach.
fn cells(centre: Place, shape: Shape) -> [Option<Cell>; 9] {
    let (min, max) = shape.bounds(centre);
    let radius = match shape {
        Shape::Circle { radius_m } => radius_m,
        Shape::Box { .. } => {
            let (width, height) = shape.half();
            (width * width + height * height).sqrt()
        }
    };
    let grid = Grid::SCORES;
    let mut steps = steps_for(radius, centre.latitude);
    let mut cell = grid.cell(centre, steps);
    let reaches_further = grid.area(cell.beside(0, 1)).max.latitude < max.latitude
        || grid.area(cell.beside(0, -1)).min.latitude > min.latitude
        || grid.area(cell.beside(1, 0)).max.longitude < max.longitude
        || grid.area(cell.beside(-1, 0)).min.longitude > min.longitude;
    if steps > 1 && reaches_further {
        steps -= 1;
        cell = grid.cell(centre, steps);
    }
    let area = grid.area(cell);
    let fine = steps >= 2;
    let no_south = fine && area.min.latitude < min.latitude;
    let no_north = fine && area.max.latitude > max.latitude;
    let no_west = fine && area.min.longitude < min.longitude;
    let no_east = fine && area.max.longitude > max.longitude;
    let beside = |columns: i32, rows: i32| {
        let out = (rows < 0 && no_south)
            || (rows > 0 && no_north)
            || (columns < 0 && no_west)
            || (columns > 0 && no_east);
        (!out).then(|| cell.beside(columns, rows))
    };
    [
        Some(cell),
        beside(0, 1),
        beside(0, -1),
        beside(1, 0),
        beside(-1, 0),
        beside(1, 1),
        beside(-1, 1),
        beside(1, -1),
        beside(-1, -1),
    ]
}

/// How fine a grid may be for nine cells to cover a circle.
fn steps_for(radius_m: f64, latitude: f64) -> u32 {
    /// Half of the Equator in the projection.
    const MERCATOR_MAX: f64 = 20_037_726.37;
    if radius_m == 0.0 {
        return STEPS_MAX;
    }
    let (mut steps, mut range) = (1i32, radius_m);
    while range < MERCATOR_MAX {
        range *= 2.0;
        steps += 1;
    }
    steps -= 2;
    // Towards the poles cells become narrow.
    if latitude.abs() > 66.0 {
        steps -= 1;
        if latitude.abs() > 80.0 {
            steps -= 1;
        }
    }
    u32::try_from(steps.clamp(1, STEPS_MAX.cast_signed())).unwrap_or(1)
}
