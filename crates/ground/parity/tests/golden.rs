//! Parity that was written once has to be read for ever: bytes made by tests/golden/make.py, which
//! shares nothing with the crate.

use holdfast_parity::{Code, Geometry, Kernel, ReedSolomon};

const GOLDEN: &str = include_str!("golden/v1.txt");

/// Bytes of each shard.
const BYTES: usize = 45;

/// The content of a data shard, as in make.py.
fn shard(number: usize) -> Vec<u8> {
    let byte = |at| (at * at + 31 * number + 7 * at * number + 5) % 251;
    (0..BYTES).map(|at| byte(at) as u8).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the file says: geometry, and weights and parity of each parity shard.
fn golden() -> Vec<(Geometry, Vec<String>, Vec<String>)> {
    let mut stripes = Vec::new();
    for line in GOLDEN.lines() {
        match line.split_once(' ').expect("a word and a value") {
            ("geometry", numbers) => {
                let (data, parity) = numbers.split_once('+').expect("data+parity");
                let geometry = Geometry::new(data.parse().unwrap(), parity.parse().unwrap());
                stripes.push((geometry.unwrap(), Vec::new(), Vec::new()));
            }
            ("weights", hex) => stripes.last_mut().unwrap().1.push(hex.to_owned()),
            ("parity", hex) => stripes.last_mut().unwrap().2.push(hex.to_owned()),
            (word, _) => panic!("{word}"),
        }
    }
    assert!(stripes.len() >= 10);
    stripes
}

#[test]
fn weights_and_parity_are_those_of_version_1_on_every_kernel() {
    for kernel in Kernel::ALL
        .into_iter()
        .filter(|kernel| kernel.is_available())
    {
        for (geometry, weights, parity) in golden() {
            let code = ReedSolomon::with_kernel(geometry, kernel).unwrap();
            let rows = (0..geometry.parity()).map(|row| hex(code.row(row).unwrap()));
            assert_eq!(rows.collect::<Vec<_>>(), weights, "{geometry} {kernel}");

            let data: Vec<Vec<u8>> = (0..geometry.data().into()).map(shard).collect();
            let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let mut made = vec![vec![0; BYTES]; geometry.parity().into()];
            let mut outputs: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
            code.encode(&data, &mut outputs).unwrap();
            let made: Vec<String> = made.iter().map(|bytes| hex(bytes)).collect();
            assert_eq!(made, parity, "{geometry} {kernel}");
        }
    }
}

#[test]
fn the_decision_shows_the_matrix_of_this_version() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/decisions/0006-parity-matrix.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let code = ReedSolomon::new(Geometry::new(10, 4).unwrap());
    for row in 0..4 {
        let weights = code.row(row).unwrap().iter();
        let weights: Vec<String> = weights.map(|weight| format!("{weight:02x}")).collect();
        let line = format!("parity {row}   {}", weights.join(" "));
        assert!(page.contains(&line), "no line: {line}");
    }
    assert_eq!(code.row(4), None);
}
