//! Stores on the network, by the crate `object_store`.

use futures_util::StreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig,
};
use rustix::io::Errno;
use std::io::{self, IoSliceMut, Read};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

use super::listing::{Connector, LeftOut};
use super::object::{Found, Object, Objects, plain_tag};
use crate::Time;
use crate::place::{Credentials, Scheme, StoreAddress, StoreOptions};

/// Threads that move bytes; the asking thread waits.
const MOVERS: usize = 2;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a store may take to answer the first question.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer a whole listing may take than one answer: it comes in pages of 1,000.
const LISTING_FACTOR: u32 = 10;
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Longest reason that is passed on.
const REASON_CHARS_MAX: usize = 200;

pub(super) struct Client {
    store: Arc<dyn ObjectStore>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    scheme: Scheme,
    prefix: Path,
    timeout: Duration,
    /// Whether credentials were given.
    is_known: bool,
    left_out: Arc<LeftOut>,
}

/// What can go wrong with a request.
#[derive(derive_more::From)]
enum Fault {
    #[from]
    Store(object_store::Error),
    /// The object is another by now.
    Changed,
    /// The answer does not fit the question.
    Odd(&'static str),
    Late,
}

/// A client of a store that answers, and what tells its server from others that have a bucket of
/// the same name.
pub(super) fn connect(
    address: &StoreAddress,
    options: &StoreOptions,
) -> Result<(Box<dyn Objects>, String), String> {
    // Another part of the process may have chosen one already, which will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(MOVERS)
        .thread_name("pantler-store")
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let prefix = match address.scheme {
        Scheme::Http | Scheme::Https => Path::from_url_path(&address.prefix),
        _ => Path::parse(&address.prefix),
    };
    let prefix = prefix.map_err(|error| error.to_string())?;
    let left_out = LeftOut::new(address.to_string());
    let (store, server, is_known) = build(address, options, &left_out)?;
    let (scheme, timeout) = (address.scheme, options.timeout);
    let client = Client { store, runtime: Some(runtime), scheme, prefix, timeout, is_known, left_out };
    client.check(address)?;
    Ok((Box::new(client), server))
}

impl Client {
    /// Asks for something.
    fn check(&self, address: &StoreAddress) -> Result<(), String> {
        let limit = self.timeout.min(CHECK_TIMEOUT);
        let answer = match address.scheme {
            Scheme::Memory => return Ok(()),
            Scheme::Http | Scheme::Https => self.wait(limit, async {
                match self.store.head(&self.prefix).await {
                    Ok(_) => Ok(true),
                    Err(object_store::Error::NotFound { .. }) => {
                        Ok(self.has_any(&self.prefix).await.unwrap_or(false))
                    }
                    // So servers answer for directories that they do not list; files in them may be
                    // read.
                    Err(object_store::Error::PermissionDenied { .. }) => Ok(true),
                    Err(error) => Err(error.into()),
                }
            }),
            _ => self.wait(limit, self.has_any(&self.prefix)),
        };
        match answer {
            Ok(false) if !self.prefix.as_ref().is_empty() => {
                Err("there is nothing below that path".to_owned())
            }
            Ok(_) => Ok(()),
            Err(fault) => Err(self.refusal(&fault, address)),
        }
    }

    /// Why a store cannot be used, and what helps.
    fn refusal(&self, fault: &Fault, address: &StoreAddress) -> String {
        use object_store::Error;
        let (names, what) = match address.scheme {
            Scheme::S3 => ("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "bucket"),
            Scheme::Gcs => ("GOOGLE_SERVICE_ACCOUNT", "bucket"),
            Scheme::Azure => ("AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "container"),
            _ => ("HTTP_AUTHORIZATION", "path"),
        };
        let reason = match fault {
            Fault::Store(Error::NotFound { .. }) => format!("there is no such {what}"),
            Fault::Store(Error::PermissionDenied { .. }) => "access is refused".to_owned(),
            Fault::Store(Error::Unauthenticated { .. }) => "the credentials are refused".to_owned(),
            fault => match reason(fault) {
                // Of listings the crate passes on what the server wrote.
                text if text.contains("status code: 404") => format!("there is no such {what}"),
                text if text.contains("status code: 401") => "the credentials are refused".to_owned(),
                text if text.contains("status code: 403") => "access is refused".to_owned(),
                text => text,
            },
        };
        match self.is_known {
            true => reason,
            false => {
                format!(
                    "{reason}; no credentials were given: expected {names} in the environment or in --origin-credentials FILE"
                )
            }
        }
    }

    fn wait<R>(&self, limit: Duration, work: impl Future<Output = Result<R, Fault>>) -> Result<R, Fault> {
        let runtime = self.runtime.as_ref().expect("it is there until it is dropped");
        runtime.block_on(async { tokio::time::timeout(limit, work).await.unwrap_or(Err(Fault::Late)) })
    }

    /// The same, with the errno of what goes wrong.
    fn ask<R>(&self, limit: Duration, work: impl Future<Output = Result<R, Fault>>) -> io::Result<R> {
        self.wait(limit, work).map_err(|fault| {
            let code = errno(&fault, self.scheme);
            tracing::debug!(reason = reason(&fault), ?code, "a request failed");
            code.into()
        })
    }

    /// Whether anything is below a key.
    async fn has_any(&self, key: &Path) -> Result<bool, Fault> {
        if matches!(self.scheme, Scheme::Http | Scheme::Https) {
            // Everything below would come at once.
            let listed = self.store.list_with_delimiter(Some(key)).await?;
            return Ok(!listed.objects.is_empty() || !listed.common_prefixes.is_empty());
        }
        Ok(self.store.list(Some(key)).next().await.transpose()?.is_some())
    }

    /// The key in the store of a path below the origin.
    fn key(&self, path: &str) -> io::Result<Path> {
        let below = Path::parse(path).map_err(|_| Errno::NOENT)?;
        Ok(self.prefix.parts().chain(below.parts()).collect())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be asking for the address of a name, which cannot be broken off.
            runtime.shutdown_background();
        }
    }
}

impl Objects for Client {
    fn object(&self, path: &str) -> io::Result<Object> {
        let key = self.key(path)?;
        self.ask(self.timeout, async { Ok(object(&self.store.head(&key).await?)) })
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, Found)>> {
        let key = self.key(path)?;
        let listed = self.ask(self.timeout * LISTING_FACTOR, async {
            Ok(self.store.list_with_delimiter(Some(&key)).await?)
        })?;
        // Not what marks this very directory.
        let objects = listed.objects.iter().filter(|meta| meta.location != key);
        let objects = objects.map(|meta| (meta.location.filename(), Found::Object(object(meta))));
        let directories = listed.common_prefixes.iter().map(|path| (path.filename(), Found::Directory));
        let named = |(name, found): (Option<&str>, Found)| Some((name?.to_owned(), found));
        Ok(objects.chain(directories).filter_map(named).collect())
    }

    fn left_out(&self) -> u64 {
        self.left_out.keys()
    }

    fn has_below(&self, path: &str) -> io::Result<bool> {
        let key = self.key(path)?;
        self.ask(self.timeout, self.has_any(&key))
    }

    fn read(
        &self,
        path: &str,
        object: &Object,
        offset: u64,
        mut buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let key = self.key(path)?;
        let asked: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let end = object.size.min(offset.saturating_add(asked));
        let mut options = GetOptions { range: Some((offset..end).into()), ..GetOptions::default() };
        // A weak tag never matches; then what comes is looked at alone. Some listings have tags
        // without quotes.
        let tag = object.tag.as_deref().filter(|tag| !tag.starts_with("W/"));
        options.if_match = tag.map(|tag| format!("\"{}\"", plain_tag(tag)));
        self.ask(self.timeout, async {
            let answer = self.store.get_opts(&key, options).await?;
            if !is_same(&answer.meta, object) {
                return Err(Fault::Changed);
            }
            if answer.range != (offset..end) {
                return Err(Fault::Odd("another range than asked for"));
            }
            let mut done = 0;
            let mut pieces = answer.into_stream();
            while let Some(piece) = pieces.next().await {
                let piece = piece?;
                if done + piece.len() as u64 > end - offset {
                    return Err(Fault::Odd("more bytes than asked for"));
                }
                let count = (&mut &piece[..]).read_vectored(buffers).expect("bytes in memory are read");
                IoSliceMut::advance_slices(&mut buffers, count);
                done += piece.len() as u64;
            }
            Ok(done as usize)
        })
    }
}

fn object(meta: &ObjectMeta) -> Object {
    let modified = Time { seconds: meta.last_modified.timestamp(), nanoseconds: 0 };
    let tag = meta.e_tag.clone().filter(|tag| !tag.is_empty());
    Object { size: meta.size, modified, tag }
}

fn is_same(meta: &ObjectMeta, expected: &Object) -> bool {
    let found = object(meta);
    let is_tag_same = match (&found.tag, &expected.tag) {
        (Some(found), Some(expected)) => plain_tag(found) == plain_tag(expected),
        _ => found.modified == expected.modified,
    };
    is_tag_same && found.size == expected.size
}

fn errno(fault: &Fault, scheme: Scheme) -> Errno {
    use object_store::Error;
    match fault {
        Fault::Changed => Errno::STALE,
        Fault::Late => Errno::TIMEDOUT,
        Fault::Odd(_) => Errno::IO,
        Fault::Store(error) => match error {
            Error::NotFound { .. } => Errno::NOENT,
            Error::Precondition { .. } | Error::NotModified { .. } => Errno::STALE,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Errno::ACCESS,
            Error::NotSupported { .. } | Error::NotImplemented { .. } => Errno::OPNOTSUPP,
            error if matches!(scheme, Scheme::Http | Scheme::Https) && does_not_list(error) => {
                Errno::OPNOTSUPP
            }
            _ => Errno::IO,
        },
    }
}

/// Whether a server says that it knows no `PROPFIND`: the crate keeps the status to itself.
fn does_not_list(error: &object_store::Error) -> bool {
    let text = error.to_string();
    text.contains("PROPFIND")
        && ["code: 405", "code: 501", "code: 400", "code: 415", "decoding PROPFIND"]
            .iter()
            .any(|sign| text.contains(sign))
}

/// What went wrong in one short line. Queries of addresses can be credentials.
fn reason(fault: &Fault) -> String {
    let text = match fault {
        Fault::Changed => "the object changed".to_owned(),
        Fault::Odd(what) => format!("the answer has {what}"),
        Fault::Late => "no answer in time".to_owned(),
        Fault::Store(error) => {
            let mut cause: &dyn std::error::Error = error;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            cause.to_string()
        }
    };
    let words = text.split_whitespace().map(|word| match word.split_once('?') {
        Some((address, _)) if address.contains("://") => format!("{address}?..."),
        _ => word.to_owned(),
    });
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect()
}

type Built = (Arc<dyn ObjectStore>, String, bool);

fn build(address: &StoreAddress, options: &StoreOptions, left_out: &Arc<LeftOut>) -> Result<Built, String> {
    let connector = || Connector(Arc::clone(left_out));
    let retry = RetryConfig {
        backoff: BackoffConfig { max_backoff: PAUSE_MAX, ..BackoffConfig::default() },
        max_retries: options.retries as usize,
        retry_timeout: options.timeout,
    };
    // An attempt that is stuck leaves time for others.
    let attempt = options.timeout / options.retries.clamp(1, 3);
    let milliseconds = |time: Duration| format!("{} ms", time.as_millis().max(1));
    let limits = [
        (ClientConfigKey::Timeout, milliseconds(attempt)),
        (ClientConfigKey::ConnectTimeout, milliseconds(attempt.min(CONNECT_TIMEOUT))),
    ];
    let bucket = &address.bucket;
    let failed = |error: object_store::Error| reason(&Fault::Store(error));
    match address.scheme {
        Scheme::Memory => Ok((Arc::new(InMemory::new()), String::new(), true)),
        Scheme::S3 => {
            let builder = AmazonS3Builder::from_env()
                .with_http_connector(connector())
                .with_bucket_name(bucket)
                .with_retry(retry);
            let settings =
                (&options.credentials, limits.map(|(key, value)| (AmazonS3ConfigKey::Client(key), value)));
            let (mut builder, is_given) = configured(builder, settings, AmazonS3Builder::with_config)?;
            let value = |key| builder.get_config_value(&key);
            let endpoint = value(AmazonS3ConfigKey::Endpoint);
            let is_known = is_given
                || value(AmazonS3ConfigKey::AccessKeyId).is_some()
                || is_on(value(AmazonS3ConfigKey::SkipSignature))
                || std::env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_some();
            let (id, secret) =
                (value(AmazonS3ConfigKey::AccessKeyId), value(AmazonS3ConfigKey::SecretAccessKey));
            if id.is_some() != secret.is_some() {
                let mut names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
                names.rotate_left(usize::from(id.is_some()));
                return Err(format!("{} is missing: {} was given without it", names[0], names[1]));
            }
            if endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://")) {
                builder = builder.with_allow_http(true);
            }
            let store = builder.build().map_err(failed)?;
            Ok((Arc::new(store), endpoint.unwrap_or_default(), is_known))
        }
        Scheme::Gcs => {
            let builder = GoogleCloudStorageBuilder::from_env()
                .with_http_connector(connector())
                .with_bucket_name(bucket)
                .with_retry(retry);
            let settings =
                (&options.credentials, limits.map(|(key, value)| (GoogleConfigKey::Client(key), value)));
            let (mut builder, _) = configured(builder, settings, GoogleCloudStorageBuilder::with_config)?;
            if builder.get_config_value(&GoogleConfigKey::BaseUrl).is_none()
                && let Some(emulator) = google_emulator()
            {
                builder = builder.with_config(GoogleConfigKey::BaseUrl, emulator);
            }
            let value = |key| builder.get_config_value(&key);
            let server = value(GoogleConfigKey::BaseUrl).unwrap_or_default();
            let is_known = is_on(value(GoogleConfigKey::SkipSignature))
                || GOOGLE_CREDENTIALS.into_iter().any(|key| value(key).is_some());
            let store = builder.build().map_err(|error| {
                format!(
                    "{}; expected what Google gives for a service account in GOOGLE_SERVICE_ACCOUNT=FILE",
                    failed(error)
                )
            })?;
            Ok((Arc::new(store), server, is_known))
        }
        Scheme::Azure => {
            let builder = MicrosoftAzureBuilder::from_env()
                .with_http_connector(connector())
                .with_container_name(bucket)
                .with_retry(retry);
            let settings =
                (&options.credentials, limits.map(|(key, value)| (AzureConfigKey::Client(key), value)));
            let (mut builder, _) = configured(builder, settings, MicrosoftAzureBuilder::with_config)?;
            let value = |key| builder.get_config_value(&key);
            let endpoint = value(AzureConfigKey::Endpoint).unwrap_or_default();
            let account = value(AzureConfigKey::AccountName).unwrap_or_default();
            let switches =
                [AzureConfigKey::SkipSignature, AzureConfigKey::UseEmulator, AzureConfigKey::UseAzureCli];
            let is_known = switches.into_iter().any(|key| is_on(value(key)))
                || AZURE_CREDENTIALS.into_iter().any(|key| value(key).is_some());
            if endpoint.starts_with("http://") {
                builder = builder.with_allow_http(true);
            }
            let store = builder.build().map_err(|error| {
                let reason = failed(error);
                let reason = reason.trim_end_matches('.');
                format!(
                    "{reason}; expected AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY in base64"
                )
            })?;
            Ok((Arc::new(store), format!("{account} {endpoint}"), is_known))
        }
        Scheme::Http | Scheme::Https => {
            let url = format!("{}://{bucket}", address.scheme);
            let mut builder = HttpBuilder::new().with_url(url).with_retry(retry);
            if let Some(headers) = authorization(&options.credentials)? {
                let options = object_store::ClientOptions::new().with_default_headers(headers);
                builder = builder.with_client_options(options);
            }
            for (key, value) in limits {
                builder = builder.with_config(key, value);
            }
            builder = builder.with_config(ClientConfigKey::AllowHttp, "true");
            Ok((Arc::new(builder.build().map_err(failed)?), String::new(), true))
        }
    }
}

/// A builder told the user's settings and then ours, and whether there was one of the user's.
fn configured<B, K: FromStr>(
    mut builder: B,
    (credentials, ours): (&Credentials, [(K, String); 2]),
    with: impl Fn(B, K, String) -> B,
) -> Result<(B, bool), String> {
    for (name, value) in &credentials.settings {
        let key = name.to_ascii_lowercase().parse::<K>().map_err(|_| {
            format!("setting {name:?}: expected one that this kind of store knows, such as AWS_ACCESS_KEY_ID")
        })?;
        builder = with(builder, key, value.clone());
    }
    builder = ours.into_iter().fold(builder, |builder, (key, value)| with(builder, key, value));
    Ok((builder, !credentials.is_empty()))
}

const GOOGLE_CREDENTIALS: [GoogleConfigKey; 4] = [
    GoogleConfigKey::ServiceAccount,
    GoogleConfigKey::ServiceAccountKey,
    GoogleConfigKey::ApplicationCredentials,
    GoogleConfigKey::BearerToken,
];

const AZURE_CREDENTIALS: [AzureConfigKey; 5] = [
    AzureConfigKey::AccessKey,
    AzureConfigKey::SasKey,
    AzureConfigKey::Token,
    AzureConfigKey::ClientSecret,
    AzureConfigKey::FederatedTokenFile,
];

fn is_on(setting: Option<String>) -> bool {
    setting.is_some_and(|word| matches!(word.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on"))
}

/// Where Google's own tools look for a server that imitates theirs.
fn google_emulator() -> Option<String> {
    let place = std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|place| !place.is_empty())?;
    let place = place.trim_end_matches('/');
    Some(if place.contains("://") { place.to_owned() } else { format!("http://{place}") })
}

/// The header with the credentials.
fn authorization(credentials: &Credentials) -> Result<Option<http::HeaderMap>, String> {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &credentials.settings {
        if name != "HTTP_AUTHORIZATION" {
            return Err(format!("setting {name:?}: expected HTTP_AUTHORIZATION"));
        }
        let mut value = http::HeaderValue::from_str(value)
            .map_err(|_| "setting HTTP_AUTHORIZATION: expected what can stand in a header".to_owned())?;
        value.set_sensitive(true);
        headers.insert(http::header::AUTHORIZATION, value);
    }
    Ok((!headers.is_empty()).then_some(headers))
}
