//! The side that reads the source.

use crate::chunks::{DELTA_MIN, average_for};
use crate::entry::{Entry, TreePath, What};
use crate::error::TransferError;
use crate::filter::Filter;
use crate::level::Level;
use crate::manifest::LINE_BYTES_MAX;
use crate::message::{
    Index, OFFER_ENTRIES, OFFERS_AHEAD, PAGE_BYTES, Problem, RANGE_BYTES, ToReceiver, ToSender,
    VERSION, Want,
};
use crate::report::{Progress, Report};
use crate::walk::{Place, Step, Walk};
use env::Clock;
use rpc::{Channel, Connection, Message};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod content;
mod dry;
mod incoming;
mod lists;
mod mend;
mod order;
mod pace;
mod pays;
mod sweep;

pub use order::{Order, UnknownOrder};
pub use pays::{Delta, UnknownDelta};

use incoming::Incoming;
use lists::Lists;
use pace::Pace;
use pays::Pays;

/// Bytes after which a batch is closed.
pub const BATCH_BYTES: u64 = 32 << 20;

/// Entries after which a batch is closed.
pub const BATCH_ENTRIES: usize = 1000;

/// Most bytes of messages that were taken while there was no room to send: the lists that were asked
/// for, and little else.
const ASIDE_BYTES: usize = 128 << 20;

/// Lines of a manifest besides those of the files that were sent: what earlier transfers have left
/// to wait, and what is said of the whole.
const LINES_MORE: u64 = 300_000;

/// Bytes of an offer's entries, roughly.
const OFFER_BYTES: usize = 64 << 10;

/// What the destination has and the source does not is to be deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deletion {
    /// Where it is more than so many objects, nothing is deleted.
    pub max: Option<u64>,
}

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
    /// Whether changed parts alone are sent of files that are on both sides.
    pub delta: Delta,
    /// At the end, where nothing is missing, what the source does not have is deleted; what the
    /// filter leaves out stays.
    pub delete: Option<Deletion>,
    /// Nothing is changed; the report has what would be.
    pub dry: bool,
    /// Bytes a second that are sent, at most.
    pub rate: Option<u64>,
    /// The file that gets the receiver's manifest.
    pub manifest: Option<PathBuf>,
    /// What goes on beside what.
    pub order: Order,
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
            delta: Delta::Auto,
            delete: None,
            dry: false,
            rate: None,
            manifest: None,
            order: Order::Batches,
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
    let wanted = options.manifest.as_deref().filter(|_| !options.dry);
    let incoming = wanted.map(Incoming::begin);
    let incoming = incoming.transpose()?;
    let begin = ToReceiver::Begin {
        version: VERSION,
        level: options.level,
        below: options.below.clone(),
        manifest: wanted.is_some(),
        write_cache: options.write_cache,
        delete: options.delete.map(|_| options.filter.texts()),
        dry: options.dry,
    };
    let deadline = clock.now().after(options.patience);
    let channel = connection.open(&rpc::encode(&begin)?, &[], deadline)?;
    let sender = Sender {
        source,
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
        held: HashMap::new(),
        again: Vec::new(),
        batch: Batch::default(),
        acknowledged: 0,
        ready: false,
        report: Report::new(options.level),
        incoming,
        lists: Lists::default(),
        pays: Pays::new(options.delta),
        pace: Pace::new(options.rate),
        aside: VecDeque::new(),
        aside_bytes: 0,
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

impl Sent {
    /// The length of the file that it is.
    fn bytes(&self) -> u64 {
        match self.entry.what {
            What::File(source) => source.bytes,
            _ => 0,
        }
    }
}

#[derive(Default)]
struct Batch {
    number: u64,
    bytes: u64,
    entries: usize,
}

struct Sender<'a> {
    source: &'a Path,
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
    /// Which pages of files are there that an earlier transfer was cut in.
    held: HashMap<Index, Vec<u8>>,
    /// Files in place that the medium has not kept.
    again: Vec<TreePath>,
    batch: Batch,
    acknowledged: u64,
    ready: bool,
    report: Report,
    incoming: Option<Incoming>,
    lists: Lists,
    pays: Pays,
    pace: Pace,
    /// What came while there was no room to send, and was not looked at.
    aside: VecDeque<Message>,
    aside_bytes: usize,
    buffer: Vec<u8>,
}

impl Sender<'_> {
    fn run(mut self) -> Result<Report, TransferError> {
        while !self.ready {
            self.hear()?;
        }
        if self.options.dry {
            self.run_dry()?;
            self.channel.finish()?;
            return Ok(self.report);
        }
        self.send_all()?;
        self.sweep()?;
        self.mend()?;
        self.close()?;
        self.channel.finish()?;
        Ok(self.report)
    }

    /// Offers what is left of the walk, sends what is wanted, and waits until it is in place.
    fn send_all(&mut self) -> Result<(), TransferError> {
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
        Ok(())
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
                    self.add(placed);
                    self.report.pending = pending;
                    break manifest_bytes;
                }
                other => self.heard(other)?,
            }
        };
        let Some(mut incoming) = self.incoming.take() else {
            return Ok(());
        };
        // A line for each entry, and for those that waited since earlier transfers.
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
                    entries.push(self.take(entry, place));
                }
            }
        }
        match entries.is_empty() {
            true => Ok(()),
            false => self.post(first, entries),
        }
    }

    /// Gives an entry its number; what the receiver is told of it.
    fn take(&mut self, entry: Entry, place: Place) -> Entry {
        let sent = Sent {
            entry: entry.clone(),
            place,
            batch: None,
        };
        self.flight.insert(self.next, sent);
        self.next += 1;
        entry
    }

    /// Offers entries that were taken.
    fn post(&mut self, first: Index, entries: Vec<Entry>) -> Result<(), TransferError> {
        let count = entries.len();
        self.say(&ToReceiver::Offer { first, entries }, &[])?;
        self.offers.push_back(Offer {
            first,
            count,
            wants: None,
        });
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
        for (index, want) in numbered() {
            match want {
                Want::Compare if self.compare(index, (0, u64::MAX))? => {
                    compared.insert(index);
                }
                Want::Content { from, held, .. } if held > from => {
                    self.compare(index, (from, held))?;
                }
                _ => {}
            }
        }
        let old = |(index, want): (Index, Want)| match want {
            Want::Content { old, from, .. } => Some((index, old, from)),
            _ => None,
        };
        let mut olds = numbered().filter_map(old).collect::<VecDeque<_>>();
        for (index, want) in numbered() {
            self.ask(&mut olds, index)?;
            let failed = match want {
                Want::Nothing => None,
                Want::Content { from, held, .. } => self.content(index, from, held)?,
                Want::Compare => {
                    while !self.verdicts.contains_key(&index) {
                        self.hear()?;
                    }
                    match self.verdicts.remove(&index) {
                        Some(true) if compared.contains(&index) => None,
                        _ => self.content(index, 0, 0)?,
                    }
                }
            };
            if let (Some(what), Some(sent)) = (&failed, self.flight.get(&index)) {
                let path = sent.entry.path.clone();
                self.problem(path, what.clone());
            }
            self.say(&ToReceiver::End { index, failed }, &[])?;
            self.batch.entries += 1;
            let Some(sent) = self.flight.get_mut(&index) else {
                return Err(TransferError::Violation("an entry that is not under way"));
            };
            sent.batch = Some(self.batch.number);
            if self
                .options
                .order
                .ends_behind(&sent.entry.what, &self.batch)
            {
                self.close_batch()?;
            }
        }
        Ok(())
    }

    /// Asks for the lists of old files up to `needed`, and beyond where there is room.
    fn ask(
        &mut self,
        olds: &mut VecDeque<(Index, u64, u64)>,
        needed: Index,
    ) -> Result<(), TransferError> {
        while let Some((index, old, from)) = olds.front().copied() {
            let source = self.flight.get(&index).map_or(0, Sent::bytes);
            let average = average_for(source.max(old));
            if index > needed && !self.lists.has_room(old, average) {
                break;
            }
            olds.pop_front();
            let both = old.min(source.saturating_sub(from));
            if both >= DELTA_MIN && self.pays.parts() {
                self.lists.ask(index, old, average);
                self.say(&ToReceiver::List { index, average }, &[])?;
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
        while self.batch.number - self.acknowledged > self.options.order.ahead() {
            self.hear()?;
        }
        Ok(())
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
        let body = rpc::encode(message)?;
        self.pace.wait(self.clock, body.len() + bulk.len());
        let deadline = self.clock.now().after(self.options.patience);
        loop {
            match self.channel.exchange(&body, bulk, deadline) {
                Ok(None) => return Ok(()),
                Ok(Some(message)) => {
                    self.aside_bytes += message.body.len() + message.bulk.len();
                    self.aside.push_back(message);
                    if self.aside_bytes > ASIDE_BYTES {
                        return Err(TransferError::Violation("more than was asked for"));
                    }
                }
                Err(error) if !error.is_timeout() => loop {
                    // The receiver said why before it gave up, or left.
                    match self.hear() {
                        Ok(()) => {}
                        Err(TransferError::Rpc(_)) => return Err(error.into()),
                        Err(why) => return Err(why),
                    }
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear_what_is_there(&mut self) -> Result<(), TransferError> {
        loop {
            if let Some(message) = self.take_aside() {
                self.heard(rpc::decode(&message.body)?)?;
                continue;
            }
            match self.channel.try_receive() {
                Ok(Some(message)) => self.heard(rpc::decode(&message.body)?)?,
                Ok(None) => return Err(TransferError::Violation("an early end")),
                Err(error) if error.is_timeout() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take_aside(&mut self) -> Option<Message> {
        let message = self.aside.pop_front()?;
        self.aside_bytes -= message.body.len() + message.bulk.len();
        Some(message)
    }

    fn hear(&mut self) -> Result<(), TransferError> {
        let (message, _) = self.hear_one()?;
        self.heard(message)
    }

    /// The next message, with its bulk bytes.
    fn hear_one(&mut self) -> Result<(ToSender, Vec<u8>), TransferError> {
        let deadline = self.clock.now().after(self.options.patience);
        let message = match self.take_aside() {
            Some(message) => Some(message),
            None => self.channel.receive(deadline)?,
        };
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
            ToSender::Held { index, pages } => {
                if !self.flight.contains_key(&index) {
                    return Err(TransferError::Violation("pages of nothing"));
                }
                self.held.insert(index, pages);
            }
            ToSender::Chunks {
                index,
                chunks,
                last,
            } => self.lists.take(index, chunks, last)?,
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
                self.add(placed);
                self.show();
            }
            ToSender::Closed { .. }
            | ToSender::Manifest
            | ToSender::Settled { .. }
            | ToSender::Plans { .. }
            | ToSender::Going { .. }
            | ToSender::Swept { .. } => {
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
