//! Segments of differentials.

use super::{Kind, object};

pub(super) const KIND: Kind = Kind {
    name: "segment of differentials",
    document: "docs/formats/differential.md",
    is: |sample| object::kind_of(sample) == Some(codec::kind::DIFFERENTIAL),
    read: |sample| {
        let fields = redundancy::stripes::delayed::inspect::segment(&sample.head, sample.length);
        object::finding(sample, fields)
    },
};
