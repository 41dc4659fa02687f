//! Block traces, in both formats.

use holdfast::simulate::trace::{
    Format, Kind, LINE_BYTES_MAX, Line, Lines, Parser, REQUEST_BYTES_MAX, Request, TimeUnit,
};

/// Any bytes are lines, each of which is refused or says something that is in range and reads
/// back as the same.
pub(crate) fn check(bytes: &[u8]) {
    let _format = Format::detect(bytes);
    for (format, unit) in [
        (Format::Msr, TimeUnit::S),
        (Format::CloudPhysics, TimeUnit::S),
        (Format::CloudPhysics, TimeUnit::Us),
    ] {
        let mut lines = Lines::new(bytes);
        let mut parser = Parser::new(format, unit);
        let mut count = 0;
        while let Some(line) = lines.next_line().expect("memory can be read") {
            assert!(line.len() <= LINE_BYTES_MAX + 1);
            count += 1;
            if let Ok(Line::Request(request)) = parser.line(line) {
                assert!(request.bytes <= REQUEST_BYTES_MAX);
                assert!(request.offset.checked_add(request.bytes).is_some());
                again(format, unit, request);
            }
        }
        assert!(count <= bytes.len() + 1);
        assert_eq!(lines.bytes(), bytes.len() as u64);
        assert!(parser.volumes().len() <= count);
    }
}

/// Writes a request as a line and reads that.
fn again(format: Format, unit: TimeUnit, request: Request) {
    let (at, bytes) = (request.at.0, request.bytes);
    let line = match format {
        Format::Msr => {
            let kind = match request.kind {
                Kind::Read => "Read",
                Kind::Write => "Write",
            };
            format!("{at},host,0,{kind},{},{bytes},0", request.offset)
        }
        Format::CloudPhysics => {
            let code = match request.kind {
                Kind::Read => "28",
                Kind::Write => "2a",
            };
            let ticks = match unit {
                TimeUnit::S => 10_000_000,
                TimeUnit::Ms => 10_000,
                TimeUnit::Us => 10,
            };
            format!("1,{},{code},{bytes},{}", at / ticks, request.offset / 512)
        }
    };
    let expected = Request {
        volume: holdfast::simulate::trace::Volume(0),
        ..request
    };
    let found = Parser::new(format, unit).line(line.as_bytes());
    assert_eq!(found, Ok(Line::Request(expected)), "{line}");
}
