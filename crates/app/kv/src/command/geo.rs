//! Places on Earth, kept as scores of sorted sets.

use super::{Call, Command, Flags, command, sorted_sets};
use crate::fault::{Answer, Fault, NOT_FLOAT, SYNTAX};
use crate::protocol::Reply;
use values::geo::{self, Place, Shape};
use values::number::{Extended, parse_double};
use values::{AddOptions, SortedSet};

const READ: Flags = Flags::READONLY;
const GROW: Flags = Flags::WRITE.and(Flags::DENY_OOM);

pub(super) static COMMANDS: &[Command] = &[
    command("geoadd", -5, GROW, "geo", geoadd),
    command("geodist", -4, READ, "geo", geodist),
    command("geohash", -2, READ, "geo", geohash),
    command("geopos", -2, READ, "geo", geopos),
    command("geosearch", -7, READ, "geo", |call| {
        search(call, Form::Search)
    }),
    command("geosearchstore", -8, GROW, "geo", |call| {
        search(call, Form::SearchStore)
    }),
    command(
        "georadius",
        -6,
        GROW.and(Flags::MOVABLE_KEYS),
        "geo",
        |call| search(call, Form::Radius { may_store: true }),
    ),
    command("georadius_ro", -6, READ, "geo", |call| {
        search(call, Form::Radius { may_store: false })
    }),
    command(
        "georadiusbymember",
        -5,
        GROW.and(Flags::MOVABLE_KEYS),
        "geo",
        |call| search(call, Form::Member { may_store: true }),
    ),
    command("georadiusbymember_ro", -5, READ, "geo", |call| {
        search(call, Form::Member { may_store: false })
    }),
];

/// Longitude and latitude at an argument.
fn place(call: &Call<'_>, at: usize) -> Result<Place, Fault> {
    let longitude = parse_double(call.arg(at)).ok_or(NOT_FLOAT)?;
    let latitude = parse_double(call.arg(at + 1)).ok_or(NOT_FLOAT)?;
    Place::new(longitude, latitude).ok_or_else(|| {
        Fault::text(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        ))
    })
}

fn unit(text: &[u8]) -> Result<f64, Fault> {
    geo::unit_m(text).ok_or(Fault::of(
        "ERR unsupported unit provided. please use M, KM, FT, MI",
    ))
}

/// A length at an argument, in a unit of metres.
fn length(call: &Call<'_>, at: usize, what: &str) -> Result<f64, Fault> {
    let length = parse_double(call.arg(at));
    length.ok_or_else(|| Fault::text(format!("ERR need numeric {what}")))
}

fn set<'c>(call: &'c mut Call<'_>, key: &[u8]) -> Result<Option<&'c SortedSet>, Fault> {
    call.engine.get(call.session.database, key)
}

fn push_place(reply: &mut Reply, place: Place) {
    reply.array(2);
    for degrees in [place.longitude, place.latitude] {
        reply.double(Extended::from_double(degrees).to_text().as_bytes());
    }
}

/// As ZADD with the scores of the places.
fn geoadd(call: &mut Call<'_>) -> Answer {
    let options = call.rest(2).iter().take_while(|word| {
        [b"NX", b"XX", b"CH"]
            .iter()
            .any(|option| word.eq_ignore_ascii_case(*option))
    });
    let first = 2 + options.count();
    let given = |option: &[u8]| {
        let words = call.arguments.get(2..first).unwrap_or_default();
        words.iter().any(|word| word.eq_ignore_ascii_case(option))
    };
    let count = call.len() - first;
    if !count.is_multiple_of(3) || (given(b"NX") && given(b"XX")) {
        return Err(SYNTAX);
    }
    let mut scores = Vec::with_capacity(count / 3);
    for at in (first..call.len()).step_by(3) {
        scores.push(format!("{}", place(call, at)?.score() as u64));
    }
    let mut words: Vec<&[u8]> = vec![b"ZADD"];
    words.extend_from_slice(call.arguments.get(1..first).unwrap_or_default());
    for (score, at) in scores.iter().zip((first + 2..).step_by(3)) {
        words.push(score.as_bytes());
        words.push(call.arg(at));
    }
    sorted_sets::zadd(&mut Call {
        engine: call.engine,
        session: call.session,
        arguments: &words,
    })
}

fn geodist(call: &mut Call<'_>) -> Answer {
    let unit_m = match call.len() {
        4 => 1.0,
        5 => unit(call.arg(4))?,
        _ => return Err(SYNTAX),
    };
    let (one, other) = (call.arg(2), call.arg(3));
    let found = set(call, call.arg(1))?.and_then(|set| {
        let one = Place::of_score(set.score(one)?);
        Some(one.distance_m(Place::of_score(set.score(other)?)))
    });
    let text = found.map(|distance| geo::format_distance(distance / unit_m));
    call.reply()
        .bulk_or_null(text.as_deref().map(str::as_bytes));
    Ok(())
}

/// Places of members, where they are.
fn places(call: &mut Call<'_>) -> Result<Vec<Option<Place>>, Fault> {
    let members = call.rest(2);
    let set = set(call, call.arg(1))?;
    let score = |member: &&[u8]| set.and_then(|set| set.score(member));
    let scores = members.iter().map(score);
    Ok(scores.map(|score| score.map(Place::of_score)).collect())
}

fn geohash(call: &mut Call<'_>) -> Answer {
    let places = places(call)?;
    let reply = call.reply();
    reply.array(places.len());
    for place in places {
        let text = place.map(Place::text);
        reply.bulk_or_null(text.as_deref().map(str::as_bytes));
    }
    Ok(())
}

fn geopos(call: &mut Call<'_>) -> Answer {
    let places = places(call)?;
    let reply = call.reply();
    reply.array(places.len());
    for place in places {
        match place {
            Some(place) => push_place(reply, place),
            None => reply.null_array(),
        }
    }
    Ok(())
}

/// Which command searches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Search,
    SearchStore,
    Radius { may_store: bool },
    Member { may_store: bool },
}

/// What is searched, and how it is answered.
#[derive(Default)]
struct Search<'a> {
    centre: Option<Place>,
    shape: Option<Shape>,
    /// Metres of the unit of lengths.
    unit_m: f64,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    /// Nearest first, or farthest.
    order: Option<bool>,
    count: usize,
    any: bool,
    store: Option<&'a [u8]>,
    store_distance: bool,
}

fn radius(call: &Call<'_>, at: usize, search: &mut Search<'_>) -> Answer {
    let radius = length(call, at, "radius")?;
    if radius < 0.0 {
        return Err(Fault::of("ERR radius cannot be negative"));
    }
    search.unit_m = unit(call.arg(at + 1))?;
    let radius_m = radius * search.unit_m;
    search.shape = Some(Shape::Circle { radius_m });
    Ok(())
}

fn sides(call: &Call<'_>, at: usize, search: &mut Search<'_>) -> Answer {
    let width = length(call, at, "width")?;
    let height = length(call, at + 1, "height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Fault::of("ERR height or width cannot be negative"));
    }
    search.unit_m = unit(call.arg(at + 2))?;
    search.shape = Some(Shape::Box {
        width_m: width * search.unit_m,
        height_m: height * search.unit_m,
    });
    Ok(())
}

/// Where a member is; anywhere if there is no set, which is found out later.
fn member(call: &mut Call<'_>, key: &[u8], member: &[u8]) -> Result<Place, Fault> {
    let score = match set(call, key)? {
        None => Some(0.0),
        Some(set) => set.score(member),
    };
    let score = score.ok_or(Fault::of("ERR could not decode requested zset member"));
    score.map(Place::of_score)
}

fn parse<'a>(call: &mut Call<'a>, form: Form, key: &[u8]) -> Result<Search<'a>, Fault> {
    let mut search = Search::default();
    let is_there = set(call, key)?.is_some();
    let from = match form {
        Form::Radius { .. } => {
            search.centre = Some(place(call, 2)?);
            radius(call, 4, &mut search)?;
            6
        }
        Form::Member { .. } => {
            if is_there {
                search.centre = Some(member(call, key, call.arg(2))?);
                radius(call, 3, &mut search)?;
            }
            5
        }
        Form::Search => 2,
        Form::SearchStore => {
            search.store = Some(call.arg(1));
            3
        }
    };
    let searches = matches!(form, Form::Search | Form::SearchStore);
    let may_store = matches!(
        form,
        Form::Radius { may_store: true } | Form::Member { may_store: true }
    );
    let (mut by_member, mut by_place, mut by_radius, mut by_box) = (false, false, false, false);
    let mut at = from;
    while at < call.len() {
        let more = call.len() - 1 - at;
        let word = call.arg(at).to_ascii_uppercase();
        match word.as_slice() {
            b"WITHDIST" => search.with_distance = true,
            b"WITHHASH" => search.with_score = true,
            b"WITHCOORD" => search.with_place = true,
            b"ANY" => search.any = true,
            b"ASC" => search.order = Some(true),
            b"DESC" => search.order = Some(false),
            b"COUNT" if more >= 1 => {
                let count = usize::try_from(call.integer(at + 1)?).unwrap_or(0);
                if count == 0 {
                    return Err(Fault::of("ERR COUNT must be > 0"));
                }
                search.count = count;
                at += 1;
            }
            b"STORE" | b"STOREDIST" if may_store && more >= 1 => {
                search.store = Some(call.arg(at + 1));
                search.store_distance = word == b"STOREDIST";
                at += 1;
            }
            b"FROMMEMBER" if searches && more >= 1 && !by_place => {
                search.centre = Some(member(call, key, call.arg(at + 1))?);
                by_member = true;
                at += 1;
            }
            b"FROMLONLAT" if searches && more >= 2 && !by_member => {
                search.centre = Some(place(call, at + 1)?);
                by_place = true;
                at += 2;
            }
            b"BYRADIUS" if searches && more >= 2 && !by_box => {
                radius(call, at + 1, &mut search)?;
                by_radius = true;
                at += 2;
            }
            b"BYBOX" if searches && more >= 3 && !by_radius => {
                sides(call, at + 1, &mut search)?;
                by_box = true;
                at += 3;
            }
            b"STOREDIST" if form == Form::SearchStore => search.store_distance = true,
            _ => return Err(SYNTAX),
        }
        at += 1;
    }
    if search.store.is_some() && (search.with_distance || search.with_score || search.with_place) {
        let who = match form {
            Form::SearchStore => "GEOSEARCHSTORE",
            _ => "STORE option in GEORADIUS",
        };
        return Err(Fault::text(format!(
            "ERR {who} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
        )));
    }
    let name = String::from_utf8_lossy(call.arg(0));
    if searches && !(by_member || by_place) {
        return Err(Fault::text(format!(
            "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
        )));
    }
    if searches && !(by_radius || by_box) {
        return Err(Fault::text(format!(
            "ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"
        )));
    }
    if search.any && search.count == 0 {
        return Err(Fault::of("ERR the ANY argument requires COUNT argument"));
    }
    // The nearest ones are meant.
    if search.count > 0 && !search.any {
        search.order = search.order.or(Some(true));
    }
    Ok(search)
}

/// A member that was found.
struct Hit {
    member: Vec<u8>,
    score: f64,
    place: Place,
    distance_m: f64,
}

fn search(call: &mut Call<'_>, form: Form) -> Answer {
    let key = match form {
        Form::SearchStore => call.arg(2),
        _ => call.arg(1),
    };
    let asked = parse(call, form, key)?;
    let mut hits = match (set(call, key)?, asked.centre, asked.shape) {
        (Some(set), Some(centre), Some(shape)) => {
            let limit = asked.any.then_some(asked.count);
            let found = geo::search(set, centre, shape, limit).into_iter();
            found
                .map(|found| Hit {
                    member: found.member.to_vec(),
                    score: found.score,
                    place: found.place,
                    distance_m: found.distance_m,
                })
                .collect()
        }
        _ => Vec::new(),
    };
    if let Some(nearest_first) = asked.order {
        hits.sort_by(|one, other| match nearest_first {
            true => one.distance_m.total_cmp(&other.distance_m),
            false => other.distance_m.total_cmp(&one.distance_m),
        });
    }
    if asked.count > 0 {
        hits.truncate(asked.count);
    }
    match asked.store {
        Some(target) => store(call, form, target, &asked, &hits),
        None => {
            show(call.reply(), &asked, &hits);
            Ok(())
        }
    }
}

fn show(reply: &mut Reply, asked: &Search<'_>, hits: &[Hit]) {
    let parts = [asked.with_distance, asked.with_score, asked.with_place];
    let parts = parts.iter().filter(|asked| **asked).count();
    reply.array(hits.len());
    for hit in hits {
        if parts > 0 {
            reply.array(parts + 1);
        }
        reply.bulk(&hit.member);
        if asked.with_distance {
            let text = geo::format_distance(hit.distance_m / asked.unit_m);
            reply.bulk(text.as_bytes());
        }
        if asked.with_score {
            reply.integer(hit.score as i64);
        }
        if asked.with_place {
            push_place(reply, hit.place);
        }
    }
}

fn store(
    call: &mut Call<'_>,
    form: Form,
    target: &[u8],
    asked: &Search<'_>,
    hits: &[Hit],
) -> Answer {
    let (database, limits) = (call.db(), call.engine.config.thresholds);
    let mut set = SortedSet::new();
    for hit in hits {
        let score = match asked.store_distance {
            true => hit.distance_m / asked.unit_m,
            false => hit.score,
        };
        set.add(score, &hit.member, AddOptions::default(), &limits)?;
    }
    let was_there = call.engine.exists(database, target);
    let count = call.engine.store(database, target, set);
    if count > 0 {
        let event = match form {
            Form::SearchStore => "geosearchstore",
            _ => "georadiusstore",
        };
        call.notify(b'z', event, target);
    } else if was_there {
        call.notify(b'g', "del", target);
    }
    call.answer_count(count)
}
