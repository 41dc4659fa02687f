//! Shards of stripes.

use super::{Kind, object};

pub(super) const KIND: Kind = Kind {
    name: "shard of a stripe",
    document: "docs/formats/shard.md",
    is: |sample| object::kind_of(sample) == Some(codec::kind::SHARD),
    read: |sample| {
        let fields = redundancy::stripes::inspect::shard(&sample.head, sample.length);
        object::finding(sample, fields)
    },
};
