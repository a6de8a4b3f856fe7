//! Keys that are no paths, in what servers list: `a//b`, `/a`, `.` and `..`, control characters.
//!
//! The crate `object_store` refuses a whole answer with such a key in it, and takes `/a` for `a`.
//! Here they are taken out of the answer before it sees them. Their objects cannot be reached, and
//! hide no others.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use object_store::path::Path;
use quick_xml::Reader;
use quick_xml::escape::{escape, unescape};
use quick_xml::events::Event;

/// Longest key that is shown.
const SHOWN_CHARS_MAX: usize = 80;

/// How often keys were left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    name: String,
    keys: AtomicU64,
}

impl LeftOut {
    pub(super) fn new(name: String) -> Arc<Self> {
        Arc::new(Self { name, keys: AtomicU64::new(0) })
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    fn note(&self, key: &str) {
        if self.keys.fetch_add(1, Ordering::Relaxed) == 0 {
            let key: String = key.escape_debug().take(SHOWN_CHARS_MAX).collect();
            tracing::warn!(origin = self.name, key, "left out, and others like it: it is no path");
        }
    }
}

/// Makes clients with listings that hold paths only.
#[derive(Debug)]
pub(super) struct Connector(pub(super) Arc<LeftOut>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Sifting { client, left_out: Arc::clone(&self.0) }))
    }
}

#[derive(Debug)]
struct Sifting {
    client: HttpClient,
    left_out: Arc<LeftOut>,
}

impl HttpService for Sifting {
    // As the attribute `async_trait` would write it.
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let asked = Asked::of(request.uri().query().unwrap_or_default());
            let response = self.client.execute(request).await?;
            let Some(asked) = asked.filter(|_| response.status().is_success()) else { return Ok(response) };
            let (mut parts, body) = response.into_parts();
            let bytes = body.bytes().await?;
            let sifted = match std::str::from_utf8(&bytes) {
                Ok(text) => sift(text, asked, &self.left_out),
                Err(error) => return Err(HttpError::new(HttpErrorKind::Decode, error)),
            };
            let body: HttpResponseBody = match sifted {
                Some(sifted) => sifted.into(),
                None => bytes.into(),
            };
            parts.headers.remove(http::header::CONTENT_LENGTH);
            Ok(HttpResponse::from_parts(parts, body))
        })
    }
}

/// What a request for a listing wants to know.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    /// What is directly below.
    Names,
    /// Whether anything is.
    Anything,
}

impl Asked {
    /// `None` for other requests.
    fn of(query: &str) -> Option<Self> {
        let has = |wanted: &str| query.split('&').any(|part| part == wanted || part.starts_with(wanted));
        let lists = query.split('&').any(|part| part == "list-type=2" || part == "comp=list");
        lists.then(|| if has("delimiter=") { Self::Names } else { Self::Anything })
    }
}

/// The same listing with paths only; `None` when nothing has to be changed. Text that is no XML is
/// left to its reader.
fn sift(text: &str, asked: Asked, left_out: &LeftOut) -> Option<String> {
    let mut reader = Reader::from_str(text);
    let mut sifted = String::new();
    let mut copied = 0;
    // Where an entry begins, and where the text of its key is.
    let (mut entry, mut key_from, mut key) = (None, None, None);
    loop {
        let before = reader.buffer_position() as usize;
        let event = reader.read_event().ok()?;
        let after = reader.buffer_position() as usize;
        match event {
            Event::Start(start) => match (start.local_name().as_ref(), entry) {
                (b"Contents" | b"CommonPrefixes" | b"Blob" | b"BlobPrefix", None) => entry = Some(before),
                (b"Key" | b"Prefix" | b"Name", Some(_)) if key.is_none() => key_from = Some(after),
                _ => {}
            },
            Event::End(end) => match (end.local_name().as_ref(), entry) {
                (b"Key" | b"Prefix" | b"Name", Some(_)) => {
                    if let Some(from) = key_from.take() {
                        key = Some((from, before));
                    }
                }
                (b"Contents" | b"CommonPrefixes" | b"Blob" | b"BlobPrefix", Some(from)) => {
                    entry = None;
                    let Some((key_from, key_to)) = key.take() else { continue };
                    let name = unescape(text.get(key_from..key_to)?).ok()?;
                    if is_path(&name) {
                        continue;
                    }
                    left_out.note(&name);
                    let (from, to, instead) = match asked {
                        Asked::Names => (from, after, Cow::Borrowed("")),
                        // It is there, under whatever name.
                        Asked::Anything => {
                            (key_from, key_to, Cow::Owned(escape(some_path(&name)).into_owned()))
                        }
                    };
                    sifted.push_str(text.get(copied..from)?);
                    sifted.push_str(&instead);
                    copied = to;
                }
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
    }
    (copied > 0).then(|| sifted + &text[copied..])
}

/// Whether a key is a path, or a path and a slash, as markers of directories are.
fn is_path(key: &str) -> bool {
    let path = key.strip_suffix('/').unwrap_or(key);
    path.split('/').all(is_part)
}

fn is_part(part: &str) -> bool {
    !part.is_empty() && Path::parse(part).is_ok()
}

/// A path as long as a key that is none.
fn some_path(key: &str) -> String {
    let parts = key.split('/').map(|part| if is_part(part) { part } else { "-" });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(keys: &[&str], prefixes: &[&str]) -> String {
        let keys = keys.iter().map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>"));
        let prefixes =
            prefixes.iter().map(|key| format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>"));
        let entries = keys.chain(prefixes).collect::<String>();
        format!("<?xml version=\"1.0\"?><L><Name>b//c</Name><Prefix>d//</Prefix>{entries}<Key>//</Key></L>")
    }

    fn sifted(text: &str, asked: Asked) -> (String, u64) {
        let left_out = LeftOut::default();
        let sifted = sift(text, asked, &left_out);
        (sifted.unwrap_or_else(|| text.to_owned()), left_out.keys())
    }

    #[test]
    fn paths_stay_and_other_keys_leave_with_all_that_is_said_of_them() {
        let good = ["a", "d/b", "d/", "sp ace", "a&amp;b", "&#252;", "..."];
        let bad = ["a//b", "/a", "//", "d/.", "../x", "d//", "a&#47;/b", "x&#10;y", ""];
        let kept = listing(&good, &["d/", "e f/"]);
        assert_eq!(sifted(&kept, Asked::Names), (kept.clone(), 0));
        let mixed = listing(&[&good[..], &bad].concat(), &["d/", "/", "e f/", "d//"]);
        assert_eq!(sifted(&mixed, Asked::Names), (kept, bad.len() as u64 + 2));
    }

    #[test]
    fn what_is_no_path_still_says_that_something_is_there() {
        let (text, left_out) = sifted(&listing(&["d//y", "d/.", "/&lt;"], &[]), Asked::Anything);
        assert_eq!((text, left_out), (listing(&["d/-/y", "d/-", "-/&lt;"], &[]), 3));
    }

    #[test]
    fn answers_of_azure_and_torn_ones() {
        let blobs =
            "<R><Blobs><Blob><Name>a//b</Name><Properties/></Blob><Blob><Name>c</Name></Blob></Blobs></R>";
        assert_eq!(sifted(blobs, Asked::Names).0, "<R><Blobs><Blob><Name>c</Name></Blob></Blobs></R>");
        for torn in ["", "<", "<L><Contents><Key>a//b", "no", "<L></M>", "<Contents><Key>a//b</Contents>"] {
            assert_eq!(sifted(torn, Asked::Names).0, torn);
        }
    }

    #[test]
    fn listings_are_told_from_other_requests() {
        let cases = [
            ("list-type=2&prefix=a", Some(Asked::Anything)),
            ("delimiter=%2F&list-type=2", Some(Asked::Names)),
            ("restype=container&comp=list&delimiter=%2F", Some(Asked::Names)),
            ("comp=blocklist", None),
            ("", None),
        ];
        for (query, asked) in cases {
            assert_eq!(Asked::of(query), asked, "{query}");
        }
    }
}
