//! Senseless settings, and servers that do not answer.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::place::{Environment, Place};

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", silent.local_addr().unwrap());
    let brief = ["--origin-timeout", "1000", "--origin-retries", "1"];
    let nobody = [("AWS_ENDPOINT", "http://127.0.0.1:1"), ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")];
    let cases: [(&str, Environment, i32, &str); 9] = [
        ("ftp://host/x", &[], 2, "origin scheme \"ftp\""),
        ("s3://", &[], 2, "expected"),
        ("s3://me:s3cret@bucket/", &[], 2, "--origin-credentials"),
        ("http://127.0.0.1:1/?token=s3cret", &[], 2, "nothing after the path"),
        ("s3://bucket", &nobody, 1, "AWS_ACCESS_KEY_ID"),
        ("az://container", &[], 1, "AZURE_STORAGE_ACCOUNT_NAME"),
        ("http://127.0.0.1:1/x", &[], 1, "origin http://127.0.0.1:1/x: "),
        (&silent, &[], 1, "origin http://127.0.0.1:"),
        ("redis://127.0.0.1:1", &[], 2, "origin scheme \"redis\""),
    ];
    for (origin, environment, status, words) in cases {
        let start = Instant::now();
        let output = place.mount(origin, &brief, environment);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{origin}: {err}");
        assert!(err.contains(words) && !err.contains("s3cret"), "{origin}: {err}");
        assert_eq!(err.trim_end().lines().count(), 1, "{origin}: {err}");
        assert!(start.elapsed() < Duration::from_secs(5), "{origin}: {:?}", start.elapsed());
    }
}
