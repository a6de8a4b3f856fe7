//! How far the runs are: a bar on standard error, for what takes longer than two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pantler_sim::Watch;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What takes no longer than this needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);
const REDRAW_EVERY: Duration = Duration::from_millis(200);

/// A bar that follows a watch until it is dropped.
pub struct Progress {
    bar: ProgressBar,
    ended: Arc<AtomicBool>,
    follower: Option<JoinHandle<()>>,
}

impl Progress {
    /// Follows `watch` for the next `references`, which are those of `runs` runs. Shown on a
    /// terminal, or when `forced`.
    pub fn new(watch: &Arc<Watch>, references: u64, runs: usize, forced: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(references), ProgressDrawTarget::hidden());
        let ended = Arc::new(AtomicBool::new(false));
        let mut progress = Self { bar: bar.clone(), ended: ended.clone(), follower: None };
        let terminal = std::io::stderr().is_terminal();
        if !terminal && !forced {
            return progress;
        }
        let template = format!("{{bar:30}} {{percent:>3}} %, {{msg}} of {runs} runs, {{eta}} left");
        bar.set_style(ProgressStyle::with_template(&template).unwrap_or(ProgressStyle::default_bar()));
        bar.set_message("0");
        let (watch, before) = (watch.clone(), watch.done());
        progress.follower = Some(std::thread::spawn(move || {
            let start = Instant::now();
            let mut said = u64::MAX;
            let mut drawn = false;
            while !ended.load(Ordering::Relaxed) {
                std::thread::park_timeout(REDRAW_EVERY);
                let done = watch.done() - before;
                bar.set_position(done.min(references));
                if start.elapsed() < PATIENCE {
                    continue;
                }
                if terminal && !drawn {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    drawn = true;
                }
                // Without a terminal a bar would be drawn over and over: one line for every tenth
                // instead.
                let tenth = 10 * done.min(references) / references.max(1);
                if !terminal && tenth != said {
                    said = tenth;
                    tell!("{}0 % of {runs} runs, {:.0?} left", tenth, bar.eta());
                }
            }
            bar.finish_and_clear();
        }));
        progress
    }

    /// One more run has ended.
    pub fn ran(&self) {
        let runs: u64 = self.bar.message().parse().unwrap_or(0);
        self.bar.set_message((runs + 1).to_string());
    }

    /// Takes the bar away while something is printed.
    pub fn hidden<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(follower) = self.follower.take() {
            follower.thread().unpark();
            // A bar that failed to draw is no reason to fail.
            let _ = follower.join();
        }
    }
}
