//! How far the scrub of a set has come: kept by every store, so that it goes on there after a stop
//! or a crash, whoever is left.

use super::note;
use super::{Result, Site, StripeError, Stripes};
use crate::encoding::StripeId;
use filemeta::SystemName;
use serde::{Deserialize, Serialize};

/// Version of what is kept.
const VERSION: u8 = 1;

/// What a pass over all stripes has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubCounts {
    /// Stripes.
    pub stripes: u64,
    /// Bytes read, of all shards.
    pub bytes: u64,
    /// Pages that were damaged and are right again.
    pub mended: u64,
    /// What is wrong and stays so.
    pub lost: u64,
}

/// A pass that has not come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubPass {
    /// When it began, seconds since the epoch.
    pub started_s: i64,
    /// Stripes with a lower number are done.
    pub next: u64,
    /// Stripes with a higher number were made after it began.
    pub last: u64,
    /// What it has done so far.
    pub counts: ScrubCounts,
}

/// A pass that has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubEnd {
    /// When, seconds since the epoch.
    pub finished_s: i64,
    /// What it has done.
    pub counts: ScrubCounts,
}

/// Where the scrub of a set is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubPosition {
    /// Rises whenever it is kept: of the stores' answers the one with the highest counts.
    pub sequence: u64,
    /// Since when the time to the first pass is counted, seconds since the epoch.
    pub since_s: i64,
    /// The pass that is under way.
    pub pass: Option<ScrubPass>,
    /// The pass that ended last.
    pub end: Option<ScrubEnd>,
}

impl ScrubPosition {
    /// When the next pass is to begin, seconds since the epoch.
    pub fn next_s(&self, interval_s: u64) -> i64 {
        let from = self.end.map_or(self.since_s, |end| end.finished_s);
        from.saturating_add_unsigned(interval_s)
    }

    /// Whether a pass is to begin, or to go on. A clock that was set back by more than the interval
    /// does not put it off for ever.
    pub fn is_due(&self, now_s: i64, interval_s: u64) -> bool {
        let from = self.end.map_or(self.since_s, |end| end.finished_s);
        self.pass.is_some() || now_s.abs_diff(from) >= interval_s
    }
}

impl ScrubPass {
    /// Whether it is to look at this stripe.
    pub fn wants(&self, id: StripeId) -> bool {
        (self.next..=self.last).contains(&id.0.get())
    }
}

/// The system object that keeps the position.
fn position_name() -> SystemName {
    SystemName::new("scrub").expect("a plain name")
}

pub(super) fn encode(position: &ScrubPosition) -> Result<Vec<u8>> {
    note::encode(&(VERSION, position))
}

/// `None` for bytes that are no position of this version.
pub(super) fn decode(bytes: &[u8]) -> Option<ScrubPosition> {
    match note::decode(bytes)? {
        (VERSION, position) => Some(position),
        _ => None,
    }
}

impl Site {
    fn scrub_position(&self) -> Result<Option<ScrubPosition>> {
        match self.notes.system(&position_name()) {
            Ok(bytes) => Ok(decode(&bytes)),
            Err(filemeta::MetaError::NoSuchEntry) => Ok(None),
            Err(error) => {
                let doing = "reading the position of the scrub";
                Err(StripeError::notes(self.store, doing)(error))
            }
        }
    }
}

impl Stripes {
    /// Where the scrub is; as at the beginning where no store says it. What cannot be read is
    /// passed over: the scrub then reads more than it has to.
    pub fn scrub_position(&self) -> ScrubPosition {
        let mut newest = ScrubPosition::default();
        for site in self.sites.read().values() {
            match site.scrub_position() {
                Ok(Some(position)) if position.sequence > newest.sequence => newest = position,
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the scrub may begin anew"),
            }
        }
        newest
    }

    /// Keeps the position, durably on every store that is there.
    ///
    /// # Errors
    /// The first store that could not keep it; the others have it.
    pub fn keep_scrub_position(&self, position: &ScrubPosition) -> Result<()> {
        let bytes = encode(position)?;
        let mut kept = Ok(());
        for site in self.sites.read().values() {
            let mut request = site.notes.request();
            request.put_system(&position_name(), &bytes);
            if let Err(error) = request.commit() {
                let doing = "keeping the position of the scrub";
                kept = kept.and(Err(StripeError::notes(site.store, doing)(error)));
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rig;
    use super::*;
    use crate::label::{StoreIndex, StoreMask};

    fn position(sequence: u64) -> ScrubPosition {
        let counts = ScrubCounts {
            stripes: 300,
            bytes: 1 << 20,
            mended: 2,
            lost: 1,
        };
        ScrubPosition {
            sequence,
            since_s: 1,
            pass: Some(ScrubPass {
                started_s: 1000,
                next: 0x102,
                last: 0x200,
                counts,
            }),
            end: Some(ScrubEnd {
                finished_s: 900,
                counts,
            }),
        }
    }

    #[test]
    fn what_is_kept_is_that_of_the_page_on_formats() {
        let page = include_str!("../../../../../docs/formats/shard.md");
        let bytes = encode(&position(7)).expect("encodes");
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let row = format!("| Position | `{}` |", hex.join(" "));
        assert!(page.contains(&row), "{row}");
        assert_eq!(decode(&bytes), Some(position(7)));
    }

    #[test]
    fn another_version_or_a_cut_is_no_position() {
        let bytes = encode(&position(7)).expect("encodes");
        let mut other = bytes.clone();
        other[0] = 2;
        assert_eq!(decode(&other), None);
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None);
        }
    }

    #[test]
    fn the_newest_position_of_those_who_are_there_counts() {
        let geometry = parity::Geometry::new(2, 1).expect("a code");
        let rig = Rig::new(&env::sim::World::new(11), geometry);
        let content = vec![vec![0; super::super::tests::CHUNK as usize]; 2];
        rig.create(&content);
        let all = rig.stores();
        {
            let (stripes, _) = rig.open(all).expect("opens");
            assert_eq!(stripes.scrub_position(), ScrubPosition::default());
            stripes.keep_scrub_position(&position(3)).expect("keeps");
            stripes.leave(StoreIndex(0));
            stripes.keep_scrub_position(&position(4)).expect("keeps");
        }
        let sequence = |present: StoreMask| {
            let (stripes, _) = rig.open(present).expect("opens");
            stripes.scrub_position().sequence
        };
        assert_eq!(sequence(all), 4);
        assert_eq!(sequence(StoreMask::default().with(StoreIndex(0))), 3);
        assert_eq!(sequence(StoreMask::default().with(StoreIndex(2))), 4);
    }

    #[test]
    fn a_pass_is_due_after_the_interval_and_goes_on_where_it_was_left() {
        let fresh = ScrubPosition {
            since_s: 1000,
            ..ScrubPosition::default()
        };
        assert!(!fresh.is_due(1099, 100));
        assert!(fresh.is_due(1100, 100));
        assert_eq!(fresh.next_s(100), 1100);
        assert!(fresh.is_due(800, 100), "the clock was set back");
        assert!(position(1).is_due(901, 100), "it is under way");
        let pass = position(1).pass.expect("a pass");
        let wants = |number: u64| {
            let number = std::num::NonZeroU64::new(number).expect("a number");
            pass.wants(StripeId(number))
        };
        assert_eq!(
            [0x101, 0x102, 0x200, 0x201].map(wants),
            [false, true, true, false]
        );
    }
}
