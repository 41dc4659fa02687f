//! The side that reads the source.

use crate::content::{is_large, next_data, range_length, read_range, sums_of};
use crate::entry::{Entry, Source, TreePath, What};
use crate::error::TransferError;
use crate::filter::Filter;
use crate::level::Level;
use crate::manifest::LINE_BYTES_MAX;
use crate::message::{
    BATCHES_AHEAD, Index, OFFER_ENTRIES, OFFERS_AHEAD, PAGE_BYTES, Problem, RANGE_BYTES,
    ToReceiver, ToSender, VERSION, Want,
};
use crate::report::{Progress, Report};
use crate::walk::{Place, Step, Walk, source_of, words};
use env::Clock;
use env::errno::Errno;
use rpc::{Channel, Connection};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod incoming;

use incoming::Incoming;

/// Bytes after which a batch is closed.
pub const BATCH_BYTES: u64 = 32 << 20;

/// Entries after which a batch is closed.
pub const BATCH_ENTRIES: usize = 1000;

/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 3;

/// Lines of a manifest besides those of the files that were sent: what earlier transfers have left
/// to wait, and what is said of the whole.
const LINES_MORE: u64 = 300_000;

/// Bytes of an offer's entries, roughly.
const OFFER_BYTES: usize = 64 << 10;

/// What a sender is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is to be proved.
    pub level: Level,
    /// Where to, below the directory of a receiver that takes trees for several places; the root
    /// for one that was given its destination.
    pub below: TreePath,
    /// Bytes that the write cache of the destination's device holds: nobody but the user can know.
    /// Level `medium` needs it.
    pub write_cache: Option<u64>,
    /// For level `medium`: write as much as the write cache holds at the end, so that the last
    /// files need not wait for another transfer.
    pub settle: bool,
    /// What of the source is left out; what is there already at the destination stays.
    pub filter: Filter,
    /// The file that gets the receiver's manifest.
    pub manifest: Option<PathBuf>,
    /// How long the receiver may be silent: it syncs and reads whole batches.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            level: Level::Device,
            below: TreePath::root(),
            write_cache: None,
            settle: false,
            filter: Filter::default(),
            manifest: None,
            patience: Duration::from_secs(600),
        }
    }
}

/// Sends the tree (or the file) at `source` to the receiver at the other end of `connection`, and
/// returns when all that can be is proved and in place.
///
/// # Errors
/// The source cannot be opened, the receiver cannot go on, or the connection is lost. The same
/// call again goes on where this one ended.
pub fn send(
    source: &Path,
    connection: &Connection,
    clock: &dyn Clock,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, TransferError> {
    let walk = Walk::new(source, options.filter.clone())?;
    // That it cannot be written is better known before than after.
    let incoming = options.manifest.as_deref().map(Incoming::begin);
    let incoming = incoming.transpose()?;
    let begin = ToReceiver::Begin {
        version: VERSION,
        level: options.level,
        below: options.below.clone(),
        manifest: options.manifest.is_some(),
        write_cache: options.write_cache,
    };
    let deadline = clock.now().after(options.patience);
    let channel = connection.open(&rpc::encode(&begin)?, &[], deadline)?;
    let sender = Sender {
        channel,
        clock,
        options,
        progress,
        walk,
        walked: false,
        next: 0,
        offers: VecDeque::new(),
        flight: BTreeMap::new(),
        verdicts: HashMap::new(),
        batch: Batch::default(),
        acknowledged: 0,
        ready: false,
        report: Report::new(options.level),
        incoming,
        buffer: vec![0; RANGE_BYTES],
    };
    sender.run()
}

struct Offer {
    first: Index,
    count: usize,
    wants: Option<Vec<Want>>,
}

/// An entry between its offer and the acknowledgement of its batch.
struct Sent {
    entry: Entry,
    place: Place,
    /// The batch that it is in, once it has ended.
    batch: Option<u64>,
}

#[derive(Default)]
struct Batch {
    number: u64,
    bytes: u64,
    entries: usize,
}

struct Sender<'a> {
    channel: Channel,
    clock: &'a dyn Clock,
    options: &'a Options,
    progress: &'a mut dyn FnMut(Progress),
    walk: Walk,
    walked: bool,
    next: Index,
    offers: VecDeque<Offer>,
    flight: BTreeMap<Index, Sent>,
    verdicts: HashMap<Index, bool>,
    batch: Batch,
    acknowledged: u64,
    ready: bool,
    report: Report,
    incoming: Option<Incoming>,
    buffer: Vec<u8>,
}

/// What came of reading a file.
enum Reading {
    Whole,
    /// It is not what was offered any more.
    Changed,
    Failed(Errno),
}

impl Sender<'_> {
    fn run(mut self) -> Result<Report, TransferError> {
        while !self.ready {
            self.hear()?;
        }
        loop {
            while self.offers.len() < OFFERS_AHEAD && !self.walked {
                self.offer()?;
            }
            let Some(offer) = self.offers.front() else {
                break;
            };
            if offer.wants.is_none() {
                self.hear()?;
                continue;
            }
            if let Some(offer) = self.offers.pop_front() {
                self.answer(offer)?;
            }
        }
        if self.batch.entries > 0 {
            self.close_batch()?;
        }
        while self.acknowledged < self.batch.number {
            self.hear()?;
        }
        self.close()?;
        self.channel.finish()?;
        Ok(self.report)
    }

    /// Has the receiver prove what waits, and takes its manifest.
    fn close(&mut self) -> Result<(), TransferError> {
        if self.options.level < Level::Medium && self.options.manifest.is_none() {
            return Ok(());
        }
        let settle = self.options.settle;
        self.say(&ToReceiver::Close { settle }, &[])?;
        let manifest_bytes = loop {
            match self.hear_one()?.0 {
                ToSender::Closed {
                    placed,
                    pending,
                    manifest_bytes,
                } => {
                    self.report.add(placed);
                    self.report.pending = pending;
                    break manifest_bytes;
                }
                other => self.heard(other)?,
            }
        };
        let Some(mut incoming) = self.incoming.take() else {
            return Ok(());
        };
        // A line for each file, and for those that waited since earlier transfers.
        let lines = self.next.saturating_add(LINES_MORE);
        if manifest_bytes > lines.saturating_mul(LINE_BYTES_MAX as u64) {
            return Err(TransferError::Violation("a manifest that is too long"));
        }
        while incoming.bytes() < manifest_bytes {
            match self.hear_one()? {
                (ToSender::Manifest, bulk) => incoming.take(&bulk, manifest_bytes)?,
                (other, _) => self.heard(other)?,
            }
        }
        incoming.finish()
    }

    /// Offers what the walk comes to next.
    fn offer(&mut self) -> Result<(), TransferError> {
        let (first, mut entries, mut bytes) = (self.next, Vec::new(), 0);
        while entries.len() < OFFER_ENTRIES && bytes < OFFER_BYTES {
            match self.walk.next() {
                None => {
                    self.walked = true;
                    break;
                }
                Some(Step::Problem(path, what)) => self.problem(path, what),
                Some(Step::Entry(entry, place)) => {
                    bytes += weight(&entry);
                    entries.push(entry.clone());
                    let batch = None;
                    self.flight.insert(
                        self.next,
                        Sent {
                            entry,
                            place,
                            batch,
                        },
                    );
                    self.next += 1;
                }
            }
        }
        let count = entries.len();
        if count > 0 {
            self.say(&ToReceiver::Offer { first, entries }, &[])?;
            self.offers.push_back(Offer {
                first,
                count,
                wants: None,
            });
        }
        Ok(())
    }

    /// Sends what is wanted of an offer.
    fn answer(&mut self, offer: Offer) -> Result<(), TransferError> {
        let wants = offer.wants.unwrap_or_default();
        if wants.len() != offer.count {
            return Err(TransferError::Violation("an answer of another length"));
        }
        let numbered = || (offer.first..).zip(wants.iter().copied());
        let mut compared = HashSet::new();
        for (index, _) in numbered().filter(|(_, want)| *want == Want::Compare) {
            if self.compare(index)? {
                compared.insert(index);
            }
        }
        for (index, want) in numbered() {
            let failed = match want {
                Want::Nothing => None,
                Want::Content(from) => self.content(index, from)?,
                Want::Compare => {
                    while !self.verdicts.contains_key(&index) {
                        self.hear()?;
                    }
                    match self.verdicts.remove(&index) {
                        Some(true) if compared.contains(&index) => None,
                        _ => self.content(index, 0)?,
                    }
                }
            };
            if let (Some(what), Some(sent)) = (&failed, self.flight.get(&index)) {
                let path = sent.entry.path.clone();
                self.problem(path, what.clone());
            }
            self.say(&ToReceiver::End { index, failed }, &[])?;
            if let Some(sent) = self.flight.get_mut(&index) {
                sent.batch = Some(self.batch.number);
            }
            self.batch.entries += 1;
            if self.batch.entries >= BATCH_ENTRIES || self.batch.bytes >= BATCH_BYTES {
                self.close_batch()?;
            }
        }
        Ok(())
    }

    fn close_batch(&mut self) -> Result<(), TransferError> {
        let number = self.batch.number;
        self.say(&ToReceiver::Batch { number }, &[])?;
        self.batch = Batch {
            number: number + 1,
            ..Batch::default()
        };
        while self.batch.number - self.acknowledged > BATCHES_AHEAD as u64 {
            self.hear()?;
        }
        Ok(())
    }

    /// Sends the checksums of a file's content; whether they are those of all of it.
    fn compare(&mut self, index: Index) -> Result<bool, TransferError> {
        let whole = match self.open(index)? {
            Some((file, source)) => self.compare_open(index, &file, &source)?,
            None => false,
        };
        self.say(&ToReceiver::Compared { index }, &[])?;
        Ok(whole)
    }

    fn compare_open(
        &mut self,
        index: Index,
        file: &OwnedFd,
        source: &Source,
    ) -> Result<bool, TransferError> {
        let mut at = 0;
        loop {
            let (offset, end) = match next_data(file, at, source.bytes) {
                Ok(Some(data)) => data,
                Ok(None) => break,
                // The content that is sent in its place finds the same, and tells it.
                Err(_) => return Ok(false),
            };
            let length = range_length(offset, end);
            let room = self.buffer.get_mut(..length).unwrap_or_default();
            if read_range(file, offset, room, is_large(source.bytes)) != Ok(length) {
                return Ok(false);
            }
            let (sums, bytes) = (sums_of(room), length as u32);
            let compare = ToReceiver::Compare {
                index,
                offset,
                bytes,
                sums,
            };
            self.say(&compare, &[])?;
            at = offset + length as u64;
            self.hear_what_is_there()?;
        }
        Ok(source_of(file) == Ok(*source))
    }

    /// Sends a file's content from `from`; why it could not.
    fn content(&mut self, index: Index, from: u64) -> Result<Option<String>, TransferError> {
        let mut from = from;
        for attempt in 1..=ATTEMPTS {
            let reading = match self.open(index)? {
                Some((file, source)) => {
                    if attempt == 1 {
                        self.report.bytes_resumed += from;
                    }
                    self.stream(index, &file, &source, from)?
                }
                None => Reading::Changed,
            };
            match reading {
                Reading::Whole => return Ok(None),
                Reading::Failed(errno) => {
                    return Ok(Some(format!("it cannot be read: {}", words(errno))));
                }
                Reading::Changed => {}
            }
            let Some(sent) = self.flight.get_mut(&index) else {
                return Err(TransferError::Violation("an entry that is not under way"));
            };
            let now = match sent.place.look_again(&sent.entry) {
                Ok(now) => now,
                Err(Errno::NOENT) => return Ok(Some("it was removed meanwhile".to_owned())),
                Err(errno) => return Ok(Some(format!("it cannot be read: {}", words(errno)))),
            };
            sent.entry = now.clone();
            let restart = ToReceiver::Restart { index, entry: now };
            self.say(&restart, &[])?;
            from = 0;
        }
        Ok(Some(format!(
            "it changed each of {ATTEMPTS} times that it was read"
        )))
    }

    fn stream(
        &mut self,
        index: Index,
        file: &OwnedFd,
        source: &Source,
        from: u64,
    ) -> Result<Reading, TransferError> {
        let mut at = from;
        loop {
            let (start, end) = match next_data(file, at, source.bytes) {
                Ok(Some(data)) => data,
                Ok(None) => break,
                Err(errno) => return Ok(Reading::Failed(errno)),
            };
            let length = range_length(start, end);
            let large = is_large(source.bytes);
            let room = self.buffer.get_mut(..length).unwrap_or_default();
            match read_range(file, start, room, large) {
                Ok(count) if count == length => {}
                Ok(_) => return Ok(Reading::Changed),
                Err(errno) => return Ok(Reading::Failed(errno)),
            }
            let buffer = std::mem::take(&mut self.buffer);
            let bytes = buffer.get(..length).unwrap_or_default();
            let (offset, sums) = (start, sums_of(bytes));
            let data = ToReceiver::Data {
                index,
                offset,
                sums,
            };
            let said = self.say(&data, bytes);
            self.buffer = buffer;
            said?;
            at = start + length as u64;
            self.report.bytes_sent += length as u64;
            self.batch.bytes += length as u64;
            self.show();
            self.hear_what_is_there()?;
            if self.batch.bytes >= BATCH_BYTES && at < source.bytes {
                self.close_batch()?;
            }
        }
        Ok(match source_of(file) {
            Ok(now) if now == *source => Reading::Whole,
            Ok(_) => Reading::Changed,
            Err(errno) => Reading::Failed(errno),
        })
    }

    /// Opens a file that was offered; `None` where it is not that any more.
    fn open(&self, index: Index) -> Result<Option<(OwnedFd, Source)>, TransferError> {
        let sent = self.flight.get(&index);
        let sent = sent.ok_or(TransferError::Violation("an entry that is not under way"))?;
        let What::File(source) = sent.entry.what else {
            return Err(TransferError::Violation("the content of what is no file"));
        };
        let file = sent.place.open().ok();
        let same = |file: &OwnedFd| source_of(file).is_ok_and(|now| now == source);
        Ok(file.filter(same).map(|file| (file, source)))
    }

    /// Sends pages again.
    fn patch(&mut self, index: Index, pages: &[u64]) -> Result<(), TransferError> {
        let mut failed = None;
        match self.open(index)? {
            None => failed = Some("it has changed since it was sent".to_owned()),
            Some((file, source)) => {
                for offset in pages.iter().copied() {
                    let whole = source.bytes.saturating_sub(offset).min(PAGE_BYTES as u64);
                    let mut page = vec![0; whole as usize];
                    match read_range(&file, offset, &mut page, false) {
                        Ok(count) if count == page.len() && count > 0 => {
                            let sums = sums_of(&page);
                            let patch = ToReceiver::Patch {
                                index,
                                offset,
                                sums,
                            };
                            self.say(&patch, &page)?;
                        }
                        _ => failed = Some("it has changed since it was sent".to_owned()),
                    }
                }
                if source_of(&file) != Ok(source) {
                    failed = Some("it has changed since it was sent".to_owned());
                }
            }
        }
        self.say(&ToReceiver::Patched { index, failed }, &[])
    }

    fn problem(&mut self, path: TreePath, what: String) {
        self.report.problem(Problem {
            path,
            what,
            missing: true,
        });
    }

    fn show(&mut self) {
        (self.progress)(Progress {
            bytes_sent: self.report.bytes_sent,
            bytes_proved: self.report.bytes,
            files: self.report.files,
        });
    }

    fn say(&mut self, message: &ToReceiver, bulk: &[u8]) -> Result<(), TransferError> {
        let deadline = self.clock.now().after(self.options.patience);
        let said = self.channel.send(&rpc::encode(message)?, bulk, deadline);
        match said {
            Err(error) if !error.is_timeout() => loop {
                // The receiver said why before it gave up, or left.
                match self.hear() {
                    Ok(()) => {}
                    Err(TransferError::Rpc(_)) => return Err(error.into()),
                    Err(why) => return Err(why),
                }
            },
            said => Ok(said?),
        }
    }

    fn hear_what_is_there(&mut self) -> Result<(), TransferError> {
        loop {
            match self.channel.try_receive() {
                Ok(Some(message)) => self.heard(rpc::decode(&message.body)?)?,
                Ok(None) => return Err(TransferError::Violation("an early end")),
                Err(error) if error.is_timeout() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear(&mut self) -> Result<(), TransferError> {
        let (message, _) = self.hear_one()?;
        self.heard(message)
    }

    /// The next message, with its bulk bytes.
    fn hear_one(&mut self) -> Result<(ToSender, Vec<u8>), TransferError> {
        let deadline = self.clock.now().after(self.options.patience);
        let message = self.channel.receive(deadline)?;
        let message = message.ok_or(TransferError::Violation("an early end"))?;
        Ok((rpc::decode(&message.body)?, message.bulk))
    }

    fn heard(&mut self, message: ToSender) -> Result<(), TransferError> {
        match message {
            ToSender::Ready => self.ready = true,
            ToSender::Wants { first, wants } => {
                let offer = self.offers.iter_mut().find(|offer| offer.first == first);
                let offer = offer.ok_or(TransferError::Violation("an answer to no offer"))?;
                offer.wants = Some(wants);
            }
            ToSender::Verdict { index, same } => {
                self.verdicts.insert(index, same);
            }
            ToSender::Again { index, pages } => {
                if pages.len() > RANGE_BYTES / PAGE_BYTES {
                    return Err(TransferError::Violation("too many pages at once"));
                }
                self.patch(index, &pages)?;
            }
            ToSender::Done { number, placed } => {
                if number != self.acknowledged || number >= self.batch.number {
                    return Err(TransferError::Violation("the number of a batch"));
                }
                self.acknowledged = number + 1;
                let ended = |sent: &Sent| sent.batch.is_none_or(|batch| batch > number);
                self.flight.retain(|_, sent| ended(sent));
                self.report.add(placed);
                self.show();
            }
            ToSender::Closed { .. } | ToSender::Manifest => {
                return Err(TransferError::Violation("an end that nobody asked for"));
            }
            ToSender::Failed { kind, what } => return Err(TransferError::Failed { kind, what }),
        }
        Ok(())
    }
}

/// Bytes of an entry in an offer, roughly.
fn weight(entry: &Entry) -> usize {
    let attributes = entry.meta.attributes.iter();
    let attributes: usize = attributes
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let more = match &entry.what {
        What::Link(target) => target.len(),
        What::SameAs(path) => path.as_bytes().len(),
        _ => 0,
    };
    64 + entry.path.as_bytes().len() + attributes + more
}
