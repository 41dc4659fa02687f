//! Traces of disks.

use codec::{FrameHeader, FrameKey, frame_bytes};
use env::Disk;
use env::errno::Errno;
use std::sync::Arc;
use volume::trace::{Header, Loss, Trace, Walk, inspect};

const DISK_BYTES: usize = 1 << 16;

/// Most events that are walked through.
const EVENTS_MAX: usize = 64;

/// Bytes that can be read.
struct Memory(Vec<u8>);

impl Disk for Memory {
    fn len(&self) -> env::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        let start = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        let end = start.checked_add(buffer.len()).ok_or(Errno::INVAL)?;
        buffer.copy_from_slice(self.0.get(start..end).ok_or(Errno::INVAL)?);
        Ok(())
    }
    fn write_at(&self, _: u64, _: &[u8]) -> env::Result<()> {
        Err(Errno::ROFS)
    }
    fn sync(&self) -> env::Result<()> {
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> env::Result<()> {
        Err(Errno::ROFS)
    }
}

/// Any bytes are refused or walked through, as a trace and as events of one whose checksums are right.
pub(crate) fn check(bytes: &[u8]) {
    walk(bytes);
    let header = Header {
        trace: 7,
        disk_bytes: DISK_BYTES as u64,
        base_sum: codec::crc32c(&[]),
    };
    let encoded = header.encode();
    assert_eq!(Header::decode(&encoded), Ok(header));
    let trace = [&encoded[..], bytes].concat();
    walk(&trace);
    walk(&[encoded, events(bytes)].concat());
}

/// The input as kind, length and payload of one event after the other; of a write content follows.
fn events(bytes: &[u8]) -> Vec<u8> {
    let key = FrameKey::new(7, 0);
    let mut trace = Vec::new();
    let mut rest = bytes;
    for number in 1..EVENTS_MAX as u64 {
        let Some(([kind, length], later)) = rest.split_first_chunk() else {
            break;
        };
        let (payload, later) = later.split_at(later.len().min(usize::from(*length)));
        rest = later;
        let mut payload = payload.to_vec();
        let mut content = Vec::new();
        if *kind == 1 && payload.len() == 24 {
            let length = payload[8..16].try_into().map_or(0, u64::from_le_bytes);
            content = vec![9; length.min(DISK_BYTES as u64) as usize];
            payload[16..20].copy_from_slice(&codec::crc32c(&content).to_le_bytes());
            content.resize(content.len().next_multiple_of(8), 0);
        }
        let header = FrameHeader {
            kind: (*kind).into(),
            sequence: number,
            durable_below: number,
            ends_write: false,
        };
        let sum = codec::crc32c(&payload);
        trace.extend_from_slice(&key.seal(&header, payload.len(), sum));
        trace.extend_from_slice(&payload);
        trace.resize(
            trace.len() + frame_bytes(payload.len()) - 32 - payload.len(),
            0,
        );
        trace.extend_from_slice(&content);
    }
    trace
}

fn walk(bytes: &[u8]) {
    drop(inspect(bytes, bytes.len() as u64));
    drop(inspect(bytes, bytes.len() as u64 + 1));
    let Ok(trace) = Trace::open(Arc::new(Memory(bytes.to_vec()))) else {
        return;
    };
    let base = Arc::new(Memory(vec![0; DISK_BYTES]));
    let Ok(mut walk) = Walk::new(&trace, base) else {
        return;
    };
    let mut image = vec![0; DISK_BYTES];
    for _ in 0..EVENTS_MAX {
        if !matches!(walk.step(), Ok(Some(_))) {
            break;
        }
        let random = Loss::Random {
            seed: 1,
            sector_bytes: 512,
        };
        for loss in [Loss::Nothing, Loss::Everything, random] {
            let cut = walk.cut(&loss).expect("nothing was chosen");
            assert_eq!(cut.fates.len(), walk.in_flight());
            cut.image.read_at(0, &mut image).expect("all of it");
        }
    }
}
