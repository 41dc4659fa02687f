//! What a fixed directory answers, without a mount.

use super::*;
use crate::NewObject;
use parking_lot::Mutex;

/// 8 KiB in memory, of which the second half begins as a hole.
struct Memory(Mutex<Vec<u8>>);

impl Content for Memory {
    fn size(&self) -> u64 {
        8192
    }
    fn allocated(&self) -> u64 {
        4096
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let offset = offset as usize;
        buffer.copy_from_slice(&self.0.lock()[offset..offset + buffer.len()]);
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let offset = offset as usize;
        self.0.lock()[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn zero(&self, offset: u64, length: u64, _: bool) -> Result<()> {
        self.write(offset, &vec![0; length as usize])
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn extent(&self, offset: u64) -> (bool, u64) {
        (offset >= 4096, 4096 - offset % 4096)
    }
}

fn directory() -> (Fixed, Ino) {
    let content = Memory(Mutex::new(vec![1; 8192]));
    let fixed = Fixed::new(vec![("disk".into(), Box::new(content))]);
    let (ino, attr) = fixed.lookup(Ino::ROOT, OsStr::new("disk")).unwrap();
    assert_eq!((attr.size, attr.kind), (8192, Kind::File));
    (fixed, ino)
}

#[test]
fn content_is_read_and_written_inside_its_size_only() {
    let (fixed, disk) = directory();
    let mut buffer = [0; 100];
    fixed.write(disk, 8100, &[7; 92]).unwrap();
    assert_eq!(fixed.read(disk, 8150, &mut buffer), Ok(42));
    assert_eq!(buffer[..42], [7; 42]);
    assert_eq!(fixed.read(disk, 8192, &mut buffer), Ok(0));
    assert_eq!(fixed.read(disk, u64::MAX, &mut buffer), Ok(0));
    assert_eq!(fixed.write(disk, 8100, &[7; 93]), Err(Errno::NOSPC));
    assert_eq!(fixed.write(disk, u64::MAX, &[7; 2]), Err(Errno::NOSPC));
    assert_eq!(fixed.write(disk, 9000, &[]), Ok(()));
}

#[test]
fn ranges_become_zeros_and_nothing_else_is_allocated() {
    let (fixed, disk) = directory();
    let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
    fixed.allocate(disk, 10, 20, punch).unwrap();
    let mut buffer = [9; 40];
    fixed.read(disk, 0, &mut buffer).unwrap();
    assert_eq!(buffer[10..30], [0; 20]);
    assert_eq!((buffer[9], buffer[30]), (1, 1));
    let past = fixed.allocate(disk, 8000, 200, AllocateFlags::ZERO_RANGE);
    assert_eq!(past, Err(Errno::NOSPC));
    let plain = fixed.allocate(disk, 0, 10, AllocateFlags::empty());
    assert_eq!(plain, Err(Errno::OPNOTSUPP));
}

#[test]
fn holes_are_found_and_the_end_is_one() {
    let (fixed, disk) = directory();
    assert_eq!(fixed.seek(disk, 5, false), Ok(5));
    assert_eq!(fixed.seek(disk, 5, true), Ok(4096));
    assert_eq!(fixed.seek(disk, 5000, false), Err(Errno::NXIO));
    assert_eq!(fixed.seek(disk, 8192, true), Err(Errno::NXIO));
}

#[test]
fn nothing_can_be_made_or_resized() {
    let (fixed, disk) = directory();
    let caller = Caller {
        uid: 0,
        gid: 0,
        pid: 1,
        umask: 0,
    };
    let resize = |size| {
        let change = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        fixed.set_attr(&caller, disk, &change).map(|attr| attr.size)
    };
    assert_eq!(resize(0), Err(Errno::PERM));
    assert_eq!(resize(8192), Ok(8192));
    let name = OsStr::new("other");
    let made = fixed.make(&caller, Ino::ROOT, name, NewObject::File, 0o644);
    assert_eq!(made, Err(Errno::ROFS));
    assert_eq!(fixed.lookup(Ino::ROOT, name), Err(Errno::NOENT));
    assert_eq!(fixed.list(Ino::ROOT).unwrap().len(), 1);
    assert_eq!(fixed.read(Ino::ROOT, 0, &mut [0]), Err(Errno::ISDIR));
    assert_eq!(fixed.read(Ino(9), 0, &mut [0]), Err(Errno::STALE));
}
