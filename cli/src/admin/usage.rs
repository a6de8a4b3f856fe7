//! What uses the page cache, counted for the page while root looks at it.

use pantler_steer::UsageWatch;
use pantler_steer::usage::UsageReport;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::top::By;
use crate::top::rows::{Rows, Sort};

/// Time of one report.
const INTERVAL: Duration = Duration::from_secs(2);
/// The page asks more often than this; nothing is counted for one that is closed.
const UNASKED_MAX: Duration = Duration::from_secs(10);
/// Rows that are told of; others are summed up.
const ROWS_MAX: usize = 50;

/// Counts from the first question on, until none has come for a while.
#[derive(Default)]
pub struct Usage(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: Option<Instant>,
    report: Option<UsageReport>,
    /// Why nothing is counted.
    failed: Option<String>,
    thread: Option<JoinHandle<()>>,
}

impl Usage {
    /// The last report, by the rows that a query names: `by=process`, `by=group` or `by=file`.
    ///
    /// # Errors
    /// Why there is none, for a reader.
    pub fn told(&self, query: &str) -> Result<serde_json::Value, String> {
        let by = match query {
            "by=group" => By::Group,
            "by=file" => By::File,
            _ => By::Process,
        };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = state.asked.replace(Instant::now()).is_none();
        if is_new {
            state.failed = None;
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("page-usage".into()).spawn(move || count(&shared));
            state.thread = Some(thread.map_err(|error| error.to_string())?);
        }
        if let Some(why) = &state.failed {
            return Err(why.clone());
        }
        let Some(report) = &state.report else { return Err("counting begins".to_owned()) };
        let mut rows = Rows::of(report, by, Sort::References);
        rows.keep(ROWS_MAX);
        serde_json::to_value(rows.to_json(report)).map_err(|error| error.to_string())
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked = None;
        let thread = state.thread.take();
        drop(state);
        // What it has in the kernel is removed before this process ends.
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Counts until nothing is asked any more, and then begins anew with the next question.
fn count(shared: &Mutex<State>) {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let is_asked = |state: &State| state.asked.is_some_and(|asked| asked.elapsed() < UNASKED_MAX);
    match UsageWatch::start() {
        Ok(mut watch) => {
            let mut begun = Instant::now();
            while is_asked(&lock()) {
                let looked = watch.look();
                if begun.elapsed() >= INTERVAL || looked.is_err() {
                    begun = Instant::now();
                    match looked.and_then(|()| watch.report()) {
                        Ok(report) => lock().report = Some(report),
                        Err(error) => {
                            lock().failed = Some(error.to_string());
                            break;
                        }
                    }
                }
            }
        }
        Err(error) => lock().failed = Some(error.to_string()),
    }
    // A failure is told as long as the page is open.
    while lock().failed.is_some() && is_asked(&lock()) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut state = lock();
    state.asked = None;
    state.report = None;
}
