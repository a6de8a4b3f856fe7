//! HTTP/2 and TLS, with hyper's and rustls' own clients.

mod common;

use bytes::Bytes;
use common::{pattern, site};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pantler_web::Tls;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

fn run<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn over_http2(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    let driving = tokio::spawn(connection);
    let ask = |path: &str, field: (&'static str, &'static str)| {
        Request::get(format!("http://x{path}")).header(field.0, field.1).body(Empty::<Bytes>::new()).unwrap()
    };
    let mut answers = Vec::new();
    for (path, field) in [
        ("/large.bin", ("x", "y")),
        ("/hello.txt", ("range", "bytes=0-4")),
        ("/nothing", ("x", "y")),
        ("/large.bin", ("range", "bytes=-100000")),
    ] {
        client.ready().await.unwrap();
        answers.push(client.send_request(ask(path, field)));
    }
    let mut bodies = Vec::new();
    for answer in answers {
        let answer = answer.await.unwrap();
        bodies.push((answer.status(), answer.into_body().collect().await.unwrap().to_bytes()));
    }
    assert!(bodies[0] == (StatusCode::OK, pattern(3 << 20).into()));
    assert_eq!(bodies[1], (StatusCode::PARTIAL_CONTENT, "hello".into()));
    assert_eq!(bodies[2].0, StatusCode::NOT_FOUND);
    assert!(bodies[3].1 == pattern(3 << 20)[(3 << 20) - 100_000..]);
    drop(client);
    driving.await.unwrap().unwrap();
}

#[test]
fn http2_is_spoken_by_prior_knowledge() {
    let site = site(|_| ());
    run(async { over_http2(TcpStream::connect(site.address()).await.unwrap()).await });
}

#[test]
fn http2_and_http1_are_offered_by_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificates, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificates, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let site = site(|options| options.tls = Some(Tls { certificates, key }));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    run(async {
        let connect = async |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            let stream = TcpStream::connect(site.address()).await.unwrap();
            connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
        };
        let two = connect(b"h2").await;
        assert_eq!(two.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        over_http2(two).await;
        let mut one = connect(b"http/1.1").await;
        one.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        one.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello, world\n"), "{answer}");
        // A client without TLS gets an alert at most, and no bytes of files.
        let mut plain = TcpStream::connect(site.address()).await.unwrap();
        plain.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut heard = Vec::new();
        let _ = plain.read_to_end(&mut heard).await;
        assert!(!String::from_utf8_lossy(&heard).contains("hello"));
    });
}

#[test]
fn who_says_nothing_over_tls_holds_up_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificates, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificates, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let site = site(|options| {
        options.tls = Some(Tls { certificates, key });
        options.limits.idle_time = Duration::from_secs(600);
        options.limits.stop_time = Duration::from_secs(120);
    });
    let _silent = std::net::TcpStream::connect(site.address()).unwrap();
    let is_open = || site.metric("connections") == 1;
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_open() {
        assert!(Instant::now() < limit, "it was never accepted");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(site.server.stop(), "it was waited for");
}

#[test]
fn certificates_that_make_no_sense_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (certificates, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificates, "nonsense").unwrap();
    std::fs::write(&key, "nonsense").unwrap();
    let mut options = pantler_web::Options::new(folder.path(), "127.0.0.1:0".parse().unwrap());
    options.tls = Some(Tls { certificates, key });
    let error = pantler_web::Server::start(options).unwrap_err().to_string();
    assert!(error.contains("certificate.pem"), "{error}");
}
