//! The tour's prover must see what it is there to see.

use std::path::Path;
use std::process::Command;

#[test]
fn the_prover_of_the_tour_notices_every_planted_fault() {
    let tour = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tour/run");
    let place = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(&tour)
        .arg("--canary")
        .env("TOUR_DIR", place.path())
        .output()
        .expect("tour/run starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaints}");
    assert_eq!(
        said.lines().filter(|l| l.starts_with("noticed: ")).count(),
        10
    );
    let left = std::fs::read_dir(place.path()).expect("reads").count();
    assert_eq!(left, 0, "the tour left something behind");
}
