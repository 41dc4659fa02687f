use super::report::Json;
use super::*;
use clap::Parser as _;
use proptest::prelude::*;
use std::io::Write as _;
use std::path::Path;

/// Flags as on the command line.
#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    args: Args,
}

/// The JSON lines of a run.
fn simulate(trace: &Path, flags: &str) -> Vec<serde_json::Value> {
    let trace = trace.to_str().expect("a UTF-8 path");
    let words = format!("simulate --trace {trace} --chunk 64K --extent 64K {flags}");
    let args = Flags::try_parse_from(words.split_whitespace())
        .expect("valid flags")
        .args;
    let setup = setup(&args).expect("parameters that fit");
    let source = Source::open(&args.trace, args.format, args.time_unit, args.bad_lines);
    let result = run::run(&source.expect("a trace"), &setup).expect("a result");
    let lines: Vec<Json> = report::json(&setup, &result);
    let values = lines.iter().map(serde_json::to_value);
    values.collect::<Result<_, _>>().expect("JSON")
}

fn made(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("tests/cmd/simulate.in").join(name)
}

/// Of one row: write hits, read hits, encoded share, parity updates in pages and requests.
fn figures(row: &serde_json::Value) -> (f64, f64, f64, u64, u64) {
    let share = |key: &str| row[key].as_f64().expect("a number");
    let count = |key: &str| row[key].as_u64().expect("a count");
    (
        share("write_hit_ratio"),
        share("read_hit_ratio"),
        (share("encoded_share") * 6.0).round() / 6.0,
        count("parity_updates"),
        count("parity_update_requests"),
    )
}

/// Rows of the made trace with one set of parameters, B = 0.02 (one page of 96) and 0.05 (four).
fn rows(flags: &str) -> Vec<(f64, f64, f64, u64, u64)> {
    let flags = format!("--differential-share 0.02,0.05 {flags}");
    let lines = simulate(&made("small.csv"), &flags);
    lines[1..].iter().map(figures).collect()
}

// The made trace, chunk c at home on store c mod 3:
//
//   chunk                   0   1   2   3   4   5
//   writes watched         10   1   0   0   2   7    20 in all
//   reads watched           0   0   4   1   0   0     5
//   writes counted          3   2   0   1   0   2     8
//   reads counted           0   0   2   1   1   0     4
//
// Counted writes of encoded chunks, in order: page 0 of chunk 1 (512 bytes of it), pages 0 and 1
// of chunk 3, page 0 of chunk 1, and page 0 and pages 1 and 2 of chunk 5.

#[test]
fn adaptive_without_reads() {
    // L = 0.1 of 20 is 2: chunks 2 and 3 without any load; the next pair, 1 and 5, has 8.
    let rows = rows("--choice adaptive --read-weight 0 --load-limit 0.1 --target-rate 1");
    let third = 2.0 / 6.0;
    assert_eq!(rows, [(7.0 / 8.0, 1.0 / 4.0, third, 2, 1); 3]);
}

#[test]
fn adaptive_with_reads() {
    // Loads 10 1 4 1 2 7, L = 0.1 of 25 is 2.5: chunks 1 and 3 have 2.
    let rows = rows("--choice adaptive --read-weight 1 --load-limit 0.1 --target-rate 1");
    let of = |pages, requests| (5.0 / 8.0, 3.0 / 4.0, 2.0 / 6.0, pages, requests);
    // At B = 0.02 one page is held: chunk 1's is merged before it is written again. At 0.05 all
    // are held to the end, and its two writes are one update.
    assert_eq!(rows, [of(4, 3), of(4, 3), of(3, 2)]);
}

#[test]
fn adaptive_without_a_load_limit_up_to_the_target_rate() {
    // 0.7 of 6 chunks is two stripes: 2 and 3, then 1 and 5. Made up for B, 0.9 of 6 is two too.
    let rows = rows("--choice adaptive --read-weight 0 --load-limit 1 --target-rate 0.7");
    let of = |pages, requests| (3.0 / 8.0, 1.0 / 4.0, 4.0 / 6.0, pages, requests);
    // Direct: 1 + 2 + 1 + 1 + 2 pages in five writes. One page held: all seven again, chunk 5's
    // pages 0 to 2 in one run. Four held: chunk 1's once.
    assert_eq!(rows, [of(7, 5), of(7, 4), of(6, 3)]);
}

#[test]
fn modified_time_encodes_what_was_not_written() {
    let rows = rows("--choice modified");
    assert_eq!(rows, [(7.0 / 8.0, 1.0 / 4.0, 2.0 / 6.0, 2, 1); 3]);
}

#[test]
fn random_choice_does_not_look_at_load() {
    let all = rows("--choice random --target-rate 1");
    assert_eq!(all[0].2, 1.0);
    assert_eq!((all[0].0, all[0].1), (0.0, 0.0));
    let seeds =
        (0..20).map(|seed| rows(&format!("--choice random --target-rate 0.7 --seed {seed}"))[0].0);
    let hits: std::collections::BTreeSet<u64> = seeds.map(|hits| (hits * 8.0) as u64).collect();
    assert!(hits.len() > 2, "{hits:?}");
}

#[test]
fn a_read_modify_write_is_counted_once_for_a_page() {
    let flags = "--choice adaptive --read-weight 1 --load-limit 0.1 --target-rate 1 \
                 --differential-share 0.05";
    let lines = simulate(&made("small.csv"), flags);
    assert_eq!(lines[1]["read_modify_writes"], serde_json::Value::Null);
    assert_eq!(lines[2]["read_modify_writes"], 1);
    assert_eq!(lines[2]["pages_left"], 3);
}

#[test]
fn both_formats_of_one_load_have_the_same_figures() {
    let flags = "--target-rate 0.7,1";
    let cloudphysics = simulate(&made("small.csv"), flags);
    let msr = simulate(&made("small-msr.csv"), flags);
    assert_eq!(cloudphysics[1..], msr[1..]);
    assert_eq!(cloudphysics[0]["other"]["12"], 1);
    assert_eq!(cloudphysics[0]["requests_back_in_time"], 1);
}

#[test]
fn rounds_follow_the_interval() {
    // Rounds at 20, 40 and 60 s. At 20 s the loads are 10 1 0 0 0 0: stripes of 2 and 3 and of 4
    // and 5. At 40 s they are 0 0 0 0 2 7: 1 takes the place of 4, of its home; 5 returns, for which
    // there is none, and the stripe of 1 alone is given up; then 0 and 1 make one. At 60 s nothing
    // has a load, and 4 and 5 are encoded too.
    let flags = "--choice adaptive --read-weight 0 --load-limit 0.1 --target-rate 1 --interval 20 \
                 --differential-share 0.02";
    let lines = simulate(&made("small.csv"), flags);
    let row = &lines[1];
    assert_eq!(row["rounds"], 3);
    assert_eq!(row["load_share_max"], 0.0);
    let encoded = row["encoded_share"].as_f64().expect("a number");
    assert_eq!((encoded * 18.0).round(), 4.0 + 4.0 + 6.0, "{row}");
    // After 20 s: the writes of 4 and 5 until 40 s find them encoded, those after 60 s all.
    assert_eq!(row["write_hit_ratio"], 0.0);
}

#[test]
fn a_return_to_copies_saves_no_update() {
    // As above, at 20 s 4 and 5 are encoded, at 40 s both have copies again. Until then 4 is
    // written twice and 5 seven times, at page 0: two pages that an unbounded buffer merges once
    // each. After 60 s all are encoded: 10 pages are written, 7 of them different.
    let flags = "--choice adaptive --read-weight 0 --load-limit 0.1 --target-rate 1 --interval 20 \
                 --differential-share 1";
    let lines = simulate(&made("small.csv"), flags);
    assert_eq!(lines[1]["parity_updates"], 9 + 10);
    assert_eq!(lines[2]["parity_updates"], 2 + 7);
}

/// A request: chunk, block of 512 bytes in it, blocks, whether it writes.
type Made = (u8, u8, u8, bool);

fn trace_of(requests: &[Made]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    for (time, (chunk, block, blocks, write)) in requests.iter().enumerate() {
        let lbn = u64::from(*chunk) * 128 + u64::from(*block);
        let (op, size) = (if *write { "2a" } else { "28" }, u64::from(*blocks) * 512);
        writeln!(file, "1,{time},{op},{size},{lbn}").expect("written");
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_held_back_is_never_lost(
        requests in prop::collection::vec((0..12u8, 0..128u8, 1..40u8, any::<bool>()), 14..120),
    ) {
        let file = trace_of(&requests);
        let flags = "--choice adaptive --read-weight 0 --load-limit 1 --target-rate 1 \
                     --differential-share 0,0.02,1";
        let lines = simulate(file.path(), flags);
        let count = |row: usize| lines[row]["parity_updates"].as_u64().expect("a count");
        let (direct, at_once, half, never) = (count(1), count(2), count(3), count(4));
        prop_assert_eq!(direct, at_once, "with B = 0 each page is merged at once");
        prop_assert!(never <= half && half <= direct);
        prop_assert_eq!(lines[4]["pages_left"].as_u64(), Some(never));
        prop_assert_eq!(lines[2]["pages_left"].as_u64(), Some(0));
    }

    /// With everything encoded an unbounded buffer holds each written page once: counted here
    /// in the plainest way.
    #[test]
    fn an_unbounded_buffer_merges_each_page_once(
        requests in prop::collection::vec((0..2u8, 0..100u8, 1..20u8, any::<bool>()), 14..120),
    ) {
        // Two chunks on three stores are one stripe, and both are there from the beginning.
        let mut all: Vec<Made> = vec![(0, 0, 1, false), (1, 0, 1, false)];
        all.extend(&requests);
        let file = trace_of(&all);
        let flags = "--choice adaptive --read-weight 0 --load-limit 1 --target-rate 1 \
                     --differential-share 1";
        let lines = simulate(file.path(), flags);
        let length = all.len() as u64 - 1;
        let watched = length * 10_000_000 - length * 10_000_000 / 7;
        let mut pages = std::collections::BTreeSet::new();
        let mut direct = 0;
        for (time, (chunk, block, blocks, write)) in all.iter().enumerate() {
            if !write || (time as u64) * 10_000_000 < watched {
                continue;
            }
            let start = u32::from(*chunk) * 128 + u32::from(*block);
            let touched: std::collections::BTreeSet<u32> =
                (start..start + u32::from(*blocks)).map(|block| block / 8).collect();
            direct += touched.len() as u64;
            pages.extend(touched);
        }
        prop_assert_eq!(lines[1]["parity_updates"].as_u64(), Some(direct));
        prop_assert_eq!(lines[2]["parity_updates"].as_u64(), Some(pages.len() as u64));
        if direct > 0 {
            prop_assert_eq!(lines[1]["write_hit_ratio"].as_f64(), Some(0.0));
        }
    }
}
