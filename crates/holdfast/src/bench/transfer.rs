//! `holdfast bench transfer`: trees to another place, with proof, beside the tools of today.

use super::process::{catch_stop_signals, check_stop};
use super::row::{Better, Report, Row, compare};
use super::runs::Runs;
use anyhow::Context as _;
use std::path::{Path, PathBuf};

mod data;
mod link;
mod ours;
mod peers;
mod timed;

use data::Data;
use link::Link;
use timed::Cost;

/// Name on the command line and in the rows.
pub(super) const NAME: &str = "transfer";

/// What `--write-cache` states for level medium: the disk below is not asked, so that the row shows
/// what the level costs, not what it is worth here.
const WRITE_CACHE: &str = "64M";

/// Trees sent with proof, beside rsync, rclone and tar
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    runs: Runs,
}

/// One way to get a tree to a place.
trait Way {
    /// In rows.
    fn name(&self) -> String;

    /// Copies `from` to `to`, of which the parent is there, and makes it durable.
    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()>;
}

/// Where all of it is, gone with this value.
struct Scene {
    root: PathBuf,
    made: std::cell::Cell<u32>,
}

impl Scene {
    fn new(dir: &Path) -> anyhow::Result<Scene> {
        let root = dir.join(format!("holdfast-bench-transfer-{}", std::process::id()));
        std::fs::create_dir(&root).with_context(|| format!("cannot work in {}", dir.display()))?;
        let made = std::cell::Cell::new(0);
        Ok(Scene { root, made })
    }

    fn fresh(&self) -> PathBuf {
        self.made.set(self.made.get() + 1);
        self.root.join(format!("to-{}", self.made.get()))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("{} is left: {error}", self.root.display());
        }
    }
}

/// Runs all cases.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    catch_stop_signals()?;
    let scene = Scene::new(&args.runs.dir)?;
    let mut report = Report::new(args.runs.json.as_deref())?;
    let (large, small) = match args.runs.quick {
        true => (
            Data::large(&scene.root, 4, 128 << 20)?,
            Data::small(&scene.root, 5000)?,
        ),
        false => (
            Data::large(&scene.root, 20, 1 << 30)?,
            Data::small(&scene.root, 100_000)?,
        ),
    };
    let bench = Bench {
        scene: &scene,
        rounds: args.runs.rounds(),
    };
    for data in [&large, &small] {
        bench.locally(data, &mut report)?;
    }
    let note = "between directories ours sends files that differ whole, and compares the rest from the \
                disk";
    let ways: [&dyn Way; 2] = [&ours::Local::at("device"), &peers::Rsync::delta()];
    bench.changed("", &large, ways, note, &mut report)?;
    match Link::new(&scene.root, "1gbit") {
        Ok(link) => {
            for data in [&large, &small] {
                bench.over(&link, data, &mut report)?;
            }
            let ours = ours::Listening {
                link: &link,
                level: "device",
            };
            let rsync = peers::RsyncDaemon {
                link: &link,
                check: false,
            };
            let note =
                "both by changed parts; ours within TLS, rsync in the clear, and proves nothing";
            bench.changed("1gbit, ", &large, [&ours, &rsync], note, &mut report)
        }
        Err(error) => {
            eprintln!("no rows between network namespaces: {error:#}");
            Ok(())
        }
    }
}

struct Bench<'a> {
    scene: &'a Scene,
    rounds: usize,
}

impl Bench<'_> {
    /// From one directory of this disk to another.
    fn locally(&self, data: &Data, report: &mut Report) -> anyhow::Result<()> {
        let rsync = peers::Rsync::plain();
        for level in ["wire", "cache", "device", "medium"] {
            let ours = ours::Local::at(level);
            self.pair("local", data, &ours, &rsync, "proves nothing", report)?;
        }
        let device = ours::Local::at("device");
        let others: [(&dyn Way, &str); 3] = [
            (
                &peers::Rsync::and_checksum(),
                "its second run reads the page cache, not the disk",
            ),
            (
                &peers::Rclone,
                "it reads the destination's page cache, not the disk",
            ),
            (
                &peers::Tar,
                "then sha256sum of both trees, from the page cache",
            ),
        ];
        for (peer, note) in others {
            self.pair("local", data, &device, peer, note, report)?;
        }
        for (order, name, note) in [
            (
                "sequential",
                "holdfast, sequential",
                "a file is sent, synced, dropped and read back before the next one is sent",
            ),
            (
                "files",
                "holdfast, pipelined by file",
                "a file is synced, dropped and read back while the next one is sent",
            ),
        ] {
            let peer = ours::InOrder { order, name };
            self.pair("local", data, &device, &peer, note, report)?;
        }
        Ok(())
    }

    /// Through a link of one gigabit a second.
    fn over(&self, link: &Link, data: &Data, report: &mut Report) -> anyhow::Result<()> {
        let rsync = peers::RsyncDaemon { link, check: false };
        for level in ["wire", "device", "medium"] {
            let ours = ours::Listening { link, level };
            let note = "ours within TLS, rsync in the clear, and proves nothing";
            self.pair("1gbit", data, &ours, &rsync, note, report)?;
        }
        let checked = peers::RsyncDaemon { link, check: true };
        let ours = ours::Listening {
            link,
            level: "device",
        };
        let note = "ours within TLS; the second run of rsync reads the page cache, not the disk";
        self.pair("1gbit", data, &ours, &checked, note, report)
    }

    /// One percent of the pages changed since.
    fn changed(
        &self,
        where_to: &str,
        data: &Data,
        ways: [&dyn Way; 2],
        note: &str,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            for way in 0..2 {
                let index = (round + way) % 2;
                let (from, to) = (self.scene.fresh(), self.scene.fresh());
                data.copy_to(&from)?;
                if let (Some(way), Some(costs)) = (ways.get(index), costs.get_mut(index)) {
                    way.copy(&from, &to)?;
                    data::change(&from)?;
                    costs.push(timed::timed(|| way.copy(&from, &to))?);
                    data::same(&from, &to)?;
                }
                data::gone(&from)?;
                data::gone(&to)?;
            }
        }
        let [ours, peer] = costs;
        let names = (ways[0].name(), ways[1].name());
        rows(
            &format!("{where_to}delta 1 %"),
            data,
            names,
            (&ours, &peer),
            note,
            report,
        )
    }

    fn pair(
        &self,
        where_to: &str,
        data: &Data,
        ours: &dyn Way,
        peer: &dyn Way,
        note: &str,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            for way in 0..2 {
                let index = (round + way) % 2;
                let way = if index == 0 { ours } else { peer };
                if let Some(cost) = self.measure(data, way)?
                    && let Some(costs) = costs.get_mut(index)
                {
                    costs.push(cost);
                }
            }
        }
        let [own, others] = costs;
        let names = (ours.name(), peer.name());
        rows(where_to, data, names, (&own, &others), note, report)
    }

    /// One run; `None` where the peer is not installed.
    fn measure(&self, data: &Data, way: &dyn Way) -> anyhow::Result<Option<Cost>> {
        check_stop()?;
        data.warm()?;
        let to = self.scene.fresh();
        let cost = match timed::timed(|| way.copy(&data.path, &to)) {
            Err(error) if timed::is_missing(&error) => return Ok(None),
            cost => cost?,
        };
        data::same(&data.path, &to)?;
        data::gone(&to)?;
        Ok(Some(cost))
    }
}

fn rows(
    where_to: &str,
    data: &Data,
    names: (String, String),
    costs: (&[Cost], &[Cost]),
    note: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    for metric in ["time_s", "cpu_s"] {
        let of = |cost: &Cost| match metric {
            "time_s" => cost.wall_s,
            _ => cost.cpu_s,
        };
        let all = |costs: &[Cost]| costs.iter().map(of).collect::<Vec<f64>>();
        let compared = compare(&all(costs.0), &all(costs.1))?;
        report.add(Row {
            bench: NAME.into(),
            case: format!("{where_to}, {}, {}", data.name, names.0),
            metric: metric.into(),
            unit: "s".into(),
            better: Better::Lower,
            ours: compared.ours,
            peer: compared.peer,
            peer_name: names.1.clone(),
            ratio: compared.ratio,
            runs: compared.runs,
            spread: compared.spread,
            note: format!("both end durable; {note}"),
        })?;
    }
    Ok(())
}
