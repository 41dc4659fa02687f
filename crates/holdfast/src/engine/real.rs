//! The replication engine behind a mount.

use super::{
    CheckReport, Comparing, DIFFERENCES_SHOWN, Difference, Event, OnEvent, OnProgress, refusal,
};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use mount::{MountError, Session};
use redundancy::label::{StoreIndex, StoreMask};
use redundancy::status::{Status, StoreState};
use redundancy::{Attach, Candidate, Config, Engine, EngineOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a stop waits for those who still use the mount after it was taken away.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often stores are looked at for news.
const LOOK: Duration = Duration::from_millis(500);

/// A set, and the mount that serves it once started.
pub(super) struct Real {
    engine: Arc<Engine>,
    options: mount::Options,
    session: Mutex<Option<Arc<Session>>>,
    on_event: OnEvent,
    ended: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

fn options(config: &Config) -> EngineOptions {
    EngineOptions {
        copies: config.copies,
        gone: config
            .without
            .iter()
            .filter(|index| **index < 64)
            .fold(StoreMask::default(), |mask, index| {
                mask.with(StoreIndex(*index))
            }),
        checkpoint_ms: config.checkpoint_ms,
        encoding: config.encoding(),
        rebuild_bytes_per_s: u64::from(config.rebuild_mb_per_s) * 1_000_000,
        scrub_bytes_per_s: u64::from(config.scrub_mb_per_s) * 1_000_000,
        scrub_interval_s: u64::from(config.scrub_interval_s),
        ..EngineOptions::default()
    }
}

fn candidates(config: &Config) -> Vec<Candidate> {
    config
        .stores
        .iter()
        .map(|path| Candidate::local(path))
        .collect()
}

/// Opens a set.
pub(super) fn open(config: &Config, on_event: OnEvent) -> Outcome<Real> {
    let engine = Engine::open(candidates(config), &options(config)).map_err(|error| {
        // One that started at the same time may have taken a store since it was looked at.
        match crate::preflight::need_free(config) {
            Err(in_use) => in_use,
            Ok(()) => refusal::open(&error),
        }
    })?;
    Ok(Real {
        engine,
        options: mount::Options {
            threads: usize::from(config.threads),
            read_ahead_bytes: u64::from(config.read_ahead_kb) * 1024,
            inode_limit: config.inode_limit as usize,
            ..mount::Options::default()
        },
        session: Mutex::new(None),
        on_event,
        ended: Arc::default(),
        threads: Mutex::default(),
    })
}

/// Compares all copies of a set that does not run.
pub(super) fn check(config: &Config, on_progress: OnProgress<'_>) -> Outcome<CheckReport> {
    let candidates = candidates(config);
    let gone = options(config).gone;
    let (report, absent) = Engine::check_offline(&candidates, gone, on_progress)
        .map_err(|error| refusal::open(&error))?;
    let mut report = report_of(report);
    report.absent = absent.iter().map(|s| s.0).collect();
    Ok(report)
}

fn report_of(report: redundancy::check::CheckReport) -> CheckReport {
    CheckReport {
        objects: report.objects,
        bytes: report.bytes,
        encoded_chunks: report.encoded_chunks,
        lost_chunks: report.lost_chunks,
        mended: report.mended,
        before: report.before,
        differences: report.differences,
        shown: report
            .shown
            .into_iter()
            .take(DIFFERENCES_SHOWN)
            .map(|difference| Difference {
                path: difference.path,
                stores: difference.stores.iter().map(|s| s.0).collect(),
                detail: difference.detail,
            })
            .collect(),
        foreign: report.foreign,
        absent: Vec::new(),
        healing: report.healing.map(|s| s.0),
    }
}

impl super::Engine for Real {
    fn status(&self) -> Status {
        self.engine.status()
    }

    fn start(&self, mount: &Path) -> Outcome<()> {
        let session = Session::start(self.engine.clone(), mount, &self.options)
            .map(Arc::new)
            .map_err(|error| refusal::mounting(&error))?;
        self.engine.set_mounted_at(&mount.display().to_string());
        *lock(&self.session) = Some(session.clone());
        let on_event = self.on_event.clone();
        let ended = self.ended.clone();
        self.spawn("mount", move || {
            loop {
                match session.wait_for(LOOK) {
                    Ok(false) if ended.load(Ordering::Acquire) => return,
                    Ok(false) => {}
                    Ok(true) => break,
                    Err(error) => {
                        tracing::error!(%error, "the mount ended with an error");
                        break;
                    }
                }
            }
            if !ended.load(Ordering::Acquire) {
                on_event(Event::Unmounted);
            }
        })?;
        let (engine, on_event, ended) = (
            self.engine.clone(),
            self.on_event.clone(),
            self.ended.clone(),
        );
        self.spawn("news", move || tell(&engine, &on_event, &ended))
    }

    fn stop(&self, force: bool) -> Outcome<()> {
        let session = lock(&self.session).clone();
        if let Some(session) = session {
            self.ended.store(true, Ordering::Release);
            let unmounted = match session.unmount(PATIENCE) {
                Err(MountError::Busy { .. }) if force => {
                    session.detach().and_then(|()| session.wait_for(PATIENCE))
                }
                other => other,
            };
            match unmounted {
                Ok(true) => {}
                Ok(false) => tracing::warn!(
                    "the mount is gone here, but programs or another mount namespace still have \
                     it; they are cut off as this process ends"
                ),
                Err(error) => {
                    self.ended.store(false, Ordering::Release);
                    return Err(refusal::mounting(&error));
                }
            }
        }
        self.ended.store(true, Ordering::Release);
        lock(&self.session).take();
        let done = self.engine.shutdown().map_err(|errno| Failure {
            what: format!("the last changes could not be made durable everywhere: {errno}"),
            safe: "what was synced is on its stores".to_owned(),
            next: "look at the stores, then start again: recovery compares what was under way"
                .to_owned(),
            exit: Exit::Failed,
        });
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A panic there has been reported on its own thread.
            let _panicked = thread.join();
        }
        done
    }

    fn attach(&self, path: &Path) -> Outcome<u8> {
        let candidate = Candidate::local(path);
        let store = candidate
            .store
            .map_err(|why| refusal::advised(Exit::StorePath, &why))?;
        let empty = self.engine.is_new_store(&*store);
        let how = if empty { Attach::Empty } else { Attach::Return };
        let index = self
            .engine
            .attach(&candidate.path, store, how)
            .map_err(|error| refusal::attach(path, &error))?;
        Ok(index.0)
    }

    fn detach(&self, index: u8) -> Outcome<()> {
        self.engine.detach(StoreIndex(index)).map_err(|errno| {
            Failure::refuse(
                Exit::StoreRefused,
                format!("store {index} cannot be taken out: {errno}"),
                "`holdfast status` shows which stores are in use; more than half must stay",
            )
        })
    }

    fn check(&self, how: Comparing, on_progress: OnProgress<'_>) -> Outcome<CheckReport> {
        let report = match how {
            Comparing::Check => self.engine.check(on_progress),
            Comparing::Repair => self.engine.repair(on_progress),
            Comparing::Scrub => self.engine.scrub(on_progress),
            Comparing::AcceptLoss => self.engine.accept_loss(),
        };
        let report = report.map_err(|errno| Failure::unexpected("comparing the copies", &errno))?;
        let mut report = report_of(report);
        let away = self.engine.status().stores;
        report.absent = away
            .iter()
            .filter(|s| s.state != StoreState::InSync && Some(s.index) != report.healing)
            .map(|s| s.index)
            .collect();
        Ok(report)
    }
}

impl Real {
    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Outcome<()> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map_err(|error| Failure::unexpected("starting a thread", &error))?;
        lock(&self.threads).push(thread);
        Ok(())
    }
}

/// A poisoned lock still holds a whole value here: nothing panics while one is held.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Tells when a store changes its state.
fn tell(engine: &Engine, on_event: &OnEvent, ended: &AtomicBool) {
    let mut before: Vec<StoreState> = engine.status().stores.iter().map(|s| s.state).collect();
    while !ended.load(Ordering::Acquire) {
        std::thread::sleep(LOOK);
        let status = engine.status();
        for (store, before) in status.stores.iter().zip(&mut before) {
            if store.state == *before {
                continue;
            }
            *before = store.state;
            let text = match store.state {
                StoreState::InSync => "in sync".to_owned(),
                StoreState::Rebuilding => "being brought up to date".to_owned(),
                StoreState::Fenced => format!("fenced: {}", store.detail),
            };
            on_event(Event::Store {
                index: store.index,
                text,
            });
        }
    }
}
