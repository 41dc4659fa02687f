//! The calls. `include/holdfast_vlog.h` says what each does; it is the interface, and this is what
//! stands behind it.
#![expect(unsafe_code, reason = "C passes pointers, and names are not mangled")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the header says what each pointer has to be"
)]

use crate::edge::{self, Failure, bytes, place, reference, string};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vlog::{
    CHANGES_MAX, Change, Compaction, Directory, Options, Position, Receipt, Record, Sync, Vlog,
    VlogId,
};

/// A log in C's hands.
pub struct HvlLog {
    log: Vlog,
    broken: AtomicBool,
}

/// `hvl_position` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HvlPosition {
    /// As [`Position::to_bytes`].
    pub bytes: [u8; 6],
}

impl HvlPosition {
    fn position(&self) -> Position {
        Position::from_bytes(self.bytes)
    }
}

impl From<Position> for HvlPosition {
    fn from(position: Position) -> HvlPosition {
        HvlPosition {
            bytes: position.to_bytes(),
        }
    }
}

/// `hvl_receipt` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HvlReceipt {
    /// The lane.
    pub lane: u32,
    /// Its number there.
    pub number: u64,
}

/// `hvl_options` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HvlOptions {
    /// Lanes.
    pub lanes: u32,
    /// 0 always, 1 every so often, 2 never.
    pub sync: u32,
    /// How often.
    pub sync_ms: u32,
    /// When a file is compacted.
    pub dead_percent_min: u32,
    /// Threads of an open.
    pub recovery_threads: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes that may wait.
    pub pending_bytes_max: u64,
    /// Bound of compactions, or 0.
    pub compaction_bytes_per_s_max: u64,
}

/// `hvl_change` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HvlChange {
    /// The stream.
    pub stream: u32,
    /// Not 0 to kill.
    pub kill: u32,
    /// Not 0 to replace.
    pub replaces: u32,
    /// Zero.
    pub reserved: u32,
    /// Content of an append.
    pub payload: *const u8,
    /// Its length.
    pub length: usize,
    /// What is killed or replaced, then what was appended.
    pub position: HvlPosition,
}

/// `hvl_status` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HvlStatus {
    numbers: [u64; 12],
}

const _: () = assert!(
    size_of::<HvlPosition>() == 6
        && size_of::<HvlReceipt>() == 16
        && size_of::<HvlOptions>() == 48
        && size_of::<HvlStatus>() == 96
);

/// `hvl_sink` of the header.
pub type HvlSink =
    Option<unsafe extern "C" fn(*mut c_void, u32, HvlPosition, u64, *const u8, usize)>;

/// The sink and what it is given.
struct Callback {
    sink: HvlSink,
    context: *mut c_void,
}

// SAFETY: the header says that the sink is called from several threads at once.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl std::marker::Sync for Callback {}

impl Callback {
    fn take(&self, record: Record<'_>) {
        if let Some(sink) = self.sink {
            let payload = record.payload;
            // SAFETY: the caller's function, called as the header says.
            unsafe {
                sink(
                    self.context,
                    record.stream,
                    record.position.into(),
                    record.order,
                    payload.as_ptr(),
                    payload.len(),
                );
            }
        }
    }
}

impl HvlOptions {
    fn of(options: &Options) -> HvlOptions {
        let (sync, sync_ms) = match options.sync {
            Sync::Always => (0, 0),
            Sync::Every(period) => (1, u32::try_from(period.as_millis()).unwrap_or(u32::MAX)),
            Sync::Never => (2, 0),
        };
        HvlOptions {
            lanes: options.lanes,
            sync,
            sync_ms,
            dead_percent_min: options.compaction.dead_percent_min,
            recovery_threads: options.recovery_threads,
            reserved: 0,
            segment_bytes: options.segment_bytes,
            pending_bytes_max: options.pending_bytes_max as u64,
            compaction_bytes_per_s_max: options.compaction.bytes_per_s_max.unwrap_or(0),
        }
    }

    fn options(&self) -> Result<Options, Failure> {
        if self.reserved != 0 {
            return Err(Failure::misuse("what is reserved in the options is not 0"));
        }
        Ok(Options {
            lanes: self.lanes,
            segment_bytes: self.segment_bytes,
            pending_bytes_max: usize::try_from(self.pending_bytes_max)
                .map_err(|_| Failure::misuse("pending_bytes_max is more than there is memory"))?,
            sync: match self.sync {
                0 => Sync::Always,
                1 => Sync::Every(Duration::from_millis(self.sync_ms.into())),
                2 => Sync::Never,
                _ => return Err(Failure::misuse("sync is none of HVL_SYNC_...")),
            },
            compaction: Compaction {
                dead_percent_min: self.dead_percent_min,
                bytes_per_s_max: Some(self.compaction_bytes_per_s_max).filter(|most| *most > 0),
            },
            recovery_threads: self.recovery_threads,
            ..Options::default()
        })
    }
}

unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: null or a string, as the header asks for.
    let text = unsafe { string(text, what)? };
    text.to_str()
        .map_err(|_| Failure::misuse(&format!("{what} is not UTF-8")))
}

unsafe fn directories(
    paths: *const *const c_char,
    count: usize,
) -> Result<Vec<Directory>, Failure> {
    if paths.is_null() || count == 0 || count > 256 {
        return Err(Failure::misuse("a log has 1 to 256 directories"));
    }
    let mut found = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: so many pointers, each null or a string, as the header asks for.
        let path = unsafe { text(*paths.add(index), "a directory")? };
        found.push(Directory::open(path)?);
    }
    Ok(found)
}

unsafe fn store_receipt(receipt: *mut HvlReceipt, of: Receipt) {
    let (lane, number) = of.to_parts();
    // SAFETY: null or room for one, as the header asks for.
    if let Some(receipt) = unsafe { receipt.as_mut() } {
        *receipt = HvlReceipt { lane, number };
    }
}

unsafe fn receipt_of(receipt: *const HvlReceipt) -> Result<Receipt, Failure> {
    // SAFETY: null or a receipt, as the header asks for.
    let receipt = unsafe { reference(receipt, "the receipt")? };
    Ok(Receipt::from_parts(receipt.lane, receipt.number))
}

/// Does work on a log, where no bug has broken it.
unsafe fn on_log(log: *const HvlLog, work: impl FnOnce(&Vlog) -> Result<(), Failure>) -> c_int {
    // SAFETY: null or a log that is open, as the header asks for.
    let known = unsafe { log.as_ref() };
    let broke = || {
        if let Some(log) = known {
            log.broken.store(true, Ordering::Release);
        }
    };
    edge::call(broke, || {
        let log = known.ok_or_else(|| Failure::misuse("the log is null"))?;
        if log.broken.load(Ordering::Acquire) {
            return Err(Failure::broken());
        }
        work(&log.log)
    })
}

/// `hvl_error`.
#[unsafe(no_mangle)]
pub extern "C" fn hvl_error() -> *const c_char {
    edge::text()
}

/// `hvl_options_default`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_options_default(options: *mut HvlOptions) -> c_int {
    edge::call(
        || (),
        || {
            // SAFETY: null or room for them, as the header asks for.
            let options = unsafe { place(options, "the place for the options")? };
            *options = HvlOptions::of(&Options::default());
            Ok(())
        },
    )
}

/// `hvl_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_create(
    name: *const c_char,
    paths: *const *const c_char,
    count: usize,
) -> c_int {
    edge::call(
        || (),
        || {
            // SAFETY: null, or what the header asks for.
            let (name, found) = unsafe { (text(name, "the name")?, directories(paths, count)?) };
            Ok(Vlog::create(name, found, VlogId::from_kernel()?)?)
        },
    )
}

/// `hvl_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_open(
    name: *const c_char,
    paths: *const *const c_char,
    count: usize,
    options: *const HvlOptions,
    sink: HvlSink,
    context: *mut c_void,
    log: *mut *mut HvlLog,
) -> c_int {
    edge::call(
        || (),
        || {
            // SAFETY: null, or what the header asks for, for all of them.
            let (log, name, found, options) = unsafe {
                let log = place(log, "the place for the log")?;
                *log = std::ptr::null_mut();
                let options = match options.as_ref() {
                    Some(options) => options.options()?,
                    None => Options::default(),
                };
                (
                    log,
                    text(name, "the name")?,
                    directories(paths, count)?,
                    options,
                )
            };
            let callback = Callback { sink, context };
            let opened = Vlog::open(name, found, options, &|record| callback.take(record))?;
            *log = Box::into_raw(Box::new(HvlLog {
                log: opened,
                broken: AtomicBool::new(false),
            }));
            Ok(())
        },
    )
}

/// `hvl_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_close(log: *mut HvlLog) -> c_int {
    edge::call(
        || (),
        || {
            if log.is_null() {
                return Ok(());
            }
            // SAFETY: it came from `Box::into_raw`, and the header says that nobody uses it now or
            // later.
            let owned = unsafe { Box::from_raw(log) };
            match owned.broken.load(Ordering::Acquire) {
                // What a bug left in memory is not to reach the files.
                true => Ok(()),
                false => Ok(owned.log.close()?),
            }
        },
    )
}

/// `hvl_append`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_append(
    log: *mut HvlLog,
    stream: u32,
    payload: *const u8,
    length: usize,
    replaces: *const HvlPosition,
    position: *mut HvlPosition,
    receipt: *mut HvlReceipt,
) -> c_int {
    let work = |log: &Vlog| {
        // SAFETY: null, or what the header asks for, for all of them.
        unsafe {
            let payload = bytes(payload, length)?;
            let into = place(position, "the place for the position")?;
            let replaces = replaces.as_ref().map(HvlPosition::position);
            let (position, made) = log.append(stream, payload, replaces)?;
            *into = position.into();
            store_receipt(receipt, made);
        }
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_log(log, work) }
}

/// `hvl_kill`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_kill(
    log: *mut HvlLog,
    stream: u32,
    position: *const HvlPosition,
    receipt: *mut HvlReceipt,
) -> c_int {
    let work = |log: &Vlog| {
        // SAFETY: null, or what the header asks for.
        unsafe {
            let position = reference(position, "the position")?.position();
            store_receipt(receipt, log.kill(stream, position)?);
        }
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_log(log, work) }
}

/// `hvl_group`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_group(
    log: *mut HvlLog,
    changes: *mut HvlChange,
    count: usize,
    receipt: *mut HvlReceipt,
) -> c_int {
    let work = |log: &Vlog| {
        if changes.is_null() || count == 0 || count > CHANGES_MAX {
            return Err(Failure::misuse("a group has 1 to 1048576 changes"));
        }
        // SAFETY: not null, and so many changes that nobody else uses, as the header asks for.
        let changes = unsafe { std::slice::from_raw_parts_mut(changes, count) };
        let mut asked = Vec::with_capacity(count);
        for change in changes.iter() {
            if change.reserved != 0 {
                return Err(Failure::misuse("what is reserved in a change is not 0"));
            }
            let (stream, position) = (change.stream, change.position.position());
            asked.push(match change.kill {
                0 => Change::Append {
                    stream,
                    // SAFETY: null or so many bytes, as the header asks for.
                    payload: unsafe { bytes(change.payload, change.length)? },
                    replaces: (change.replaces != 0).then_some(position),
                },
                _ => Change::Kill { stream, position },
            });
        }
        let mut positions = Vec::with_capacity(count);
        let made = log.group(&asked, &mut positions)?;
        drop(asked);
        let appends = changes.iter_mut().filter(|change| change.kill == 0);
        for (change, position) in appends.zip(positions) {
            change.position = position.into();
        }
        // SAFETY: null or room for one, as the header asks for.
        unsafe { store_receipt(receipt, made) };
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_log(log, work) }
}

/// `hvl_durable`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_durable(log: *mut HvlLog, receipt: *const HvlReceipt) -> c_int {
    let work = |log: &Vlog| {
        // SAFETY: null or a receipt, as the header asks for.
        let receipt = unsafe { receipt_of(receipt)? };
        Ok(log.durable(receipt)?)
    };
    // SAFETY: as the header asks for.
    unsafe { on_log(log, work) }
}

/// `hvl_is_durable`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_is_durable(
    log: *mut HvlLog,
    receipt: *const HvlReceipt,
    durable: *mut c_int,
) -> c_int {
    let work = |log: &Vlog| {
        // SAFETY: null, or what the header asks for.
        let (receipt, into) = unsafe {
            (
                receipt_of(receipt)?,
                place(durable, "the place for the answer")?,
            )
        };
        *into = log.is_durable(receipt).into();
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_log(log, work) }
}

/// `hvl_compact`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_compact(
    log: *mut HvlLog,
    dead_percent_min: u32,
    compacted: *mut c_int,
) -> c_int {
    let work = |log: &Vlog| {
        let done = log.compact(dead_percent_min)?;
        // SAFETY: null or room for one, as the header asks for.
        if let Some(compacted) = unsafe { compacted.as_mut() } {
            *compacted = done.is_some().into();
        }
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_log(log, work) }
}

/// `hvl_status_of`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hvl_status_of(log: *mut HvlLog, status: *mut HvlStatus) -> c_int {
    let work = |log: &Vlog| {
        // SAFETY: null or room for one, as the header asks for.
        let into = unsafe { place(status, "the place for the status")? };
        let status = log.status();
        into.numbers = [
            status.records_live,
            status.records,
            status.files,
            status.bytes,
            status.bytes_pending,
            status.tracking_bytes,
            status.bytes_written,
            status.syncs,
            status.compactions,
            status.compacted_bytes_read,
            status.compacted_bytes_written,
            status.refuses.is_some().into(),
        ];
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_log(log, work) }
}
