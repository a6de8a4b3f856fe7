//! A running server: listeners, threads, and the way it stops.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::answer::Site;
use crate::connection::{self, Reception};
use crate::descriptors::{Descriptors, Seat};
use crate::desk::Desk;
use crate::error::WebError;
use crate::exporter::{self, Exporter};
use crate::metrics::Metrics;
use crate::opener::Opener;
use crate::options::Options;
use crate::root::Root;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// How long to wait when descriptors are short.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// Descriptors of the process itself, and of each thread beside those for what is being opened.
const DESCRIPTORS: [usize; 2] = [32, 8];
/// Threads for each answering thread that may wait for names to be read from the disk.
const OPENERS: usize = 16;

/// A server that answers until it is stopped.
///
/// ```
/// use pantler_web::{Options, Server};
/// use std::io::{Read, Write};
///
/// let folder = std::env::temp_dir().join(format!("pantler-web-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// std::fs::write(folder.join("hello.txt"), "hello").unwrap();
/// let server = Server::start(Options::new(&folder, "127.0.0.1:0".parse().unwrap())).unwrap();
/// let mut client = std::net::TcpStream::connect(server.address()).unwrap();
/// client.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).unwrap();
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"));
/// server.stop();
/// std::fs::remove_dir_all(&folder).unwrap();
/// ```
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    metrics: Option<Exporter>,
    site: Arc<Site>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
    /// Whether the time for a stop ran out: there is no more.
    has_given_up: bool,
}

/// How long readers have at least to end, when answers have taken all the time.
const GRACE: Duration = Duration::from_millis(500);

/// Waits for threads to end, but not for ever; whether all did. The others end with the process.
fn join(threads: impl IntoIterator<Item = JoinHandle<()>>, until: Instant) -> bool {
    let mut all = true;
    for thread in threads {
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        all &= thread.is_finished();
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
    all
}

impl Server {
    /// Starts to listen and to answer.
    ///
    /// # Errors
    /// [`WebError`], with nothing left running.
    pub fn start(options: Options) -> Result<Self, WebError> {
        let descriptors = pantler_kernel::limits::raise_descriptors();
        let root = Arc::new(Root::open(&options.root)?);
        let listener = listen(options.listen)?;
        let address = listener.local_addr().map_err(WebError::Start)?;
        let metrics = Arc::new(Metrics::default());
        let (desk, readers) = Desk::open(&options, metrics)?;
        let (stop, stopped) = watch::channel(false);
        let threads = options.threads.max(1);
        let seats = Arc::new(Semaphore::new(options.limits.connections.max(threads) as usize));
        let descriptors = Arc::new(Descriptors::new(for_clients(descriptors, &options)));
        let opener = Opener::new(
            root.clone(),
            OPENERS * threads as usize,
            options.limits.open_time,
            descriptors.clone(),
            desk.metrics.crowded.clone(),
        );
        let site = Arc::new(Site { root, opener, desk, options });
        let builder = connection::builder();
        let mut server = Self {
            address,
            metrics: None,
            site: site.clone(),
            stop,
            threads: Vec::new(),
            readers,
            has_given_up: false,
        };
        for number in 0..threads {
            let reception =
                Arc::new(Reception { site: site.clone(), builder: builder.clone(), stop: stopped.clone() });
            let listener = listener.try_clone().map_err(WebError::Start)?;
            let (seats, descriptors) = (seats.clone(), descriptors.clone());
            server.spawn(&format!("web-{number}"), async move {
                let door = Door { seats, descriptors: Some(descriptors) };
                accept(listener, reception.stop.clone(), door, |stream, address| {
                    let reception = reception.clone();
                    async move { reception.serve(stream, address.ip()).await }
                })
                .await
            })?;
        }
        if let Some(address) = site.options.metrics {
            let desk = site.desk.clone();
            server.metrics = Some(Exporter::start(address, move || desk.metrics_text())?);
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `/metrics` is.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Exporter::address)
    }

    /// The folder that is served, without links.
    pub fn root(&self) -> &Path {
        self.site.root.path()
    }

    /// What the server counts, in the text format of OpenMetrics 1.0.
    pub fn metrics(&self) -> String {
        self.site.desk.metrics_text()
    }

    /// Accepts nothing more, lets answers end for as long as the limits allow, and ends. Whether
    /// all answers did end.
    pub fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        if self.has_given_up {
            return false;
        }
        let _ = self.stop.send(true);
        self.metrics = None;
        let limit = Instant::now() + self.site.options.limits.stop_time;
        if !join(self.threads.drain(..), limit) {
            // Threads that still answer end with the process; what they hold is theirs.
            self.has_given_up = true;
            return false;
        }
        self.site.desk.close();
        // The disk may hang under a reader that no client waits for.
        self.has_given_up = !join(self.readers.drain(..), limit.max(Instant::now() + GRACE));
        true
    }

    /// A thread with a runtime of its own: what it accepts never moves to another.
    fn spawn(&mut self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> Result<(), WebError> {
        let openers = OPENERS * self.site.options.threads.max(1) as usize;
        self.threads.push(spawn(name, openers, work)?);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A thread with a runtime that has up to `blocking` threads for what may wait.
pub(crate) fn spawn(
    name: &str,
    blocking: usize,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<()>, WebError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(blocking)
        .build()
        .map_err(WebError::Start)?;
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(work);
        // What waits may hang in a file system, or for another process: it is not waited for.
        runtime.shutdown_background();
    });
    thread.map_err(WebError::Start)
}

pub(crate) fn listen(address: SocketAddr) -> Result<StdListener, WebError> {
    let fail = |error: io::Error| WebError::Listen { address: address.to_string(), error };
    let listener = StdListener::bind(address).map_err(fail)?;
    // The standard library queues fewer.
    rustix::net::listen(&listener, BACKLOG).map_err(|error| fail(error.into()))?;
    listener.set_nonblocking(true).map_err(fail)?;
    Ok(listener)
}

/// How many of the descriptors of this process are for connections and files for them: a quarter at
/// least, because openers seldom all open a file at the same moment.
fn for_clients(descriptors: usize, options: &Options) -> usize {
    let left = descriptors.saturating_sub(own_descriptors(options)).max(descriptors / 4);
    if left < options.limits.connections as usize {
        let connections = options.limits.connections;
        tracing::warn!("{left} descriptors for {connections} connections and their files: see ulimit -n");
    }
    left
}

/// How many descriptors are neither connections to clients nor files for them.
fn own_descriptors(options: &Options) -> usize {
    let [process, thread] = DESCRIPTORS;
    let threads = options.threads.max(1) as usize;
    // Each thread that answers opens one at a time, and so does each of its openers.
    let opening = threads * (OPENERS + 1);
    process + thread * (threads + 1) + opening + options.metrics.map_or(0, |_| exporter::CONNECTIONS_MAX)
}

/// Admits connections.
pub(crate) struct Door {
    /// One for each connection.
    pub(crate) seats: Arc<Semaphore>,
    /// Each with a descriptor, where those are counted.
    pub(crate) descriptors: Option<Arc<Descriptors>>,
}

impl Door {
    /// When there is room for one more: a seat, and a descriptor.
    async fn opens(&self) -> (OwnedSemaphorePermit, Option<Seat>) {
        let seat = self.seats.clone().acquire_owned().await.expect("it is never closed");
        match &self.descriptors {
            Some(descriptors) => (seat, Some(descriptors.connection().await)),
            None => (seat, None),
        }
    }
}

/// Accepts until told to stop, then waits for what was accepted.
pub(crate) async fn accept<F>(
    listener: StdListener,
    mut stop: watch::Receiver<bool>,
    door: Door,
    mut serve: impl FnMut(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("cannot accept: {error}"),
    };
    let mut open = JoinSet::new();
    loop {
        let accepted = async {
            let seat = door.opens().await;
            (seat, listener.accept().await)
        };
        let (seat, accepted) = tokio::select! {
            both = accepted => both,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Ok((stream, address)) = accepted else {
            // Descriptors or memory are short, or the client is gone already.
            tokio::time::sleep(SHORT_PAUSE).await;
            continue;
        };
        // Those that have ended are forgotten.
        while open.try_join_next().is_some() {}
        let serving = serve(stream, address);
        open.spawn(async move {
            // It is given back even if serving panics.
            let _seat = seat;
            serving.await;
        });
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_stop_whose_time_has_run_out_is_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("big"), vec![1; 40 << 20]).unwrap();
        let mut options = Options::new(folder.path(), "127.0.0.1:0".parse().unwrap());
        options.limits.stop_time = Duration::from_millis(100);
        let mut server = Server::start(options).unwrap();
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
        assert!(!server.end(), "a client still takes its answer");
        drop(stream);
        // Dropping the server asks once more, and must not begin anew: all answers may have ended.
        std::thread::sleep(Duration::from_millis(50));
        assert!(!server.end(), "it began anew");
    }

    #[test]
    fn a_stop_waits_for_no_thread_that_hangs() {
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let hangs = std::thread::spawn(move || gate.recv().unwrap_or(()));
        let ends = std::thread::spawn(|| ());
        assert!(!join([hangs, ends], Instant::now() + Duration::from_millis(20)));
        drop(go);
        assert!(join([std::thread::spawn(|| ())], Instant::now() + Duration::from_secs(60)));
    }

    #[tokio::test]
    async fn a_connection_that_panics_holds_up_no_stop() {
        let (listener, seats) =
            (listen("127.0.0.1:0".parse().unwrap()).unwrap(), Arc::new(Semaphore::new(1)));
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (panics, mut panicked) = tokio::sync::mpsc::unbounded_channel();
        let door = Door { seats: seats.clone(), descriptors: None };
        let accepting = accept(listener, stopped, door, move |stream, _| {
            let panics = panics.clone();
            async move {
                let _ = (stream, panics.send(()));
                panic!("a fault that this test wants");
            }
        });
        let accepting = tokio::spawn(accepting);
        for _ in 0..3 {
            // One seat: the next is accepted only when the last one's is free again.
            let _client = TcpStream::connect(address).await.unwrap();
            panicked.recv().await.unwrap();
        }
        stop.send(true).unwrap();
        tokio::time::timeout(Duration::from_secs(60), accepting).await.expect("it stops").unwrap();
        assert_eq!(seats.available_permits(), 1);
    }
}
