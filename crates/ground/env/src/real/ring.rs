//! Batches through io_uring (`io_uring(7)`): one system call starts many requests and waits.

use crate::Result;
use crate::batch::{BATCH_DEPTH, Request};
use crate::errno::Errno;
use crate::poison::Poison;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

/// Most bytes of one submission; a longer request goes on where it stopped. The kernel moves at
/// most 2 GiB less a page at a time (`MAX_RW_COUNT`, include/linux/fs.h).
const PIECE_BYTES_MAX: usize = 1 << 30;

/// `IORING_ENTER_GETEVENTS` of include/uapi/linux/io_uring.h.
const ENTER_GETEVENTS: u32 = 1;

/// Where a request goes.
pub(super) enum Target<'f> {
    /// Through the ring, to this file.
    Ring(BorrowedFd<'f>),
    /// By a call of its own.
    Aside,
}

/// Whether the kernel offers io_uring to this process: decided by the first attempt that tells.
/// Where it does not (kernels before 5.6, `kernel.io_uring_disabled`, the seccomp filter of a
/// container), batches run one request after the other.
static OFFERED: OnceLock<bool> = OnceLock::new();

thread_local! {
    /// The ring of this thread, so that no lock is needed, with the process that made it: a child
    /// after fork(2) must not use its parent's.
    static RING: RefCell<Option<(u32, IoUring)>> = const { RefCell::new(None) };
}

/// Whether batches of this process go through io_uring; for messages and benchmarks.
pub fn batches_use_io_uring() -> bool {
    let ring = take_ring();
    let there = ring.is_some();
    put_ring(ring);
    there
}

/// Runs requests that hold no sync. What the ring cannot take, or has not answered, goes to
/// `aside`, one by one.
pub(super) fn run<'a, 'f>(
    poison: &Poison,
    phase: &mut [Request<'a>],
    target: impl Fn(&Request<'a>) -> Target<'f>,
    mut aside: impl FnMut(&mut Request<'a>) -> Result<()>,
) -> Vec<Result<()>> {
    let mut answers = vec![None; phase.len()];
    if let Some(mut ring) = take_ring() {
        let flight = Flight {
            ring: &mut ring,
            poison,
            under_way: UnderWay(0),
            healthy: true,
        };
        if flight.run(phase, target, &mut answers) {
            put_ring(Some(ring));
        }
    }
    let pairs = phase.iter_mut().zip(answers);
    pairs
        .map(|(request, answer)| answer.unwrap_or_else(|| aside(request)))
        .collect()
}

fn take_ring() -> Option<IoUring> {
    if OFFERED.get() == Some(&false) {
        return None;
    }
    let kept = RING.with(|ring| ring.try_borrow_mut().ok()?.take());
    match kept {
        Some((process, ring)) if process == std::process::id() => Some(ring),
        Some((_, parents)) => {
            // Its memory is not mapped here; to unmap it might hit what is there now.
            std::mem::forget(parents);
            new_ring()
        }
        None => new_ring(),
    }
}

fn put_ring(ring: Option<IoUring>) {
    RING.with(|kept| {
        if let (Ok(mut kept), Some(ring)) = (kept.try_borrow_mut(), ring) {
            *kept = Some((std::process::id(), ring));
        }
    });
}

fn new_ring() -> Option<IoUring> {
    let made = IoUring::builder()
        .dontfork()
        .build(BATCH_DEPTH as u32)
        .and_then(|ring| {
            let mut probe = Probe::new();
            ring.submitter().register_probe(&mut probe)?;
            let able =
                probe.is_supported(opcode::Read::CODE) && probe.is_supported(opcode::Write::CODE);
            Ok(able.then_some(ring))
        });
    match made {
        Ok(ring) => {
            OFFERED.get_or_init(|| ring.is_some());
            ring
        }
        Err(error) => {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            if is_final(errno) {
                OFFERED.get_or_init(|| false);
            }
            None
        }
    }
}

/// Whether the failure to make a ring will stay, unlike a shortage of memory or descriptors.
fn is_final(errno: Errno) -> bool {
    !matches!(
        errno,
        Errno::NOMEM | Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::INTR
    )
}

/// Requests that the kernel may be working on. While there are any, their memory must not go
/// away, so an unwinding thread must not get past this.
struct UnderWay(usize);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::process::abort();
        }
    }
}

struct Flight<'r> {
    ring: &'r mut IoUring,
    poison: &'r Poison,
    under_way: UnderWay,
    /// Whether the ring takes more.
    healthy: bool,
}

impl Flight<'_> {
    /// Fills in the answers that the ring gives; says whether the ring is good for another flight.
    fn run<'a, 'f>(
        mut self,
        phase: &mut [Request<'a>],
        target: impl Fn(&Request<'a>) -> Target<'f>,
        answers: &mut [Option<Result<()>>],
    ) -> bool {
        let mut done = vec![0; phase.len()];
        let mut fresh = 0..phase.len();
        let mut short = Vec::new();
        loop {
            while self.healthy && self.under_way.0 < BATCH_DEPTH {
                let Some(index) = short.pop().or_else(|| fresh.next()) else {
                    break;
                };
                let Some(request) = phase.get_mut(index) else {
                    break;
                };
                if let (Request::Write { .. }, Err(errno)) = (&*request, self.poison.check()) {
                    answers[index] = Some(Err(errno));
                    continue;
                }
                let Target::Ring(file) = target(request) else {
                    continue;
                };
                if let Some(entry) = entry(request, done[index], file) {
                    self.push(&entry.user_data(index as u64));
                }
            }
            if self.under_way.0 == 0 {
                return self.healthy;
            }
            self.wait();
            for completion in self.ring.completion() {
                self.under_way.0 -= 1;
                let index = completion.user_data() as usize;
                let count = completion.result();
                match progress(&phase[index], done[index], count) {
                    Progress::Ended(result) => {
                        let writes = matches!(phase[index], Request::Write { .. });
                        let poison = self.poison;
                        let result = if writes {
                            poison.written(result)
                        } else {
                            result
                        };
                        answers[index] = Some(result);
                    }
                    Progress::Short => {
                        done[index] += count as usize;
                        short.push(index);
                    }
                    Progress::Refused => {}
                }
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        #[expect(unsafe_code, reason = "the kernel gets pointers")]
        // SAFETY: the memory and the file that the entry names are borrowed for the whole of
        // `run`, which does not return, nor unwind (UnderWay), before the kernel has answered.
        // Nobody else touches a request's memory meanwhile: `run` holds the requests exclusively.
        let pushed = unsafe { self.ring.submission().push(entry) };
        match pushed {
            Ok(()) => self.under_way.0 += 1,
            // Cannot be: the ring has BATCH_DEPTH entries.
            Err(_) => self.healthy = false,
        }
    }

    /// Hands the queue to the kernel and waits for an answer; may return without one.
    fn wait(&mut self) {
        if self.healthy {
            match self.ring.submit_and_wait(1) {
                Ok(_) => return,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => return,
                Err(_) => {
                    // The kernel is short of something. What it has not taken stays in a queue
                    // that nobody will submit any more.
                    self.healthy = false;
                    let mut queue = self.ring.submission();
                    queue.sync();
                    self.under_way.0 -= queue.len();
                }
            }
        }
        if self.under_way.0 == 0 {
            return;
        }
        #[expect(unsafe_code, reason = "the call that only waits has no safe form")]
        // SAFETY: nothing is submitted and no argument is passed.
        let waited = unsafe {
            let submitter = self.ring.submitter();
            submitter.enter::<libc::sigset_t>(0, 1, ENTER_GETEVENTS, None)
        };
        if waited.is_err() {
            // Answers arrive without the call too.
            std::thread::yield_now();
        }
    }
}

/// What is left of a request, for the kernel. `None` where there is nothing left, and where the
/// end is past what an offset can be: u64::MAX would mean the file's own position.
fn entry(request: &mut Request<'_>, done: usize, file: BorrowedFd<'_>) -> Option<squeue::Entry> {
    let file = types::Fd(file.as_raw_fd());
    let place = |offset: u64, length: usize| {
        let end = offset.checked_add(length as u64)?;
        let piece = length.checked_sub(done)?.min(PIECE_BYTES_MAX);
        let fits = piece > 0 && i64::try_from(end).is_ok();
        fits.then_some((offset + done as u64, piece as u32))
    };
    match request {
        Request::Read { offset, buffer } => {
            let (at, length) = place(*offset, buffer.len())?;
            let memory = buffer.get_mut(done..)?.as_mut_ptr();
            Some(opcode::Read::new(file, memory, length).offset(at).build())
        }
        Request::Write { offset, data } => {
            let (at, length) = place(*offset, data.len())?;
            let memory = data.get(done..)?.as_ptr();
            Some(opcode::Write::new(file, memory, length).offset(at).build())
        }
        Request::Sync => None,
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Progress {
    Ended(Result<()>),
    /// Some of it is done.
    Short,
    /// Nothing is known to be done; the plain call decides.
    Refused,
}

/// What the kernel's answer (bytes, or an error number below 0) means for a request of which
/// `done` bytes were done before.
fn progress(request: &Request<'_>, done: usize, answer: i32) -> Progress {
    let (length, at_end) = match request {
        // As read_at and write_at have it.
        Request::Read { buffer, .. } => (buffer.len(), Errno::INVAL),
        Request::Write { data, .. } => (data.len(), Errno::IO),
        Request::Sync => return Progress::Refused,
    };
    match usize::try_from(answer) {
        Ok(0) => Progress::Ended(Err(at_end)),
        Ok(count) if done + count < length => Progress::Short,
        Ok(_) => Progress::Ended(Ok(())),
        Err(_) => match Errno::from_raw_os_error(answer.saturating_neg()) {
            Errno::INTR | Errno::AGAIN | Errno::CANCELED | Errno::OPNOTSUPP => Progress::Refused,
            errno => Progress::Ended(Err(errno)),
        },
    }
}

#[cfg(test)]
mod tests;
