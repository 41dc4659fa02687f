//! Requests as the driver words them, on a volume on a simulated disk.

use super::request::{Action, Request, answer};
use super::{Failed, need_driver};
use crate::device::Device;
use crate::{Change, ObjectId, Options, Volume, VolumeId};
use env::errno::Errno;
use env::sim::World;
use libublk::sys;
use mount::fixed::Content;
use parking_lot::Mutex;
use std::sync::Arc;

const SIZE: u64 = 1 << 20;
const BUFFER_BYTES: usize = 64 << 10;

fn of(flags: u32, sector: u64, sectors: u32) -> Result<Action, Errno> {
    let request = Request {
        flags,
        sector,
        sectors,
    };
    Action::of(request, SIZE, BUFFER_BYTES)
}

#[test]
fn each_operation_becomes_its_action_in_bytes() {
    let read = Action::Read {
        offset: 4096,
        length: 512,
    };
    assert_eq!(of(sys::UBLK_IO_OP_READ, 8, 1), Ok(read));
    let write = |durable| Action::Write {
        offset: 0,
        length: BUFFER_BYTES,
        durable,
    };
    assert_eq!(of(sys::UBLK_IO_OP_WRITE, 0, 128), Ok(write(false)));
    let with_fua = sys::UBLK_IO_OP_WRITE | sys::UBLK_IO_F_FUA;
    assert_eq!(of(with_fua, 0, 128), Ok(write(true)));
    let zero = |free, durable| Action::Zero {
        offset: 0,
        length: SIZE,
        free,
        durable,
    };
    let all = (SIZE / 512) as u32;
    assert_eq!(of(sys::UBLK_IO_OP_DISCARD, 0, all), Ok(zero(true, false)));
    let zeroes = sys::UBLK_IO_OP_WRITE_ZEROES;
    assert_eq!(of(zeroes, 0, all), Ok(zero(true, false)));
    let kept = zeroes | sys::UBLK_IO_F_NOUNMAP | sys::UBLK_IO_F_FUA;
    assert_eq!(of(kept, 0, all), Ok(zero(false, true)));
    assert_eq!(
        of(sys::UBLK_IO_OP_FLUSH, u64::MAX, u32::MAX),
        Ok(Action::Flush)
    );
}

#[test]
fn hints_of_the_kernel_change_nothing() {
    let hints = sys::UBLK_IO_F_META | sys::UBLK_IO_F_FAILFAST_DEV | sys::UBLK_IO_F_SWAP;
    let plain = of(sys::UBLK_IO_OP_WRITE, 16, 8);
    assert_eq!(of(sys::UBLK_IO_OP_WRITE | hints, 16, 8), plain);
}

#[test]
fn what_was_not_offered_or_is_out_of_range_is_refused() {
    for operation in [
        sys::UBLK_IO_OP_WRITE_SAME,
        sys::UBLK_IO_OP_ZONE_APPEND,
        sys::UBLK_IO_OP_REPORT_ZONES,
        200,
    ] {
        assert_eq!(of(operation, 0, 8), Err(Errno::OPNOTSUPP), "{operation}");
    }
    for operation in [
        sys::UBLK_IO_OP_READ,
        sys::UBLK_IO_OP_WRITE,
        sys::UBLK_IO_OP_DISCARD,
        sys::UBLK_IO_OP_WRITE_ZEROES,
    ] {
        for (sector, sectors) in [(2048, 1), (2047, 2), (u64::MAX, 1), (u64::MAX / 512, 8)] {
            let found = of(operation, sector, sectors);
            assert_eq!(found, Err(Errno::INVAL), "{operation} {sector} {sectors}");
        }
    }
    // More than the buffer has.
    assert_eq!(of(sys::UBLK_IO_OP_READ, 0, 129), Err(Errno::INVAL));
    assert_eq!(of(sys::UBLK_IO_OP_WRITE, 0, 129), Err(Errno::INVAL));
}

/// Notes what is asked of a device, and fails every call with the error, if there is one.
#[derive(Default)]
struct Notes {
    calls: Mutex<Vec<String>>,
    error: Option<Errno>,
}

impl Notes {
    fn note(&self, call: String) -> mount::Result<()> {
        self.calls.lock().push(call);
        self.error.map_or(Ok(()), Err)
    }
}

impl Content for Notes {
    fn size(&self) -> u64 {
        SIZE
    }

    fn allocated(&self) -> u64 {
        0
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> mount::Result<()> {
        self.note(format!("read {offset} {}", buffer.len()))
    }

    fn write(&self, offset: u64, data: &[u8]) -> mount::Result<()> {
        self.note(format!("write {offset} {}", data.len()))
    }

    fn zero(&self, offset: u64, length: u64, free: bool) -> mount::Result<()> {
        self.note(format!("zero {offset} {length} {free}"))
    }

    fn sync(&self) -> mount::Result<()> {
        self.note("sync".to_owned())
    }
}

fn ask(content: &dyn Content, flags: u32, sector: u64, sectors: u32, buffer: &mut [u8]) -> i32 {
    let request = Request {
        flags,
        sector,
        sectors,
    };
    answer(content, request, buffer)
}

#[test]
fn a_durable_change_is_synced_behind_it_and_nothing_else_is() {
    let notes = Notes::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    let fua = sys::UBLK_IO_F_FUA;
    let requests = [
        (sys::UBLK_IO_OP_READ | fua, 512),
        (sys::UBLK_IO_OP_WRITE, 512),
        (sys::UBLK_IO_OP_WRITE | fua, 512),
        (sys::UBLK_IO_OP_DISCARD, 512),
        (sys::UBLK_IO_OP_WRITE_ZEROES | fua, 512),
        (sys::UBLK_IO_OP_FLUSH, 0),
    ];
    for (flags, expected) in requests {
        assert_eq!(ask(&notes, flags, 2, 1, &mut buffer), expected, "{flags:x}");
    }
    let calls = notes.calls.lock().join(", ");
    assert_eq!(
        calls,
        "read 1024 512, write 1024 512, write 1024 512, sync, zero 1024 512 true, \
         zero 1024 512 true, sync, sync"
    );
}

#[test]
fn an_error_is_its_number_with_the_sign_changed_and_a_failed_write_is_not_synced() {
    let notes = Notes {
        error: Some(Errno::NOSPC),
        ..Notes::default()
    };
    let mut buffer = vec![0; BUFFER_BYTES];
    let with_fua = sys::UBLK_IO_OP_WRITE | sys::UBLK_IO_F_FUA;
    let answered = ask(&notes, with_fua, 0, 1, &mut buffer);
    assert_eq!(answered, -Errno::NOSPC.raw_os_error());
    assert_eq!(*notes.calls.lock(), ["write 0 512"]);
    let unknown = ask(&notes, 200, 0, 1, &mut buffer);
    assert_eq!(unknown, -Errno::OPNOTSUPP.raw_os_error());
}

#[test]
fn a_volume_keeps_what_the_driver_writes() {
    let world = World::new(1);
    let disk = world.disk("disk", 16 << 20);
    let options = Options {
        segment_blocks: 64,
        ..Options::default()
    };
    let volume = Volume::create(vec![disk], VolumeId(7), options).unwrap();
    let object = ObjectId(1);
    let size = Change::Resize { object, size: SIZE };
    volume.commit(&[size]).unwrap();
    let device = Device::new(Arc::new(volume), object).unwrap();
    let mut buffer = vec![7; BUFFER_BYTES];
    let write = sys::UBLK_IO_OP_WRITE | sys::UBLK_IO_F_FUA;
    assert_eq!(
        ask(&device, write, 8, 128, &mut buffer),
        BUFFER_BYTES as i32
    );
    assert_eq!(
        ask(&device, sys::UBLK_IO_OP_DISCARD, 16, 8, &mut buffer),
        4096
    );
    buffer.fill(1);
    let read = ask(&device, sys::UBLK_IO_OP_READ, 8, 24, &mut buffer);
    assert_eq!(read, 12_288);
    assert!(buffer[..4096].iter().all(|byte| *byte == 7));
    assert!(buffer[4096..8192].iter().all(|byte| *byte == 0));
    assert!(buffer[8192..12_288].iter().all(|byte| *byte == 7));
    assert!(buffer[12_288..].iter().all(|byte| *byte == 1));
}

#[test]
fn a_machine_without_the_driver_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let missing = need_driver(&home.path().join("ublk-control"));
    assert!(matches!(missing, Err(Failed::NoDriver)), "{missing:?}");
    let directory = need_driver(home.path());
    assert!(matches!(directory, Err(Failed::Unusable(Errno::ISDIR))));
}
