//! How far an inquiry is, on standard error, for what takes longer than two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pantler_dust::{Inquiry, Script};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What takes no longer than this needs no words.
const PATIENCE: Duration = Duration::from_secs(2);

/// A line that changes on a terminal, one line for each script elsewhere.
pub struct Progress {
    line: ProgressBar,
    start: Instant,
    terminal: bool,
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Self {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        line.set_style(style.unwrap_or(ProgressStyle::default_spinner()));
        Self { line, start: Instant::now(), terminal: std::io::stderr().is_terminal() }
    }

    /// A script is about to be run.
    pub fn step(&mut self, inquiry: &Inquiry, script: &Script) {
        let done = inquiry.evidence().len();
        let nearest =
            inquiry.fits().first().map(|fit| format!(", so far nearest: {}", fit.hypothesis.name()));
        self.say(&format!(
            "{}: {} accesses after {done}{}",
            script.pattern,
            script.accesses.len(),
            nearest.unwrap_or_default()
        ));
    }

    /// Something else takes its time.
    pub fn say(&mut self, text: &str) {
        self.line.set_message(text.to_owned());
        if self.start.elapsed() < PATIENCE {
            return;
        }
        if !self.terminal {
            eprintln!("pantler: {text}");
        } else if self.line.is_hidden() {
            self.line.set_draw_target(ProgressDrawTarget::stderr());
            self.line.enable_steady_tick(Duration::from_millis(200));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
