//! The longest wait while one large collection changes.

use super::Scene;
use super::content::{Content, Versions};
use super::driver::{Driver, Until};
use super::resp;
use super::sides::Samples;
use super::workload::{Expected, Workload, name};
use crate::bench::row::{Better, Report};
use env::Rng;

/// Bytes of an element.
const ELEMENT_BYTES: usize = 100;

/// What is large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Hash,
    SortedSet,
    List,
    Text,
}

/// Fills a collection, and changes one element after the other.
struct Load {
    kind: Kind,
    elements: u64,
    next: u64,
    end: u64,
    rng: Rng,
}

impl Workload for Load {
    fn next(
        &mut self,
        content: &Content,
        _: &mut Versions,
        out: &mut Vec<u8>,
        expect: &mut dyn FnMut(Expected),
    ) -> bool {
        if self.next >= self.end {
            return false;
        }
        let (element, is_new) = match self.next < self.elements {
            true => (self.next, true),
            false => (self.rng.below(self.elements), false),
        };
        self.next += 1;
        let mut value = Vec::with_capacity(ELEMENT_BYTES);
        content.push(&mut value, element, self.next as u32);
        match (self.kind, is_new) {
            (Kind::Hash, _) => resp::push(out, &[b"HSET", b"large", &name(element), &value]),
            (Kind::SortedSet, _) => {
                // Long members, as long as the elements of the others.
                let mut member = name(element).to_vec();
                member.resize(ELEMENT_BYTES, b'.');
                let score = self.rng.below(1 << 40).to_string();
                resp::push(out, &[b"ZADD", b"large", score.as_bytes(), &member]);
            }
            (Kind::List, true) => resp::push(out, &[b"RPUSH", b"large", &value]),
            (Kind::List, false) => resp::push(out, &[b"LSET", b"large", b"7", &value]),
            (Kind::Text, true) => resp::push(out, &[b"APPEND", b"large", &value]),
            (Kind::Text, false) => {
                let at = (element * ELEMENT_BYTES as u64).to_string();
                resp::push(out, &[b"SETRANGE", b"large", at.as_bytes(), &value]);
            }
        }
        expect(Expected::Number);
        true
    }
}

/// Measures.
pub(super) fn run(scene: &mut Scene<'_>, report: &mut Report) -> anyhow::Result<()> {
    let elements = match scene.args.runs.quick {
        true => 100_000,
        false => 1_000_000,
    };
    for (name, kind) in [
        ("hash", Kind::Hash),
        ("sorted-set", Kind::SortedSet),
        ("list", Kind::List),
        ("string", Kind::Text),
    ] {
        let mut longest = Samples::new("latency_us_max", "us", Better::Lower);
        let mut p999 = Samples::new("latency_us_p999", "us", Better::Lower);
        let mut servers = scene.servers("everysec")?;
        servers.each(0, |side, server| {
            let content = Content::new(ELEMENT_BYTES);
            let mut driver = Driver::connect(server.address, 4, content)?;
            driver.pipeline = 16;
            let mut load = Load {
                kind,
                elements,
                next: 0,
                end: elements,
                rng: Rng::new(1),
            };
            driver.run(&mut load, Until::Dry, 1)?;
            server.settle()?;
            // More bytes of changes than the whole has: each has the name of the command and the key too.
            load.end = elements * 2;
            let outcome = driver.run(&mut load, Until::Dry, 1)?;
            longest.add(side, outcome.quantile(0, 1.0));
            p999.add(side, outcome.quantile(0, 0.999));
            Ok(())
        })?;
        let case = format!("collection-{name}");
        let note = format!(
            "changes of single elements of a {name} of {elements} elements of {ELEMENT_BYTES} bytes, by 4 \
             connections with 16 requests each"
        );
        longest.report(report, &case, note)?;
        p999.report(report, &case, "")?;
        servers.map(|server| server.end())?;
    }
    Ok(())
}
