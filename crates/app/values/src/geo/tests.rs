use proptest::prelude::*;

use super::*;
use crate::{AddOptions, SortedSet, Thresholds};

fn sicily() -> (Place, Place) {
    (
        Place::new(13.361_389, 38.115_556).unwrap(),
        Place::new(15.087_269, 37.502_669).unwrap(),
    )
}

/// The numbers of the documentation of GEOADD, GEODIST, GEOHASH, GEOPOS.
#[test]
fn documented_numbers_come_out() {
    let (palermo, catania) = sicily();
    assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
    assert_eq!(catania.score(), 3_479_447_370_796_909.0);
    assert_eq!(palermo.text(), "sqc8b49rny0");
    assert_eq!(catania.text(), "sqdtr74hyu0");
    let (a, b) = (
        Place::of_score(palermo.score()),
        Place::of_score(catania.score()),
    );
    assert_eq!(format_distance(a.distance_m(b)), "166274.1516");
    assert_eq!(
        format_distance(a.distance_m(b) / unit_m(b"km").unwrap()),
        "166.2742"
    );
    assert_eq!(
        format_distance(a.distance_m(b) / unit_m(b"MI").unwrap()),
        "103.3182"
    );
    assert_eq!(
        crate::number::Extended::from_double(a.longitude).to_text(),
        "13.36138933897018433"
    );
    assert_eq!(
        crate::number::Extended::from_double(a.latitude).to_text(),
        "38.11555639549629859"
    );
}

#[test]
fn limits_are_those_of_the_projection() {
    assert!(Place::new(180.0, 85.051_128_78).is_some());
    assert!(Place::new(180.1, 0.0).is_none());
    assert!(Place::new(0.0, 86.0).is_none());
    assert!(Place::new(f64::NAN, 0.0).is_none());
    let end = Place::new(180.0, 85.051_128_78).unwrap();
    let _ = (Place::of_score(end.score()), end.text());
}

proptest! {
    #[test]
    fn a_place_comes_back_nearly(longitude in -180.0f64..180.0, latitude in -85.0f64..85.0) {
        let place = Place::new(longitude, latitude).unwrap();
        prop_assert!(place.distance_m(Place::of_score(place.score())) < 1.0);
    }

    /// What nine cells give is what a look at every member gives.
    #[test]
    fn a_search_finds_what_is_near(
        places in prop::collection::vec((-180.0f64..180.0, -85.0f64..85.0), 0..60),
        near in prop::collection::vec((-1.0f64..1.0, -1.0f64..1.0), 0..60),
        (longitude, latitude) in (-170.0f64..170.0, -70.0f64..70.0),
        power in 0.0f64..6.3, wide in 0.3f64..3.0, is_box in any::<bool>(),
    ) {
        let mut set = SortedSet::new();
        let spread = near.into_iter().map(|(x, y)| (longitude + x, latitude + y));
        for (index, (longitude, latitude)) in places.into_iter().chain(spread).enumerate() {
            let score = Place::new(longitude, latitude).unwrap().score();
            set.add(score, format!("m{index}").as_bytes(), AddOptions::default(), &Thresholds::REDIS).unwrap();
        }
        let centre = Place::new(longitude, latitude).unwrap();
        let size = 10f64.powf(power);
        let shape = if is_box { Shape::Box { width_m: size * wide, height_m: size } } else { Shape::Circle { radius_m: size } };
        let mut found: Vec<_> = search(&set, centre, shape, None).iter().map(|found| found.member.to_vec()).collect();
        found.sort();
        let mut expected: Vec<_> = set.iter().filter(|(_, score)| {
            let place = Place::of_score(*score);
            match shape {
                Shape::Circle { radius_m } => centre.distance_m(place) <= radius_m,
                Shape::Box { width_m, height_m } => {
                    latitude_distance_m(centre.latitude, place.latitude) <= height_m / 2.0
                        && place.distance_m(Place { latitude: place.latitude, ..centre }) <= width_m / 2.0
                }
            }
        }).map(|(member, _)| member.to_vec()).collect();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}
