//! From a request to its answer: the rules of a static file server (RFC 9110).

use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST, HeaderName,
    HeaderValue, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::time::Instant;

use crate::body::{AnswerBody, Ending, Source};
use crate::conditions::{self, Verdict};
use crate::desk::Desk;
use crate::feed::{CHANGED, Feed};
use crate::opened::Opened;
use crate::opener::{Asker, Opener};
use crate::options::Options;
use crate::path::{self, Names, Refusal};
use crate::pulse::Pulse;
use crate::range::{self, Asked};
use crate::root::{Found, Root};

/// What may be asked for.
const ALLOWED: &str = "GET, HEAD, OPTIONS";
/// The status of a client that left before there was an answer.
const GONE: u16 = 499;
/// How often a file is opened that changes before its first bytes are read.
const TRIES: u32 = 3;
/// Bytes that are escaped in the path of `Location`.
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// Everything that answers share.
#[derive(Debug)]
pub struct Site {
    pub root: Arc<Root>,
    pub opener: Opener,
    pub desk: Arc<Desk>,
    pub options: Options,
}

/// An answer before its body knows how it ends.
struct Draft {
    status: StatusCode,
    headers: HeaderMap,
    source: Source,
    length: u64,
    waited: bool,
}

impl Draft {
    fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), source: Source::Nothing, length: 0, waited: false }
    }

    /// A refusal with its reason as text.
    fn plain(status: StatusCode) -> Self {
        let text = format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
        let mut draft = Self::empty(status).with(CONTENT_TYPE, "text/plain; charset=utf-8");
        draft.length = text.len() as u64;
        draft.source = Source::Text(text.into());
        draft
    }

    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.set(name, HeaderValue::from_static(value));
        self
    }
}

impl Site {
    /// Answers a request. Never fails: what goes wrong is a status.
    pub async fn answer(
        self: Arc<Self>,
        pulse: Arc<Pulse>,
        request: Request<Incoming>,
    ) -> Response<AnswerBody> {
        pulse.begin();
        let mut ending = Ending {
            pulse: pulse.clone(),
            metrics: self.desk.metrics.clone(),
            start: Instant::now(),
            status: GONE,
            length: None,
            taken: AtomicU64::new(0),
            waited: AtomicBool::new(false),
        };
        let asker = Asker { pulse: &pulse, since: ending.start };
        let mut draft = self.draft(&pulse, asker, &request).await;
        let is_head = request.method() == Method::HEAD;
        ending.status = draft.status.as_u16();
        ending.waited = draft.waited.into();
        let length = if is_head { 0 } else { draft.length };
        let has_length = draft.status != StatusCode::NOT_MODIFIED && draft.status != StatusCode::NO_CONTENT;
        if has_length {
            draft.set(CONTENT_LENGTH, draft.length.into());
            draft.set(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        // A body that is not read must not be taken for the next request, whatever its length.
        if has_body(&request) {
            draft.set(CONNECTION, HeaderValue::from_static("close"));
        }
        let source = if is_head { Source::Nothing } else { draft.source };
        let mut response = Response::new(AnswerBody::new(source, length, ending));
        *response.status_mut() = draft.status;
        *response.headers_mut() = draft.headers;
        response
    }

    async fn draft(&self, pulse: &Arc<Pulse>, asker: Asker<'_>, request: &Request<Incoming>) -> Draft {
        if let Some(refused) = refuse(request) {
            return refused;
        }
        let target = request.uri();
        if request.method() == Method::OPTIONS {
            return Draft::empty(StatusCode::NO_CONTENT).with(ALLOW, ALLOWED);
        }
        let names = match path::names(target.path(), self.options.hidden) {
            Ok(names) => names,
            Err(Refusal::Malformed) => return Draft::plain(StatusCode::BAD_REQUEST),
            Err(Refusal::Hidden) => return Draft::plain(StatusCode::NOT_FOUND),
        };
        let mut tries = TRIES;
        loop {
            match self.find(&names, request, pulse, asker).await {
                Ok(draft) => return draft,
                // Nothing of it has gone out.
                Err(error) if error.kind() == CHANGED && tries > 1 => tries -= 1,
                Err(error) => return failed(&error),
            }
        }
    }

    async fn find(
        &self,
        names: &Names,
        request: &Request<Incoming>,
        pulse: &Arc<Pulse>,
        asker: Asker<'_>,
    ) -> io::Result<Draft> {
        match self.opener.open(names, asker).await? {
            Found::File(_) if names.is_directory => Ok(Draft::plain(StatusCode::NOT_FOUND)),
            Found::File(file) => self.serve(file, names, request, pulse).await,
            Found::Directory if !names.is_directory => Ok(redirect(names, request)),
            Found::Directory => {
                for index in &self.options.index {
                    let below = below(names, index);
                    match self.opener.open(&below, asker).await {
                        Ok(Found::File(file)) => {
                            return self.serve(file, &below, request, pulse).await;
                        }
                        Err(error) if !is_absent(&error) => return Err(error),
                        _ => {}
                    }
                }
                Ok(Draft::plain(StatusCode::NOT_FOUND))
            }
        }
    }

    async fn serve(
        &self,
        file: Opened,
        names: &Names,
        request: &Request<Incoming>,
        pulse: &Arc<Pulse>,
    ) -> io::Result<Draft> {
        let mut draft = Draft::empty(StatusCode::OK);
        let validators = &file.validators;
        let etag = HeaderValue::from_str(&validators.etag).map_err(io::Error::other)?;
        draft.set(ETAG, etag);
        if let Some(modified) = validators.modified.map(httpdate::fmt_http_date) {
            draft.set(LAST_MODIFIED, HeaderValue::from_str(&modified).map_err(io::Error::other)?);
        }
        match conditions::evaluate(request.headers(), validators) {
            Verdict::Proceed => {}
            Verdict::NotModified => {
                draft.status = StatusCode::NOT_MODIFIED;
                return Ok(draft);
            }
            Verdict::Failed => return Ok(Draft::plain(StatusCode::PRECONDITION_FAILED)),
        }
        draft.set(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        draft.set(CONTENT_TYPE, HeaderValue::from_str(&kind(&names.joined)).map_err(io::Error::other)?);
        let size = file.size();
        let range = match self.asked(request, &file) {
            Asked::Whole => 0..size,
            Asked::Unsatisfiable => {
                let mut refused = Draft::plain(StatusCode::RANGE_NOT_SATISFIABLE);
                let all = HeaderValue::from_str(&format!("bytes */{size}")).map_err(io::Error::other)?;
                refused.set(CONTENT_RANGE, all);
                return Ok(refused);
            }
            Asked::Part(range) => {
                draft.status = StatusCode::PARTIAL_CONTENT;
                let text = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                draft.set(CONTENT_RANGE, HeaderValue::from_str(&text).map_err(io::Error::other)?);
                range
            }
        };
        draft.length = range.end - range.start;
        if request.method() != Method::HEAD && !range.is_empty() {
            self.fill(&mut draft, file, range, pulse).await?;
        }
        Ok(draft)
    }

    /// A range counts for GET only (RFC 9110, section 14.2).
    fn asked(&self, request: &Request<Incoming>, file: &Opened) -> Asked {
        let mut fields = request.headers().get_all(RANGE).iter();
        match (fields.next(), fields.next()) {
            (Some(field), None) if request.method() == Method::GET => {
                let counts = conditions::range_counts(request.headers(), &file.validators);
                match field.to_str() {
                    Ok(field) if counts => range::asked(field, file.size()),
                    _ => Asked::Whole,
                }
            }
            _ => Asked::Whole,
        }
    }

    /// Sets the first bytes of a range as source: they are waited for here, so that a read that
    /// fails is a status still.
    async fn fill(
        &self,
        draft: &mut Draft,
        file: Opened,
        range: Range<u64>,
        pulse: &Arc<Pulse>,
    ) -> io::Result<()> {
        let mut feed = Feed::new(self.desk.clone(), Arc::new(file), pulse.clone(), range);
        let first = std::future::poll_fn(|context| feed.poll_next(context)).await?;
        draft.waited = feed.has_waited;
        draft.source = match first {
            Some(bytes) if feed.is_done() => Source::Text(bytes),
            first => Source::File(first, Box::new(feed)),
        };
        Ok(())
    }
}

/// Most bytes of the target in the first line of a request.
const TARGET_BYTES_MAX: usize = 8 << 10;

/// Refusals that need no look at the path.
fn refuse(request: &Request<Incoming>) -> Option<Draft> {
    let target = request.uri();
    if target.path().len() + target.query().map_or(0, str::len) > TARGET_BYTES_MAX {
        return Some(Draft::plain(StatusCode::URI_TOO_LONG));
    }
    // A request over HTTP/1.1 names its host exactly once (RFC 9112, section 3.2).
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Some(Draft::plain(StatusCode::BAD_REQUEST));
    }
    // Two lengths in one request are an attack.
    if request.headers().contains_key(TRANSFER_ENCODING) && request.headers().contains_key(CONTENT_LENGTH) {
        return Some(Draft::plain(StatusCode::BAD_REQUEST));
    }
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS => None,
        _ => Some(Draft::plain(StatusCode::METHOD_NOT_ALLOWED).with(ALLOW, ALLOWED)),
    }
}

fn has_body(request: &Request<Incoming>) -> bool {
    !request.body().is_end_stream()
        || request.headers().contains_key(TRANSFER_ENCODING)
        || request.headers().get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NOTDIR.raw_os_error())
}

fn failed(error: &io::Error) -> Draft {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Draft::plain(StatusCode::NOT_FOUND),
        // XDEV: a link leads out of the root.
        Some(Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP) => Draft::plain(StatusCode::FORBIDDEN),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
            Draft::plain(StatusCode::SERVICE_UNAVAILABLE).with(RETRY_AFTER, "1")
        }
        _ if error.kind() == io::ErrorKind::NotFound => Draft::plain(StatusCode::NOT_FOUND),
        // It took too long, the queues began anew, or the file changes all the time: another time
        // it may go better.
        _ if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy | CHANGED) => {
            Draft::plain(StatusCode::SERVICE_UNAVAILABLE).with(RETRY_AFTER, "1")
        }
        _ => {
            tracing::warn!("a request failed: {error}");
            Draft::plain(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// To the same directory with a slash at its end. Made from names, so that it leads to no other
/// host.
fn redirect(names: &Names, request: &Request<Incoming>) -> Draft {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("/{}/{query}", percent_encode(&names.joined, PATH));
    let mut draft = Draft::plain(StatusCode::MOVED_PERMANENTLY);
    match HeaderValue::from_str(&location) {
        Ok(location) => draft.set(LOCATION, location),
        Err(_) => return Draft::plain(StatusCode::BAD_REQUEST),
    }
    draft
}

fn below(names: &Names, index: &str) -> Names {
    let slash: &[u8] = if names.joined.is_empty() { b"" } else { b"/" };
    Names { joined: [&names.joined, slash, index.as_bytes()].concat(), is_directory: false }
}

/// The content type by the name's end.
fn kind(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let extension = name.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, end)| end);
    let mime = mime_guess::from_ext(extension).first_or_octet_stream();
    let text = mime.essence_str();
    let is_text = mime.type_() == "text"
        || matches!(
            text,
            "application/javascript" | "application/json" | "application/xml" | "image/svg+xml"
        );
    if is_text { format!("{text}; charset=utf-8") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_guessed_from_the_name() {
        assert_eq!(kind(b"a/b.html"), "text/html; charset=utf-8");
        assert_eq!(kind(b"a.png"), "image/png");
        assert_eq!(kind(b"a.b/c"), "application/octet-stream");
        assert_eq!(kind(b"x.JSON"), "application/json; charset=utf-8");
    }
}
