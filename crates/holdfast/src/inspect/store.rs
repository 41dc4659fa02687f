//! The header of a store.

use super::{Finding, Kind, Sample, object};
use redundancy::label::StoreMask;
use redundancy::set::Header;

pub(super) const KIND: Kind = Kind {
    name: "store header",
    document: "docs/formats/store-header.md",
    is: |sample| object::kind_of(sample) == Some(codec::kind::STORE_HEADER),
    read,
};

fn read(sample: &Sample) -> Finding {
    let mut finding = Finding::default();
    let header = match Header::decode(&sample.head) {
        Ok(header) => header,
        Err(error) => {
            finding.field("damage", error);
            return finding;
        }
    };
    finding.valid = true;
    finding.field("set", format_args!("{:032x}", header.set.0));
    finding.field("store", format_args!("{:032x}", header.store.0));
    finding.field("place in the set", header.index.0);
    finding.field("copies of each file", header.copies);
    finding.field("set made", made(header.created_s));
    finding.field("starts of the set", header.mount_count);
    finding.field("members", places(header.members));
    for tenure in &header.history {
        let name = format!("generation {}", tenure.generation);
        finding.field(&name, format_args!("{:016x}", tenure.epoch));
    }
    for (place, (id, departure)) in header.stores.iter().enumerate() {
        let is_member = header.members.iter().any(|s| usize::from(s.0) == place);
        let state = if is_member {
            "member".to_owned()
        } else {
            let (generation, start) = (departure.generation, departure.mount_count);
            format!("left at generation {generation}, start {start}")
        };
        finding.field(
            &format!("store {place}"),
            format_args!("{:032x}, {state}", id.0),
        );
    }
    finding
}

fn places(mask: StoreMask) -> String {
    let places: Vec<String> = mask.iter().map(|store| store.0.to_string()).collect();
    places.join(", ")
}

fn made(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(
        |_| format!("at second {seconds}"),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use redundancy::label::StoreIndex;
    use redundancy::set::header::Departure;
    use redundancy::set::{SetId, StoreId, Tenure};

    fn sample() -> Sample {
        let header = Header {
            set: SetId(0x5f0c_2f6a_8a1d_4f43_b2a7_e6c9_d0f1_a2b3),
            store: StoreId(0xa0),
            index: StoreIndex(0),
            copies: 2,
            created_s: 1_795_243_699,
            mount_count: 9,
            pending_starts: 0,
            members: StoreMask::first(2),
            history: vec![
                Tenure {
                    generation: 2,
                    epoch: 22,
                },
                Tenure {
                    generation: 1,
                    epoch: 11,
                },
            ],
            stores: vec![
                (StoreId(0xa0), Departure::default()),
                (StoreId(0xa1), Departure::default()),
                (
                    StoreId(0xa2),
                    Departure {
                        generation: 1,
                        mount_count: 8,
                        mark: 77,
                    },
                ),
            ],
        };
        let head = header.encode();
        Sample {
            length: head.len() as u64,
            head,
            ..Sample::default()
        }
    }

    #[test]
    fn a_store_header_is_printed_field_by_field() {
        assert!((KIND.is)(&sample()));
        let finding = read(&sample());
        assert!(finding.valid, "{finding:?}");
        insta::assert_debug_snapshot!(finding.fields);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_seen() {
        for bit in 0..sample().head.len() * 8 {
            let mut sample = sample();
            sample.head[bit / 8] ^= 1 << (bit % 8);
            assert!(!read(&sample).valid, "bit {bit}");
        }
    }
}
