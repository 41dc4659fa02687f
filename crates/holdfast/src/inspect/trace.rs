//! Traces of disks.

use super::{Kind, object};

pub(super) const KIND: Kind = Kind {
    name: "trace of a disk",
    document: "docs/formats/trace.md",
    is: |sample| object::kind_of(sample) == Some(codec::kind::TRACE),
    read: |sample| {
        let fields = volume::trace::inspect(&sample.head, sample.length);
        object::finding(sample, fields)
    },
};
