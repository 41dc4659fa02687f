//! Goes through the trace: once to see what is there, then once for each batch of layouts.

use super::buffer::Buffer;
use super::layout::{Layout, Watch};
use super::scenario::{self, Lists, Scenario};
use super::source::{Read, Source};
use super::space::{Space, Survey};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::simulate::trace::{Kind, Request, Ticks};
use redundancy::encoding::{Geometry, PAGE_BYTES, Share};

/// Most memory for tables of chunks at a time; more layouts take another pass over the trace.
const BATCH_BYTES: u64 = 512 << 20;

/// Most rounds, each of which looks at every chunk.
const ROUNDS_MAX: u64 = 10_000;

/// The parameters.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) geometry: Geometry,
    /// Bytes of an extent.
    pub(super) extent: u64,
    /// Ticks between rounds; `None` for one round after six sevenths.
    pub(super) interval: Option<u64>,
    pub(super) seed: u64,
    pub(super) lists: Lists,
    /// Values of B.
    pub(super) differential: Vec<Share>,
}

/// A line of the result: a scenario, and where its counts are.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) scenario: Scenario,
    /// B; `None` without delayed parity.
    pub(super) differential: Option<Share>,
    /// The layout.
    pub(super) layout: usize,
    /// The buffer of the layout, with delayed parity.
    pub(super) buffer: Option<usize>,
}

/// What came out.
#[derive(Debug)]
pub(super) struct Outcomes {
    pub(super) read: Read,
    pub(super) survey: Survey,
    pub(super) format: crate::simulate::trace::Format,
    /// Bytes of the touched extents.
    pub(super) capacity: u64,
    pub(super) rows: Vec<Row>,
    pub(super) layouts: Vec<Layout>,
    pub(super) counted: Counted,
}

/// Requests after the first round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counted {
    pub(super) reads: u64,
    pub(super) writes: u64,
}

/// When rounds are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Schedule {
    first: u64,
    interval: Option<u64>,
}

/// Simulates everything.
pub(super) fn run(source: &Source, setup: &Setup) -> Outcome<Outcomes> {
    let mut survey = Survey::new(setup.extent);
    let read = source.pass("looking at the trace", |request| survey.add(&request))?;
    let schedule = schedule(setup, &survey)?;
    let space = Space::new(&survey, setup.geometry.stores() as u8);
    let (rows, mut layouts) = rows(setup, &space);
    let mut counted = Counted::default();
    for batch in batches(&mut layouts, &space) {
        let again;
        (again, counted) = simulate(source, setup, &space, schedule, batch)?;
        if again != read {
            return Err(source.changed().into());
        }
    }
    Ok(Outcomes {
        read,
        format: source.format,
        capacity: space.bytes(),
        survey,
        rows,
        layouts,
        counted,
    })
}

fn schedule(setup: &Setup, survey: &Survey) -> Outcome<Schedule> {
    let (first, last) = survey.times.unwrap_or((Ticks(0), Ticks(0)));
    let length = last.0.saturating_sub(first.0);
    let watched = match setup.interval {
        Some(interval) => interval,
        // Six days of seven in [F] section 4.4.3.
        None => length - length / 7,
    };
    if watched > length || length == 0 {
        return Err(Failure::refuse(
            Exit::Usage,
            format!(
                "the trace covers {:.1} s, which leaves nothing after the first interval",
                last.seconds_since(first)
            ),
            "give a shorter --interval, or a longer trace",
        ));
    }
    if setup
        .interval
        .is_some_and(|interval| length / interval > ROUNDS_MAX)
    {
        return Err(Failure::refuse(
            Exit::Usage,
            format!(
                "the trace covers {:.1} s, which are more than {ROUNDS_MAX} intervals",
                last.seconds_since(first)
            ),
            "give a longer --interval",
        ));
    }
    Ok(Schedule {
        first: first.0.saturating_add(watched),
        interval: setup.interval,
    })
}

/// The rows, and the layouts that they need: those whose limits are the same share one.
fn rows(setup: &Setup, space: &Space) -> (Vec<Row>, Vec<Layout>) {
    let mut rows = Vec::new();
    let mut layouts: Vec<Layout> = Vec::new();
    let pages = space.bytes() / PAGE_BYTES;
    for scenario in scenario::scenarios(&setup.lists) {
        let bounds = setup.differential.iter().copied().map(Some);
        for differential in std::iter::once(None).chain(bounds) {
            let limits = scenario.limits(setup.geometry, differential.unwrap_or(Share::NONE));
            let found = layouts
                .iter()
                .position(|layout| layout.scenario == scenario && layout.limits == limits);
            let layout = found.unwrap_or_else(|| {
                layouts.push(Layout::new(scenario, limits, setup.seed));
                layouts.len() - 1
            });
            let buffers = &mut layouts[layout].buffers;
            let buffer = differential.map(|share| {
                buffers.push(Buffer::new(share, pages));
                buffers.len() - 1
            });
            rows.push(Row {
                scenario,
                differential,
                layout,
                buffer,
            });
        }
    }
    (rows, layouts)
}

/// Layouts whose tables fit into memory together.
fn batches<'a>(layouts: &'a mut [Layout], space: &Space) -> Vec<&'a mut [Layout]> {
    let mut batches = Vec::new();
    let mut rest = layouts;
    while !rest.is_empty() {
        let mut bytes = 0u64;
        let fitting = rest.iter().take_while(|layout| {
            bytes = bytes.saturating_add(Layout::bytes(&layout.scenario, space));
            bytes <= BATCH_BYTES
        });
        let count = fitting.count().max(1);
        let (batch, after) = rest.split_at_mut(count);
        batches.push(batch);
        rest = after;
    }
    batches
}

/// One pass over the trace with some of the layouts.
fn simulate(
    source: &Source,
    setup: &Setup,
    space: &Space,
    schedule: Schedule,
    layouts: &mut [Layout],
) -> Outcome<(Read, Counted)> {
    let mut watches: Vec<Watch> = Vec::new();
    for &chunk in &setup.lists.chunks {
        if watches.iter().all(|watch| watch.chunk != chunk) {
            watches.push(Watch::new(chunk, space));
        }
    }
    for layout in &mut *layouts {
        layout.prepare(space);
    }
    let mut next = Some(schedule.first);
    let mut serving = false;
    let mut counted = Counted::default();
    let read = source.pass("simulating", |request: Request| {
        while let Some(time) = next.filter(|time| request.at.0 >= *time) {
            for watch in &mut watches {
                let sized = layouts.iter_mut();
                for layout in sized.filter(|layout| layout.scenario.chunk == watch.chunk) {
                    layout.round(watch, space, setup.geometry);
                }
                watch.reset();
            }
            serving = true;
            next = schedule
                .interval
                .and_then(|length| time.checked_add(length));
        }
        match request.kind {
            Kind::Read => counted.reads += u64::from(serving),
            Kind::Write => counted.writes += u64::from(serving),
        }
        for watch in &mut watches {
            for piece in space.pieces(&request, watch.chunk) {
                watch.count(piece.chunk, request.kind);
                if !serving {
                    continue;
                }
                let sized = layouts.iter_mut();
                for layout in sized.filter(|layout| layout.scenario.chunk == watch.chunk) {
                    layout.serve(piece, request.kind, space);
                }
            }
        }
    })?;
    for layout in layouts {
        layout.close();
    }
    Ok((read, counted))
}
