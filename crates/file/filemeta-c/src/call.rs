//! The calls. `include/holdfast_filemeta.h` says what each does; it is the interface, and this is
//! what stands behind it.
#![expect(unsafe_code, reason = "C passes pointers, and names are not mangled")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the header says what each pointer has to be"
)]

use crate::edge::{self, Failure, buffer, bytes, place, reference, string};
use crate::wish::Wish;
use env::errno::Errno;
use env::handle::{HANDLE_BYTES_MAX, Handle, name_to_handle};
use filemeta::{MetaError, Options, Places, Store, StoreId, Tag};
use rustix::fs::{AtFlags, statat};
use std::ffi::{OsStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A store in C's hands.
pub struct HfmStore {
    store: Arc<Store>,
    /// The file system that handles are of.
    device: u64,
    broken: Arc<AtomicBool>,
}

/// A request in C's hands.
pub struct HfmRequest {
    store: Arc<Store>,
    broken: Arc<AtomicBool>,
    wishes: Vec<Wish>,
}

/// A file, whatever its name is: `hfm_handle` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HfmHandle {
    /// Bytes that count.
    pub length: u8,
    /// The kernel's handle.
    pub bytes: [u8; HANDLE_BYTES_MAX],
}

const _: () = assert!(size_of::<HfmHandle>() == 65 && HANDLE_BYTES_MAX == 64);

fn whole(broken: &AtomicBool) -> Result<(), Failure> {
    match broken.load(Ordering::Acquire) {
        true => Err(Failure::broken()),
        false => Ok(()),
    }
}

fn tag_of(tag: u8) -> Result<Tag, Failure> {
    Tag::new(tag).ok_or_else(|| Failure::misuse("a tag is a number from 0 to 63"))
}

unsafe fn handle_of(handle: *const HfmHandle) -> Result<Handle, Failure> {
    // SAFETY: null or a handle, as the header asks for.
    let handle = unsafe { reference(handle, "the handle")? };
    let known = handle.bytes.get(..usize::from(handle.length));
    known
        .and_then(Handle::from_bytes)
        .ok_or_else(|| Failure::misuse("a handle that hfm_handle_of did not give"))
}

unsafe fn path_of<'a>(root: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: null or a string, as the header asks for.
    let root = unsafe { string(root, "the directory")? };
    Ok(Path::new(OsStr::from_bytes(root.to_bytes())))
}

/// Does work on a store, where no bug has broken it.
unsafe fn on_store(
    store: *const HfmStore,
    work: impl FnOnce(&HfmStore) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: null or a store that is open, as the header asks for.
    let known = unsafe { reference(store, "the store") };
    let broke = || {
        if let Ok(store) = &known {
            store.broken.store(true, Ordering::Release);
        }
    };
    edge::call(broke, || {
        let Ok(store) = &known else {
            return Err(Failure::misuse("the store is null"));
        };
        whole(&store.broken)?;
        work(store)
    })
}

fn hand_out(root: &Path, store: Store) -> Result<*mut HfmStore, Failure> {
    let device = std::fs::metadata(root).map(|found| found.dev());
    let device = device.map_err(|error| Failure::misuse(&format!("the directory: {error}")))?;
    Ok(Box::into_raw(Box::new(HfmStore {
        store: Arc::new(store),
        device,
        broken: Arc::default(),
    })))
}

/// `hfm_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_create(
    root: *const c_char,
    id: *const u8,
    attribute: *const c_char,
    store: *mut *mut HfmStore,
) -> c_int {
    edge::call(
        || (),
        || {
            // SAFETY: null, or what the header asks for, for all four.
            let (root, id, attribute, store) = unsafe {
                let id = reference(id.cast::<[u8; 16]>(), "the id")?;
                let attribute = string(attribute, "the attribute's name")?;
                (
                    path_of(root)?,
                    id,
                    attribute,
                    place(store, "the place for the store")?,
                )
            };
            *store = std::ptr::null_mut();
            let places = Places::real(root)?;
            let id = StoreId(u128::from_be_bytes(*id));
            let made = Store::create(&places, id, attribute, Options::default())?;
            *store = hand_out(root, made)?;
            Ok(())
        },
    )
}

/// `hfm_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_open(root: *const c_char, store: *mut *mut HfmStore) -> c_int {
    edge::call(
        || (),
        || {
            // SAFETY: null, or what the header asks for.
            let (root, store) =
                unsafe { (path_of(root)?, place(store, "the place for the store")?) };
            *store = std::ptr::null_mut();
            if !root.is_dir() {
                return Err(MetaError::NoStore.into());
            }
            let opened = Store::open(&Places::real(root)?, None, Options::default())?;
            *store = hand_out(root, opened.store)?;
            Ok(())
        },
    )
}

/// `hfm_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_close(store: *mut HfmStore) -> c_int {
    edge::call(
        || (),
        || {
            if store.is_null() {
                return Ok(());
            }
            // SAFETY: a store that is open, as the header asks for.
            let requests = Arc::strong_count(unsafe { &(*store).store }) - 1;
            if requests > 0 {
                return Err(Failure::misuse(
                    "requests are open on the store: commit, submit or abandon them first",
                ));
            }
            // SAFETY: it came from `Box::into_raw`, and the header says that nobody uses it now or
            // later.
            let owned = unsafe { Box::from_raw(store) };
            let broken = owned.broken.load(Ordering::Acquire);
            match Arc::into_inner(owned.store) {
                // What a bug left in memory is not to reach the files; the journal has the rest.
                Some(store) if !broken => Ok(store.close()?),
                _ => Ok(()),
            }
        },
    )
}

/// `hfm_flush`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_flush(store: *mut HfmStore) -> c_int {
    // SAFETY: as the header asks for.
    unsafe { on_store(store, |store| Ok(store.store.flush()?)) }
}

/// `hfm_handle_of`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_handle_of(
    store: *mut HfmStore,
    dir: c_int,
    name: *const c_char,
    handle: *mut HfmHandle,
) -> c_int {
    let work = |store: &HfmStore| {
        // SAFETY: null, or what the header asks for.
        let (name, into) = unsafe {
            (
                string(name, "the name")?,
                place(handle, "the place for the handle")?,
            )
        };
        if dir < 0 && dir != AT_FDCWD {
            return Err(Failure::misuse(
                "the directory is not an open file descriptor",
            ));
        }
        let dir = match dir {
            AT_FDCWD => rustix::fs::CWD,
            // SAFETY: not -1, and the header says that it is open.
            dir => unsafe { BorrowedFd::borrow_raw(dir) },
        };
        let io = |doing| move |errno: Errno| MetaError::Io { doing, errno };
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let found = statat(dir, name, flags).map_err(io("looking at the file"))?;
        if found.st_dev != store.device {
            return Err(Failure::misuse(
                "the file is on another file system than the store",
            ));
        }
        let (known, _mount) =
            name_to_handle(dir, name).map_err(|errno| MetaError::NoHandles { errno })?;
        let mut bytes = [0; HANDLE_BYTES_MAX];
        let length = known.as_bytes().len();
        bytes
            .get_mut(..length)
            .ok_or_else(|| Failure::misuse("a handle that is too long"))?
            .copy_from_slice(known.as_bytes());
        *into = HfmHandle {
            length: length as u8,
            bytes,
        };
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_store(store, work) }
}

/// `AT_FDCWD` of fcntl.h.
const AT_FDCWD: c_int = -100;

/// `hfm_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_get(
    store: *mut HfmStore,
    file: *const HfmHandle,
    tag: u8,
    into: *mut u8,
    length: *mut usize,
) -> c_int {
    let work = |store: &HfmStore| {
        // SAFETY: null, or what the header asks for; the buffer has the bytes that `length` says.
        let (file, length) =
            unsafe { (handle_of(file)?, place(length, "the place for the length")?) };
        let content = store.store.get(&file, tag_of(tag)?)?;
        let room = std::mem::replace(length, content.len());
        if room < content.len() {
            return Err(Failure::too_small(content.len()));
        }
        // SAFETY: as above; no more than `room` bytes.
        unsafe { buffer(into, content.len())? }.copy_from_slice(&content);
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_store(store, work) }
}

/// `hfm_length`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_length(
    store: *mut HfmStore,
    file: *const HfmHandle,
    tag: u8,
    length: *mut u64,
) -> c_int {
    let work = |store: &HfmStore| {
        // SAFETY: null, or what the header asks for.
        let (file, length) =
            unsafe { (handle_of(file)?, place(length, "the place for the length")?) };
        *length = store.store.length(&file, tag_of(tag)?)?;
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_store(store, work) }
}

/// `hfm_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_read(
    store: *mut HfmStore,
    file: *const HfmHandle,
    tag: u8,
    offset: u64,
    into: *mut u8,
    length: usize,
) -> c_int {
    let work = |store: &HfmStore| {
        // SAFETY: null, or what the header asks for.
        let (file, into) = unsafe { (handle_of(file)?, buffer(into, length)?) };
        Ok(store.store.read(&file, tag_of(tag)?, offset, into)?)
    };
    // SAFETY: as the header asks for.
    unsafe { on_store(store, work) }
}

/// `hfm_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_begin(store: *mut HfmStore, request: *mut *mut HfmRequest) -> c_int {
    let work = |store: &HfmStore| {
        // SAFETY: null, or room for a pointer.
        let request = unsafe { place(request, "the place for the request")? };
        *request = Box::into_raw(Box::new(HfmRequest {
            store: store.store.clone(),
            broken: store.broken.clone(),
            wishes: Vec::new(),
        }));
        Ok(())
    };
    // SAFETY: as the header asks for.
    unsafe { on_store(store, work) }
}

/// Adds to a request.
unsafe fn add(request: *mut HfmRequest, wish: impl FnOnce() -> Result<Wish, Failure>) -> c_int {
    edge::call(
        || (),
        || {
            // SAFETY: null, or a request that is open and used by one thread at a time.
            let request = unsafe { place(request, "the request")? };
            request.wishes.push(wish()?);
            Ok(())
        },
    )
}

/// `hfm_set_value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_set_value(
    request: *mut HfmRequest,
    file: *const HfmHandle,
    tag: u8,
    value: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: as the header asks for.
    unsafe {
        add(request, || {
            Ok(Wish::Value(
                handle_of(file)?,
                tag_of(tag)?,
                bytes(value, length)?.to_vec(),
            ))
        })
    }
}

/// `hfm_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_put(
    request: *mut HfmRequest,
    file: *const HfmHandle,
    tag: u8,
    content: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: as the header asks for.
    unsafe {
        add(request, || {
            Ok(Wish::Put(
                handle_of(file)?,
                tag_of(tag)?,
                bytes(content, length)?.to_vec(),
            ))
        })
    }
}

/// `hfm_patch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_patch(
    request: *mut HfmRequest,
    file: *const HfmHandle,
    tag: u8,
    offset: u64,
    content: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: as the header asks for.
    unsafe {
        add(request, || {
            let content = bytes(content, length)?.to_vec();
            Ok(Wish::Patch(handle_of(file)?, tag_of(tag)?, offset, content))
        })
    }
}

/// `hfm_resize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_resize(
    request: *mut HfmRequest,
    file: *const HfmHandle,
    tag: u8,
    length: u64,
) -> c_int {
    // SAFETY: as the header asks for.
    unsafe {
        add(request, || {
            Ok(Wish::Resize(handle_of(file)?, tag_of(tag)?, length))
        })
    }
}

/// `hfm_share`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_share(
    request: *mut HfmRequest,
    file: *const HfmHandle,
    tag: u8,
    content: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: as the header asks for.
    unsafe {
        add(request, || {
            Ok(Wish::Share(
                handle_of(file)?,
                tag_of(tag)?,
                bytes(content, length)?.to_vec(),
            ))
        })
    }
}

/// `hfm_clear`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_clear(
    request: *mut HfmRequest,
    file: *const HfmHandle,
    tag: u8,
) -> c_int {
    // SAFETY: as the header asks for.
    unsafe { add(request, || Ok(Wish::Clear(handle_of(file)?, tag_of(tag)?))) }
}

/// `hfm_forget`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_forget(request: *mut HfmRequest, file: *const HfmHandle) -> c_int {
    // SAFETY: as the header asks for.
    unsafe { add(request, || Ok(Wish::Forget(handle_of(file)?))) }
}

/// `hfm_reset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_reset(request: *mut HfmRequest, file: *const HfmHandle) -> c_int {
    // SAFETY: as the header asks for.
    unsafe { add(request, || Ok(Wish::Reset(handle_of(file)?))) }
}

/// Ends a request: it is gone, whatever comes of it.
unsafe fn end(request: *mut HfmRequest, durable: bool) -> c_int {
    if request.is_null() {
        return edge::call(|| (), || Err(Failure::misuse("the request is null")));
    }
    // SAFETY: it came from `Box::into_raw`, and the header says that nobody uses it later.
    let owned = unsafe { Box::from_raw(request) };
    let broken = owned.broken.clone();
    edge::call(
        || broken.store(true, Ordering::Release),
        move || {
            whole(&owned.broken)?;
            let mut request = owned.store.request();
            owned
                .wishes
                .iter()
                .try_for_each(|wish| wish.make(&mut request))?;
            let done = if durable {
                request.commit()
            } else {
                request.submit()
            };
            Ok(done.map(drop)?)
        },
    )
}

/// `hfm_commit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_commit(request: *mut HfmRequest) -> c_int {
    // SAFETY: as the header asks for.
    unsafe { end(request, true) }
}

/// `hfm_submit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_submit(request: *mut HfmRequest) -> c_int {
    // SAFETY: as the header asks for.
    unsafe { end(request, false) }
}

/// `hfm_abandon`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hfm_abandon(request: *mut HfmRequest) {
    if !request.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the header says that nobody uses it later. A
        // list of changes is dropped; nothing in it can panic.
        drop(unsafe { Box::from_raw(request) });
    }
}

/// `hfm_error`.
#[unsafe(no_mangle)]
pub extern "C" fn hfm_error() -> *const c_char {
    edge::text()
}
