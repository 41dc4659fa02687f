use super::*;

fn cloudphysics(line: &str) -> Result<Line, BadLine> {
    Parser::new(Format::CloudPhysics, TimeUnit::S).line(line.as_bytes())
}

fn msr(line: &str) -> Result<Line, BadLine> {
    Parser::new(Format::Msr, TimeUnit::S).line(line.as_bytes())
}

#[test]
fn lines_of_both_formats_are_understood() {
    assert_eq!(
        cloudphysics("1,5633898,2a,512,42932745\r"),
        Ok(Line::Request(Request {
            at: Ticks(56_338_980_000_000),
            volume: Volume(0),
            kind: Kind::Write,
            offset: 42_932_745 * 512,
            bytes: 512,
        }))
    );
    assert_eq!(
        msr("128166372003061629,hm,1,Read,383496192,32768,413"),
        Ok(Line::Request(Request {
            at: Ticks(128_166_372_003_061_629),
            volume: Volume(0),
            kind: Kind::Read,
            offset: 383_496_192,
            bytes: 32_768,
        }))
    );
    assert_eq!(
        cloudphysics("1,2,12,36,0"),
        Ok(Line::Other(0x12)),
        "INQUIRY"
    );
    assert_eq!(cloudphysics("  "), Ok(Line::Blank));
}

#[test]
fn a_header_may_only_be_first() {
    let mut parser = Parser::new(Format::CloudPhysics, TimeUnit::S);
    assert_eq!(parser.line(b"version,time,op,size,lbn"), Ok(Line::Header));
    assert!(parser.line(b"version,time,op,size,lbn").is_err());
    assert_eq!(msr(msr::NAMES), Ok(Line::Header));
}

#[test]
fn disks_are_told_apart_by_host_and_number() {
    let mut parser = Parser::new(Format::Msr, TimeUnit::S);
    let mut volume = |host: &str, disk: u32| match parser
        .line(format!("1,{host},{disk},Write,0,1,1").as_bytes())
    {
        Ok(Line::Request(request)) => request.volume.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        [
            volume("hm", 0),
            volume("hm", 1),
            volume("prn", 0),
            volume("hm", 1)
        ],
        [0, 1, 2, 1]
    );
    assert_eq!(parser.volumes().len(), 3);
}

#[test]
fn bad_lines_say_why() {
    let mut said = String::new();
    for line in [
        "1,2,2a,512",
        "1,2,2a,512,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18",
        "1,2,2a,-512,1",
        "1,2,2a,+512,1",
        "1,2,2a,512,99999999999999999999",
        "1,2,2a,512,18446744073709551615",
        "1,2,2a,512,36028797018963967",
        "1,2,2a,1073741825,1",
        "1,18446744073709551615,2a,512,1",
        "1,2,write,512,1",
        "1,2,12a,512,1",
        "1,2,,512,1",
        "1,2,2a,512,\u{fffd}\u{fffd}",
    ] {
        said.push_str(&format!("{}\n", cloudphysics(line).unwrap_err()));
    }
    for line in [
        "1,hm,0,Trim,0,1,1",
        "1,,0,Read,0,1,1",
        "1,hm,x,Read,0,1,1",
        "1,hm,0,Read,18446744073709551615,1,1",
        "1,hm,0,Read,0,1,",
    ] {
        said.push_str(&format!("{}\n", msr(line).unwrap_err()));
    }
    let long = "1".repeat(LINE_BYTES_MAX + 1);
    said.push_str(&format!("{}\n", msr(&long).unwrap_err()));
    insta::assert_snapshot!(said);
}

#[test]
fn a_bad_line_makes_no_disk() {
    let mut parser = Parser::new(Format::Msr, TimeUnit::S);
    assert!(
        parser
            .line(b"1,hm,0,Read,18446744073709551615,1,1")
            .is_err()
    );
    assert!(parser.volumes().is_empty());
}

#[test]
fn the_first_line_tells_the_format() {
    assert_eq!(
        Format::detect(b"version,time,op,size,lbn"),
        Some(Format::CloudPhysics)
    );
    assert_eq!(Format::detect(b"1,hm,0,Read,0,1,1"), Some(Format::Msr));
    assert_eq!(Format::detect(b"a,b"), None);
    assert_eq!(Format::detect(&[b','; 100_000]), None);
}

#[test]
fn lines_are_cut_however_the_input_comes() {
    let long = "x".repeat(LINE_BYTES_MAX * 3);
    let text = format!("a\n\nb\r\n{long}\nlast");
    for buffer in [1, 2, 7, 100_000] {
        let mut lines = Lines::new(io::BufReader::with_capacity(buffer, text.as_bytes()));
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().expect("memory") {
            found.push((line.first().copied(), line.len()));
        }
        let expected = [
            (Some(b'a'), 1),
            (None, 0),
            (Some(b'b'), 2),
            (Some(b'x'), LINE_BYTES_MAX + 1),
            (Some(b'l'), 4),
        ];
        assert_eq!(found, expected);
        assert_eq!(lines.bytes(), text.len() as u64);
    }
}
