//! S3: against moto, which speaks it as Amazon's tools expect it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pantler_rig::{Ready, Server};

use crate::place::{Place, SECRET, can_mount, cannot, secret_file};
use crate::sending::{escaped, send};
use crate::shop::{Shop, is_refused};

/// More than a store lists at once.
const MANY: usize = 1_100;

/// Where `cargo xtask test-python` installs it.
fn moto() -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/environment/bin/moto_server");
    let places = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("moto_server"))
        .collect::<Vec<_>>();
    [ours].into_iter().chain(places).find(|path| path.exists())
}

struct Moto(Server);

impl Moto {
    fn start(program: &Path) -> Option<Self> {
        let words = |port: u16, _: &Path| vec!["-p".to_owned(), port.to_string()];
        Server::start(program, "cargo xtask test-python", Ready::Listens, words).map(Self)
    }

    /// It does not look at signatures, only that there is something like one.
    fn put(&self, path: &str, bytes: &[u8]) {
        let credential = "Credential=me/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x";
        let fields = format!(
            "Content-Type: application/octet-stream\r\nAuthorization: AWS4-HMAC-SHA256 {credential}\r\n"
        );
        send(&self.0, "PUT", path, &fields, bytes);
    }
}

#[test]
fn a_bucket_is_mounted_with_credentials_that_nobody_sees() {
    let Some(program) = moto() else { return cannot("needs moto_server: cargo xtask test-python") };
    if !can_mount() {
        return;
    }
    let Some(moto) = Moto::start(&program) else { return };
    moto.put("/bucket", b"");
    let place = Place::new();
    let endpoint = format!("http://127.0.0.1:{}", moto.0.port());
    let environment =
        [("AWS_ENDPOINT", endpoint.as_str()), ("AWS_ACCESS_KEY_ID", "me"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let text = format!(
        "# for the test\nAWS_ENDPOINT={endpoint}\nAWS_ACCESS_KEY_ID=me\nAWS_SECRET_ACCESS_KEY={SECRET}\n"
    );
    let named = secret_file(&place, "credentials", &text);
    let shop = Shop {
        origin: "s3://bucket/data",
        many: MANY,
        ways: &[(&[], &environment), (&["--origin-credentials", &named], &[])],
        put: &|objects| {
            for (key, bytes) in objects {
                moto.put(&format!("/bucket/{}", escaped(key, "/")), bytes);
            }
        },
    };
    shop.is_like_files(&place);
    fs::set_permissions(&named, PermissionsExt::from_mode(0o644)).unwrap();
    let output = place.mount("s3://bucket/data", &["--origin-credentials", &named], &[]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("0600") && !err.contains(SECRET), "{err}");
    is_refused(&place, "s3://nobucket", &[], &environment, "there is no such bucket");
    is_refused(&place, "s3://bucket/absent", &[], &environment, "there is nothing below that path");
}
