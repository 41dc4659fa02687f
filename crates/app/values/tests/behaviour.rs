//! Methods against the commands of a real `redis-server` 7.0, with random arguments from fixed seeds.

#[path = "redis/server.rs"]
mod server;
#[path = "behaviour/streams.rs"]
mod streams;

use holdfast_values::{
    AddOptions, End, List, LongestCommon, SortedSet, StringValue, Thresholds,
    bits::{self, BitField, Overflow, Unit},
    geo::{self, Place, Shape},
    glob, hyperloglog,
    number::{Extended, format_double, parse_double},
};
use server::{Reply, Server};

const LIMITS: Thresholds = Thresholds::REDIS;

/// Numbers that look random and are always the same.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low).unsigned_abs() + 1).cast_signed()
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// A decimal number of up to 18 digits.
    fn decimal(&mut self) -> String {
        let whole = self.below(10u64.pow(self.0 as u32 % 9));
        let sign = self.of(&["", "-"]);
        match self.below(4) {
            0 => format!("{sign}{whole}"),
            1 => format!("{sign}{whole}.{}", self.below(1000)),
            2 => format!("{sign}{whole}.{:09}", self.below(1_000_000_000)),
            _ => format!("{sign}{whole}e{}", self.between(-9, 9)),
        }
    }
}

fn start() -> (tempfile::TempDir, Server) {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path());
    (home, server)
}

fn integer(value: i64) -> Reply {
    Reply::Integer(value)
}

#[test]
fn floats_are_added_to_the_same_digits() {
    let (_home, mut server) = start();
    let mut draws = Draws(1);
    for _ in 0..3000 {
        let (own, by) = (draws.decimal(), draws.decimal());
        server.say(&format!("SET k {own}"));
        let expected = server.say(&format!("INCRBYFLOAT k {by}")).bytes();
        let mut value = StringValue::new(own.as_bytes());
        let sum = value
            .increment_float(Extended::parse(by.as_bytes()).unwrap())
            .unwrap();
        assert_eq!(sum, String::from_utf8(expected).unwrap(), "{own} + {by}");
    }
}

#[test]
fn scores_are_written_with_the_same_digits() {
    let (_home, mut server) = start();
    let mut draws = Draws(2);
    for _ in 0..3000 {
        let text = format!(
            "{}e{}",
            draws.decimal().split('e').next().unwrap(),
            draws.between(-300, 290)
        );
        let score = parse_double(text.as_bytes());
        let answer = server.call(&[b"ZADD", b"k", text.as_bytes(), b"m"]);
        assert_eq!(score.is_some(), answer.is_ok(), "{text}");
        if let Some(score) = score {
            let mut set = SortedSet::new();
            set.add(score, b"m", AddOptions::default(), &LIMITS)
                .unwrap();
            let score = set.score(b"m").unwrap();
            assert_eq!(
                server.say("ZSCORE k m"),
                Reply::Bytes(format_double(score).into_bytes()),
                "{text}"
            );
        }
    }
    for odd in [
        "inf", "+inf", "-Inf", "nan", "infinity", "0x1p4", "0x10", ".5", "5.", "1e", "", "1_0",
        "+5", "--5", "e5", "1e400", "1e-400", "0x", "1d",
    ] {
        let answer = server.call(&[b"ZADD", b"k", odd.as_bytes(), b"m"]);
        assert_eq!(
            parse_double(odd.as_bytes()).is_some(),
            answer.is_ok(),
            "{odd}"
        );
    }
}

#[test]
fn bits_and_ranges_are_the_same() {
    let (_home, mut server) = start();
    let mut draws = Draws(3);
    for _ in 0..1500 {
        let length = draws.below(6);
        let bytes: Vec<u8> = (0..length)
            .map(|_| [0, 255, draws.below(256) as u8][draws.below(3) as usize])
            .collect();
        server.call(&[b"SET", b"k", &bytes]).unwrap();
        let (start, end) = (draws.between(-60, 60), draws.between(-60, 60));
        let unit = draws.of(&["BYTE", "BIT"]);
        let as_unit = if unit == "BIT" { Unit::Bit } else { Unit::Byte };
        let counted = server.say(&format!("BITCOUNT k {start} {end} {unit}"));
        assert_eq!(
            counted,
            integer(bits::count(&bytes, start, end, as_unit).cast_signed())
        );
        let on = draws.below(2) == 1;
        let position = |found: Option<u64>| integer(found.map_or(-1, u64::cast_signed));
        let asked = server.say(&format!("BITPOS k {} {start} {end} {unit}", u8::from(on)));
        assert_eq!(
            asked,
            position(bits::position(&bytes, on, start, Some(end), as_unit)),
            "{bytes:?} {start} {end}"
        );
        let asked = server.say(&format!("BITPOS k {} {start}", u8::from(on)));
        assert_eq!(
            asked,
            position(bits::position(&bytes, on, start, None, Unit::Byte)),
            "{bytes:?} {start}"
        );
        let range = server.say(&format!("GETRANGE k {start} {end}")).bytes();
        assert_eq!(
            range,
            StringValue::new(&bytes).range(start, end),
            "{bytes:?} {start} {end}"
        );
    }
}

#[test]
fn fields_of_bits_are_the_same() {
    let (_home, mut server) = start();
    let mut draws = Draws(4);
    let mut own = Vec::new();
    for _ in 0..3000 {
        let bits = draws.between(1, 63);
        let kind = format!("{}{bits}", draws.of(&["i", "u"]));
        let field = BitField::parse(kind.as_bytes()).unwrap();
        let offset = draws.below(90);
        // Redis saturates a SET near -2^63 to the highest value; here it is the lowest.
        let shift = draws.below(54);
        let value = draws.between(-300, 300) << shift;
        let (word, overflow) = [
            ("WRAP", Overflow::Wrap),
            ("SAT", Overflow::Saturate),
            ("FAIL", Overflow::Fail),
        ][draws.below(3) as usize];
        let verb = draws.of(&["SET", "INCRBY"]);
        let asked = server
            .say(&format!(
                "BITFIELD k OVERFLOW {word} {verb} {kind} {offset} {value}"
            ))
            .list();
        let done = if verb == "SET" {
            bits::field_set(&mut own, field, offset, value, overflow)
        } else {
            bits::field_increment(&mut own, field, offset, value, overflow)
        };
        assert_eq!(
            asked,
            [done.map_or(Reply::Nothing, Reply::Integer)],
            "{verb} {word} {kind} {offset} {value}"
        );
        assert_eq!(
            server.say("GET k").bytes(),
            own,
            "{verb} {word} {kind} {offset} {value}"
        );
    }
}

#[test]
fn patterns_match_the_same_keys() {
    let (_home, mut server) = start();
    let mut draws = Draws(5);
    for _ in 0..3000 {
        let pieces = [
            "a", "b", "*", "?", "[ab]", "[^a]", "[a-c]", "[c-a]", "\\*", "\\", "[", "]", "^", "-",
            "[a\\]b]", "[^]", "[]",
        ];
        let pattern: String = (0..draws.below(5)).map(|_| draws.of(&pieces)).collect();
        let text: String = (0..draws.below(5))
            .map(|_| draws.of(&["a", "b", "c", "*", "]", "\\", "^", "-"]))
            .collect();
        server.say("FLUSHALL");
        server.call(&[b"SET", text.as_bytes(), b"x"]).unwrap();
        let found = server
            .call(&[b"KEYS", pattern.as_bytes()])
            .unwrap()
            .list()
            .len()
            == 1;
        assert_eq!(
            glob::matches(pattern.as_bytes(), text.as_bytes(), false),
            found,
            "{pattern} {text}"
        );
    }
}

#[test]
fn positions_in_lists_are_the_same() {
    let (_home, mut server) = start();
    let mut draws = Draws(6);
    for _ in 0..300 {
        server.say("DEL k");
        let mut list = List::new();
        for _ in 0..draws.between(1, 12) {
            let value = draws.of(&["a", "b", "1"]);
            server.say(&format!("RPUSH k {value}"));
            list.push(End::Back, value.as_bytes(), &LIMITS);
        }
        for _ in 0..20 {
            let rank = [1, 2, 3, -1, -2, -3][draws.below(6) as usize];
            let (count, compared) = (draws.below(4), draws.below(6));
            let asked = server
                .say(&format!(
                    "LPOS k a RANK {rank} COUNT {count} MAXLEN {compared}"
                ))
                .list();
            let own = list.positions(b"a", rank, count as usize, compared as usize);
            assert_eq!(
                asked,
                own.into_iter()
                    .map(|index| integer(index as i64))
                    .collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn common_subsequences_are_the_same() {
    let (_home, mut server) = start();
    let mut draws = Draws(9);
    for _ in 0..1000 {
        let mut text = || -> String {
            (0..draws.below(12))
                .map(|_| draws.of(&["a", "b", "c"]))
                .collect()
        };
        let (a, b) = (text(), text());
        server
            .call(&[b"MSET", b"a", a.as_bytes(), b"b", b.as_bytes()])
            .unwrap();
        let own = LongestCommon::new(a.as_bytes(), b.as_bytes()).unwrap();
        assert_eq!(server.say("LCS a b").bytes(), own.bytes(), "{a} {b}");
        assert_eq!(server.say("LCS a b LEN"), integer(own.length() as i64));
        let least = draws.below(3);
        let runs = own.runs(least as usize).into_iter().map(|run| {
            let ends = |ends: (usize, usize)| {
                Reply::List(vec![integer(ends.0 as i64), integer(ends.1 as i64)])
            };
            Reply::List(vec![ends(run.a), ends(run.b)])
        });
        let asked = server
            .say(&format!("LCS a b IDX MINMATCHLEN {least}"))
            .list();
        assert_eq!(asked[1], Reply::List(runs.collect()), "{a} {b}");
    }
}

#[test]
fn hyperloglogs_have_the_same_bytes() {
    let (_home, mut server) = start();
    let mut draws = Draws(7);
    for round in 0..6u64 {
        server.say("FLUSHALL");
        let mut own = [hyperloglog::create(), hyperloglog::create()];
        server.say("PFADD 0");
        server.say("PFADD 1");
        for step in 0..[5, 40, 300, 900, 2500, 4000][round as usize] {
            let which = usize::from(draws.below(3) == 0);
            let element = draws.below(5000).to_string();
            let changed = server.say(&format!("PFADD {which} {element}"));
            let done = hyperloglog::add(&mut own[which], element.as_bytes(), &LIMITS).unwrap();
            assert_eq!(changed, integer(i64::from(done)));
            if step % 50 == 0 {
                assert_eq!(server.say(&format!("GET {which}")).bytes(), own[which]);
                let count = hyperloglog::count(&mut own[which]).unwrap();
                assert_eq!(
                    server.say(&format!("PFCOUNT {which}")),
                    integer(count.cast_signed())
                );
            }
        }
        let [mut one, two] = own;
        let both = hyperloglog::count_union(&[&one, &two]).unwrap();
        assert_eq!(server.say("PFCOUNT 0 1"), integer(both.cast_signed()));
        server.say("PFMERGE 0 1");
        hyperloglog::merge(&mut one, &[&two], &LIMITS).unwrap();
        assert_eq!(server.say("GET 0").bytes(), one);
    }
}

/// Runs of registers that are made up, so that additions split and join them in every way.
#[test]
fn runs_of_registers_are_joined_the_same() {
    let (_home, mut server) = start();
    let mut draws = Draws(10);
    for _ in 0..150 {
        let mut own = hyperloglog::create();
        own.truncate(16);
        let mut left = 1usize << 14;
        while left > 12_000 && own.len() < 2900 {
            let length = 1 + draws.below(4) as u8;
            own.push(0x80 | (draws.below(3) as u8) << 2 | (length - 1));
            left -= usize::from(length);
        }
        own.extend_from_slice(&(0x4000 | u16::try_from(left - 1).unwrap()).to_be_bytes());
        server.call(&[b"SET", b"k", &own]).unwrap();
        for _ in 0..40 {
            let element = draws.below(1 << 30).to_string();
            let changed = server.say(&format!("PFADD k {element}"));
            let done = hyperloglog::add(&mut own, element.as_bytes(), &LIMITS).unwrap();
            assert_eq!(changed, integer(i64::from(done)));
            assert_eq!(server.say("GET k").bytes(), own);
        }
    }
}

#[test]
fn places_are_found_in_the_same_order() {
    let (_home, mut server) = start();
    let mut draws = Draws(8);
    let mut set = SortedSet::new();
    let degrees =
        |draws: &mut Draws, most: i64| draws.between(-most * 1000, most * 1000) as f64 / 1000.0;
    for member in 0..1000 {
        let near = member % 2 == 0;
        let (longitude, latitude) = (
            degrees(&mut draws, if near { 3 } else { 180 }),
            degrees(&mut draws, if near { 3 } else { 85 }),
        );
        server.say(&format!("GEOADD k {longitude} {latitude} m{member}"));
        let score = Place::new(longitude, latitude).unwrap().score();
        set.add(
            score,
            format!("m{member}").as_bytes(),
            AddOptions::default(),
            &LIMITS,
        )
        .unwrap();
        let own = Place::of_score(score);
        let asked = server
            .say(&format!("GEOPOS k m{member}"))
            .list()
            .remove(0)
            .list();
        let text = |value: f64| Reply::Bytes(Extended::from_double(value).to_text().into_bytes());
        assert_eq!(asked, [text(own.longitude), text(own.latitude)]);
        let asked = server
            .say(&format!("GEOHASH k m{member}"))
            .list()
            .remove(0)
            .bytes();
        assert_eq!(asked, own.text().into_bytes());
    }
    for _ in 0..600 {
        let (longitude, latitude) = (degrees(&mut draws, 170), degrees(&mut draws, 70));
        let (longitude, latitude) = if draws.below(2) == 0 {
            (longitude / 60.0, latitude / 40.0)
        } else {
            (longitude, latitude)
        };
        let (width, height) = (
            10u64.pow(draws.below(8) as u32),
            10u64.pow(draws.below(8) as u32),
        );
        let centre = Place::new(longitude, latitude).unwrap();
        let (shape, words) = if draws.below(2) == 0 {
            (
                Shape::Circle {
                    radius_m: width as f64,
                },
                format!("BYRADIUS {width} m"),
            )
        } else {
            (
                Shape::Box {
                    width_m: width as f64,
                    height_m: height as f64,
                },
                format!("BYBOX {width} {height} m"),
            )
        };
        let asked = server
            .say(&format!(
                "GEOSEARCH k FROMLONLAT {longitude} {latitude} {words} WITHDIST"
            ))
            .list();
        let own: Vec<Reply> = geo::search(&set, centre, shape, None)
            .into_iter()
            .map(|found| {
                let distance = Reply::Bytes(geo::format_distance(found.distance_m).into_bytes());
                Reply::List(vec![Reply::Bytes(found.member.to_vec()), distance])
            })
            .collect();
        assert_eq!(asked, own, "{longitude} {latitude} {words}");
    }
}
