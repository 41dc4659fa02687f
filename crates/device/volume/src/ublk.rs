//! Block devices of the kernel whose requests this process answers, by its ublk driver (`/dev/ublkb0`
//! and so on).
//!
//! Never run against a driver: the kernels it was built on have none. What requests come down to is
//! tested (`ublk/tests.rs`); the rest follows the examples of libublk.
//!
//! Source: Documentation/block/ublk.rst and include/uapi/linux/ublk_cmd.h of the kernel.
//!
//! A thread for each of the driver's queues takes requests, as tasks of an executor of its own, which
//! libublk asks for. Volumes answer by waiting for a disk, so requests are worked on by other threads;
//! when one is done they ring a bell that the queue's ring listens to.

mod request;
#[cfg(test)]
mod tests;

pub use request::{Action, Request, answer};

use env::errno::Errno;
use io_uring::{opcode, types};
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::helpers::IoBuf;
use libublk::io::{UblkDev, UblkQueue};
use libublk::{BufDesc, UblkError, UblkFlags, sys};
use mount::fixed::Content;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What the driver is asked through.
pub const CONTROL: &str = "/dev/ublk-control";

/// Bytes of a request's buffer, and so of the longest read or write.
const BUFFER_BYTES: u32 = 1 << 20;

/// Requests that the kernel has under way in a queue at once; it has one buffer for each.
const DEPTH: u16 = 32;

/// Most queues; there is none for which no processor is.
const QUEUES_MAX: u16 = 4;

/// Requests that are worked on at once.
const WORKERS: usize = 8;

/// Longest discard or range of zeros, in sectors of 512 bytes: 1 GiB.
const ZERO_SECTORS_MAX: u32 = 1 << 21;

/// Blocks of a volume have so many bytes: what is discarded in smaller pieces gives no room back.
const BLOCK_SHIFT: u8 = 12;

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The kernel was built without the driver, or it is not loaded.
    #[error("{CONTROL} is not there: the kernel has no ublk driver, or it is not loaded")]
    NoDriver,
    /// It cannot be opened.
    #[error("{CONTROL} cannot be opened: {0}")]
    Unusable(Errno),
    /// The driver refused something.
    #[error("the ublk driver: {0}")]
    Driver(#[from] UblkError),
}

/// A device that the kernel knows and does not show yet.
pub struct Server {
    control: Arc<UblkCtrl>,
    content: Arc<dyn Content>,
    sector_shift: u8,
}

/// Ends a [`Server`] from another thread.
#[derive(Clone)]
pub struct Stop(Arc<UblkCtrl>);

/// A request to be worked on.
struct Job {
    request: Request,
    buffer: IoBuf<u8>,
    done: smol::channel::Sender<(IoBuf<u8>, i32)>,
    bell: Arc<OwnedFd>,
}

impl Server {
    /// Asks the driver for a new device with sectors of 512 or 4096 bytes.
    ///
    /// # Errors
    /// There is no driver, or it refuses.
    ///
    /// # Panics
    /// If `sector_bytes` is another number.
    pub fn new(content: Arc<dyn Content>, sector_bytes: u32) -> Result<Server, Failed> {
        assert!(matches!(sector_bytes, 512 | 4096), "{sector_bytes}");
        need_driver(Path::new(CONTROL))?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let queues = u16::try_from(processors).unwrap_or(QUEUES_MAX);
        let control = UblkCtrlBuilder::default()
            .name("holdfast")
            .nr_queues(queues.min(QUEUES_MAX))
            .depth(DEPTH)
            .io_buf_bytes(BUFFER_BYTES)
            .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
            .build()?;
        Ok(Server {
            control: Arc::new(control),
            content,
            sector_shift: if sector_bytes == 512 { 9 } else { 12 },
        })
    }

    /// The device's file, once it is shown.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(self.control.get_bdev_path())
    }

    /// For another thread.
    pub fn stop(&self) -> Stop {
        Stop(self.control.clone())
    }

    /// Shows the device, says so, and answers its requests until it is stopped.
    ///
    /// # Errors
    /// The driver refuses, or there are no threads.
    pub fn run(self, shown: impl FnOnce() + Send + Sync + 'static) -> Result<(), Failed> {
        let (give, take) = channel();
        let take = Arc::new(Mutex::new(take));
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (content, take) = (self.content.clone(), take.clone());
                std::thread::spawn(move || work(content.as_ref(), &take))
            })
            .collect();
        let params = self.params();
        let sized = move |device: &mut UblkDev| {
            device.tgt.dev_size = params.basic.dev_sectors << 9;
            device.tgt.params = params;
            Ok(())
        };
        let served = self.control.run_target(
            sized,
            // Copied for each queue; the last one that ends ends the workers.
            move |queue, device| serve_queue(queue, device, &give),
            move |_| shown(),
        );
        if let Err(error) = served {
            // Queues may wait for requests that never come: this ends them, and nobody waits for it.
            let _gone = self.control.kill_dev();
            return Err(Failed::Driver(error));
        }
        // Queues have ended; the kernel is not to keep a device that nobody answers.
        let _gone = self.control.del_dev();
        for worker in workers {
            // A panic there has been reported on its own thread.
            let _panicked = worker.join();
        }
        Ok(())
    }

    fn params(&self) -> sys::ublk_params {
        let size = self.content.size() >> self.sector_shift << self.sector_shift;
        sys::ublk_params {
            types: sys::UBLK_PARAM_TYPE_BASIC | sys::UBLK_PARAM_TYPE_DISCARD,
            basic: sys::ublk_param_basic {
                attrs: sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA,
                logical_bs_shift: self.sector_shift,
                physical_bs_shift: BLOCK_SHIFT,
                io_opt_shift: BLOCK_SHIFT,
                io_min_shift: BLOCK_SHIFT,
                max_sectors: BUFFER_BYTES >> 9,
                dev_sectors: size >> 9,
                ..Default::default()
            },
            discard: sys::ublk_param_discard {
                discard_granularity: 1 << BLOCK_SHIFT,
                max_discard_sectors: ZERO_SECTORS_MAX,
                max_write_zeroes_sectors: ZERO_SECTORS_MAX,
                // The driver takes no other number.
                max_discard_segments: 1,
                ..Default::default()
            },
            ..Default::default()
        }
    }
}

impl Stop {
    /// Takes the device from the kernel: what it has cached is written before, what is asked later
    /// fails. Whoever has a file system on it loses it.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn stop(&self) -> Result<(), Failed> {
        self.0.kill_dev().map(drop).map_err(Failed::Driver)
    }
}

/// Refuses where the driver's control device ([`CONTROL`]) cannot be used.
///
/// # Errors
/// It is not there, or may not be opened.
pub fn need_driver(control: &Path) -> Result<(), Failed> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(control);
    match opened {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => Err(Failed::NoDriver),
            errno => Err(Failed::Unusable(errno)),
        },
    }
}

/// Answers requests until nobody gives any more.
fn work(content: &dyn Content, take: &Mutex<Receiver<Job>>) {
    // The kernel may be writing to this device to get memory: it must not write to it for ours. Only
    // root may say so, and only root has ublk.
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "this thread may wait for memory");
    }
    loop {
        let next = take.lock().recv();
        let Ok(mut job) = next else {
            return;
        };
        let result = answer(content, job.request, job.buffer.as_mut_slice());
        // A queue that has ended waits for nothing.
        let _ended = job.done.try_send((job.buffer, result));
        let _unheard = rustix::io::write(&job.bell, &1_u64.to_ne_bytes());
    }
}

/// Takes the requests of one queue until the device is stopped.
fn serve_queue(number: u16, device: &UblkDev, give: &Sender<Job>) {
    let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    let bell = match eventfd(0, flags) {
        Ok(bell) => Arc::new(bell),
        Err(error) => return tracing::error!(%error, number, "a queue cannot be served"),
    };
    let queue = match UblkQueue::new(number, device) {
        Ok(queue) => Rc::new(queue),
        Err(error) => return tracing::error!(%error, number, "a queue cannot be served"),
    };
    let executor = Rc::new(smol::LocalExecutor::new());
    let mut tasks = Vec::new();
    for tag in queue.tags() {
        let (queue, give, bell) = (queue.clone(), give.clone(), bell.clone());
        tasks.push(executor.spawn(async move {
            match serve_tag(&queue, tag, &give, &bell).await {
                Ok(()) | Err(UblkError::QueueIsDown) => {}
                Err(error) => tracing::error!(%error, number, tag, "requests are not taken"),
            }
        }));
    }
    let listener = executor.spawn(listen(queue.clone(), bell));
    let driven = executor.clone();
    smol::block_on(executor.run(async move {
        let go_on = || while driven.try_tick() {};
        let is_done = || tasks.iter().all(smol::Task::is_finished);
        let ended = libublk::wait_and_handle_io_events(&queue, None, go_on, is_done).await;
        if let Err(error) = ended {
            tracing::error!(%error, number, "a queue has ended");
        }
        drop(listener);
    }));
}

/// Takes the requests of one place in a queue, one after the other.
async fn serve_tag(
    queue: &UblkQueue<'_>,
    tag: u16,
    give: &Sender<Job>,
    bell: &Arc<OwnedFd>,
) -> Result<(), UblkError> {
    let mut buffer = IoBuf::<u8>::new(queue.dev.dev_info.max_io_buf_bytes as usize);
    queue
        .submit_io_prep_cmd(tag, BufDesc::Slice(buffer.as_slice()), 0, Some(&buffer))
        .await?;
    loop {
        let asked = queue.get_iod(tag);
        let request = Request {
            flags: asked.op_flags,
            sector: asked.start_sector,
            sectors: asked.nr_sectors,
        };
        let (done, answered) = smol::channel::bounded(1);
        let job = Job {
            request,
            buffer,
            done,
            bell: bell.clone(),
        };
        // Workers go on as long as there are queues.
        give.send(job).map_err(|_| UblkError::QueueIsDown)?;
        let answer = answered.recv().await;
        let (returned, result) = answer.map_err(|_| UblkError::QueueIsDown)?;
        buffer = returned;
        queue
            .submit_io_commit_cmd(tag, BufDesc::Slice(buffer.as_slice()), result)
            .await?;
    }
}

/// Lets the ring of a queue return when an answer has come, so that the tasks go on.
async fn listen(queue: Rc<UblkQueue<'_>>, bell: Arc<OwnedFd>) {
    loop {
        let readable = u32::from(PollFlags::IN.bits());
        let poll = opcode::PollAdd::new(types::Fd(bell.as_raw_fd()), readable).build();
        if queue.ublk_submit_sqe(poll).await < 0 {
            return;
        }
        // How often it rang does not matter.
        let _quiet = rustix::io::read(&bell, &mut [0; 8]);
    }
}
