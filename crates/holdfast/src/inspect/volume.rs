//! Disks of volumes, and blocks copied out of them.

use super::{Kind, object};
use codec::kind;

pub(super) const DISK: Kind = Kind {
    name: "disk of a volume",
    document: "docs/formats/volume.md",
    is: |sample| object::kind_of(sample) == Some(kind::VOLUME),
    read: |sample| {
        // The length of a block device is not in its directory entry.
        let length = sample.length.max(sample.head.len() as u64);
        object::finding(sample, volume::inspect::inspect(&sample.head, length))
    },
};

pub(super) const BLOCK: Kind = Kind {
    name: "block of a volume",
    document: "docs/formats/volume.md",
    is: |sample| {
        object::kind_of(sample)
            .is_some_and(|found| (kind::VOLUME_FLIGHT..=kind::VOLUME_ATTRIBUTES).contains(&found))
    },
    read: |sample| {
        let fields = volume::inspect::inspect(&sample.head, sample.length);
        object::finding(sample, fields)
    },
};
