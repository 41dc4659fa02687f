//! Crashes of a stripe's life, each followed by the loss of no more stores than it may lose.

use super::*;
use env::Rng;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};

/// What the workload has begun, or was promised.
#[derive(Clone)]
enum Event {
    Created(Content),
    Making,
    Stands,
    Merging(Content),
    Merged(Content),
    Removing,
    Removed,
}

fn work(rig: &Rig, rng: &mut Rng, merges: usize, note: &dyn Fn(Event)) {
    let mut content = Content::new(rng, rig.layout.geometry.data());
    rig.create(&content.0);
    note(Event::Created(content.clone()));
    let (stripes, _) = rig.open(rig.stores()).expect("opens");
    note(Event::Making);
    let prepared = rig.prepare(&stripes, 7).expect("prepares");
    prepared.activate(|_| true).expect("stands");
    note(Event::Stands);
    for _ in 0..merges {
        let (next, pages) = content.change(rng);
        note(Event::Merging(next.clone()));
        stripes.merge(id(7), &writes(&pages)).expect("merges");
        note(Event::Merged(next.clone()));
        content = next;
    }
    if rng.chance(1, 2) {
        note(Event::Removing);
        stripes.remove(&[id(7)]).expect("removes");
        note(Event::Removed);
    }
}

/// What may be found.
struct Expected {
    must: Content,
    may: Option<Content>,
    stands: bool,
    stood: bool,
    /// Shards may be missing: whoever gives a stripe up has copies of its members.
    removing: bool,
}

fn expected(events: &[Event]) -> Option<Expected> {
    let mut expected: Option<Expected> = None;
    for event in events {
        match (event, &mut expected) {
            (Event::Created(content), _) => {
                expected = Some(Expected {
                    must: content.clone(),
                    may: None,
                    stands: false,
                    stood: false,
                    removing: false,
                });
            }
            (_, None) => {}
            (Event::Making, Some(e)) => e.stood = true,
            (Event::Stands, Some(e)) => e.stands = true,
            (Event::Merging(next), Some(e)) => e.may = Some(next.clone()),
            (Event::Merged(next), Some(e)) => {
                e.must = next.clone();
                e.may = None;
            }
            (Event::Removing, Some(e)) => (e.stands, e.removing) = (false, true),
            (Event::Removed, Some(e)) => e.stood = false,
        }
    }
    expected
}

/// Recovers without some stores, then with them again.
fn check(rig: &Rig, events: &[Event]) -> std::result::Result<(), String> {
    let Some(expected) = expected(events) else {
        return Ok(());
    };
    let mut rng = rig.world.rng();
    let mut lost = StoreMask::default();
    for _ in 0..rng.below(u64::from(rig.layout.geometry.parity()) + 1) {
        let store = StoreIndex(rng.below(u64::from(rig.layout.geometry.shards())) as u8);
        lost = lost.with(store);
    }
    let (stripes, _) = rig.open(rig.stores().minus(lost))?;
    let found = compare(rig, &stripes, &expected).map_err(|e| format!("without {lost:?}: {e}"))?;
    for store in lost.iter() {
        let (site, notes) = rig.site(store)?;
        let joined = stripes.join(site, notes);
        joined.map_err(|error| format!("joining {}: {error}", store.0))?;
    }
    let expected = Expected {
        stands: found.is_some(),
        stood: found.is_some(),
        may: None,
        must: found.unwrap_or(expected.must),
        removing: expected.removing,
    };
    let found = compare(rig, &stripes, &expected);
    let found = found.map_err(|e| format!("with {lost:?} again: {e}"))?;
    if let Some(content) = found {
        // It goes on: with what is there already, so that a crash in here changes nothing either.
        let page = &content.0[0][..PAGE_BYTES];
        let (shard, bytes) = (Shard(0), page);
        let merged = stripes.merge(
            id(7),
            &[PageWrite {
                shard,
                page: 0,
                bytes,
            }],
        );
        merged.map_err(|error| format!("a merge after all: {error}"))?;
        compare(rig, &stripes, &expected).map_err(|e| format!("after a merge: {e}"))?;
    }
    Ok(())
}

/// What the stripe says, where it stands.
fn compare(
    rig: &Rig,
    stripes: &Stripes,
    expected: &Expected,
) -> std::result::Result<Option<Content>, String> {
    let data = rig.layout.geometry.data();
    if stripes.get(id(7)).is_err() || expected.removing {
        if expected.stands {
            return Err("the stripe is gone".to_owned());
        }
        // Then the bases are all that counts.
        for shard in rig.data() {
            let files = dir(&rig.world, "base", StoreIndex(shard.0));
            let mut bytes = vec![0; CHUNK as usize];
            let file = files.open("file", Open::Read).map_err(|e| e.to_string())?;
            file.read_at(BASE_AT, &mut bytes)
                .map_err(|e| e.to_string())?;
            if bytes != expected.must.0[usize::from(shard.0)] {
                return Err(format!("base {} is not what it was", shard.0));
            }
        }
        return Ok(None);
    }
    if !expected.stood {
        return Err("a stripe that was given up stands".to_owned());
    }
    let own = read_all(stripes, 7, data, true).map_err(|error| format!("reading: {error}"))?;
    if own != expected.must && Some(&own) != expected.may.as_ref() {
        return Err("the bases are neither as before nor as after the merge".to_owned());
    }
    // Where more than enough is there, what decodes is what is there.
    let present = stripes.present().iter().count();
    if present > usize::from(data) {
        let others = read_all(stripes, 7, data, false).map_err(|e| format!("decoding: {e}"))?;
        if others != own {
            return Err("the other shards say something else".to_owned());
        }
    }
    let report = stripes
        .scrub(id(7), false)
        .map_err(|error| format!("a scrub: {error}"))?;
    if report.lost + report.contradictions > 0 {
        return Err(format!("a scrub finds {report:?}"));
    }
    Ok(Some(own))
}

fn look(geometry: Geometry, plant: Planted, look: &Look) -> std::result::Result<Report, Failure> {
    search(
        look,
        |world, notes: &Notes<Event>| {
            let rig = Rig {
                plant,
                ..Rig::new(world, geometry)
            };
            work(&rig, &mut world.rng(), 3, &|event| notes.note(event));
        },
        |world, events| check(&Rig::new(world, geometry), events),
    )
}

fn geometry(data: u8, parity: u8) -> Geometry {
    Geometry::new(data, parity).expect("a geometry")
}

/// With `HOLDFAST_SOAK=MINUTES` fresh seeds follow for that long.
#[test]
fn after_any_crash_any_lost_stores_are_made_up_for() {
    for (seed, (data, parity)) in (1..).zip([(2, 1), (1, 1), (2, 2), (3, 2)]) {
        let report = look_at(data, parity, seed);
        assert!(
            report.images > 80 && report.recovery_images > 20,
            "{report:?}"
        );
    }
    let minutes = std::env::var("HOLDFAST_SOAK").map_or(0, |minutes| {
        minutes
            .parse()
            .expect("HOLDFAST_SOAK is a number of minutes")
    });
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60 * minutes);
    let mut rng = Rng::from_kernel().expect("random bytes");
    while std::time::Instant::now() < end {
        let (data, parity) = (1 + rng.below(4) as u8, 1 + rng.below(2) as u8);
        look_at(data, parity, rng.next_u64());
    }
}

fn look_at(data: u8, parity: u8, seed: u64) -> Report {
    let options = Look {
        samples_per_cut: 2,
        cuts_max: 40,
        ..Look::new(seed)
    };
    let looked = look(geometry(data, parity), Planted::Nothing, &options);
    looked.unwrap_or_else(|failure| panic!("{data}+{parity}: {failure}"))
}

#[test]
fn planted_bugs_are_found() {
    let plants = [
        Planted::AppliesBeforeCommit,
        Planted::AppliesAfterFirstCommit,
        Planted::ForgetsToSync,
        Planted::MakesUnsynced,
    ];
    for plant in plants {
        let found = (1..=8).find_map(|seed| {
            let look_at = Look {
                samples_per_cut: 4,
                cuts_max: 60,
                ..Look::new(seed)
            };
            look(geometry(2, 1), plant, &look_at).err()
        });
        let failure = found.unwrap_or_else(|| panic!("nobody noticed {plant:?}"));
        println!("{plant:?}: {failure}");
    }
}
