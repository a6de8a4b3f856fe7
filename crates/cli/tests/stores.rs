//! Object stores from the command line: against moto, which speaks S3 as Amazon's tools expect it, and against what is none.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pantler_rig::{Ready, Server, eventually};
use rustix::process::{Pid, Signal, kill_process};

const SECRET: &str = "s3cretAccessKeyOfNobody";
/// More than a store lists at once.
const MANY: usize = 1_100;

/// Variables, and what they are.
type Environment<'a> = &'a [(&'a str, &'a str)];

/// Where `cargo xtask test-python` installs it.
fn moto() -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/environment/bin/moto_server");
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
        let mut stream = TcpStream::connect(self.0.address()).unwrap();
        let credential = "Credential=me/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x";
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\nConnection: close\r\n\
             Content-Type: application/octet-stream\r\nAuthorization: AWS4-HMAC-SHA256 {credential}\r\n\r\n",
            bytes.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mnt")).unwrap();
        Self { folder }
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(words).env("PANTLER_RUNTIME_DIR", self.folder.path().join("run"));
        for (name, _) in std::env::vars_os() {
            if ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null());
        command
    }

    fn mount(&self, origin: &str, more: &[&str], environment: Environment) -> Output {
        let point = self.point().display().to_string();
        let words = [&["mount", origin, &point, "--cache", "16M"], more].concat();
        self.command(&words).envs(environment.iter().copied()).output().unwrap()
    }

    fn umount(&self) {
        let output = self.command(&["umount", &self.point().display().to_string()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Everything that mounts wrote where somebody could read it.
    fn logs(&self) -> String {
        let entries = fs::read_dir(self.folder.path().join("run")).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        files.map(|entry| String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.point(), rustix::mount::UnmountFlags::DETACH);
    }
}

fn cannot(what: &str) {
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "cannot run: {what}");
    eprintln!("skipped: {what}");
}

#[test]
fn a_bucket_is_mounted_with_credentials_that_nobody_sees() {
    let Some(program) = moto() else { return cannot("needs moto_server: cargo xtask test-python") };
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return cannot("mounting needs root and /dev/fuse");
    }
    let Some(moto) = Moto::start(&program) else { return };
    let bytes = (0..3_000_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes());
    let bytes = bytes.take(3_000_000).collect::<Vec<u8>>();
    moto.put("/bucket", b"");
    moto.put("/bucket/data/d/f", &bytes);
    moto.put("/bucket/data/sp%20ace", &bytes);
    moto.put("/bucket/data/empty", b"");
    for number in 0..MANY {
        moto.put(&format!("/bucket/data/many/{number:04}"), number.to_string().as_bytes());
    }
    let place = Place::new();
    let mnt = place.point();
    let endpoint = format!("http://127.0.0.1:{}", moto.0.port());
    let environment = [
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "me"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("PANTLER_LOG", "trace"),
    ];
    let file = place.folder.path().join("credentials");
    let text = format!(
        "# for the test\nAWS_ENDPOINT={endpoint}\nAWS_ACCESS_KEY_ID=me\nAWS_SECRET_ACCESS_KEY={SECRET}\n"
    );
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let named = file.display().to_string();
    let ways: [(&[&str], Environment); 2] =
        [(&[], &environment), (&["--origin-credentials", &named], &[("PANTLER_LOG", "trace")])];
    for (more, environment) in ways {
        let output = place.mount("s3://bucket/data", more, environment);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{err}");
        assert!(
            fs::read(mnt.join("d/f")).unwrap() == bytes && fs::read(mnt.join("sp ace")).unwrap() == bytes
        );
        assert_eq!(fs::read(mnt.join("empty")).unwrap(), b"");
        assert_eq!(fs::read_dir(mnt.join("many")).unwrap().count(), MANY, "listings come in pages");
        assert_eq!(fs::read(mnt.join("many/1099")).unwrap(), b"1099");
        let refused = fs::write(mnt.join("new"), "x").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
        // Replaced behind the mount.
        moto.put("/bucket/data/changes", b"first");
        assert_eq!(fs::read(mnt.join("changes")).unwrap(), b"first");
        moto.put("/bucket/data/changes", b"then");
        std::thread::sleep(Duration::from_millis(1_100));
        assert_eq!(fs::read(mnt.join("changes")).unwrap(), b"then");
        let said =
            [err.into_owned(), String::from_utf8_lossy(&output.stdout).into_owned(), place.logs()].concat();
        assert!(!said.contains(SECRET), "the secret is in a log");
        place.umount();
    }
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let output = place.mount("s3://bucket/data", &["--origin-credentials", &named], &[]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("0600") && !err.contains(SECRET), "{err}");
    for origin in ["s3://nobucket", "s3://bucket/absent"] {
        let output = place.mount(origin, &[], &environment[..3]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("there is no") && err.trim_end().lines().count() == 1, "{origin}: {err}");
    }
}

/// nginx with static files from a folder.
fn nginx(root: &Path) -> Option<Server> {
    let words = |port: u16, folder: &Path| {
        let (at, root) = (folder.display(), root.display());
        let text = format!(
            "daemon off; master_process off; user root; pid {at}/pid; error_log stderr;\n\
             events {{}}\nhttp {{ access_log off; client_body_temp_path {at}/1; proxy_temp_path {at}/2;\n\
             fastcgi_temp_path {at}/3; uwsgi_temp_path {at}/4; scgi_temp_path {at}/5;\n\
             server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
        );
        fs::write(folder.join("nginx.conf"), text).unwrap();
        let folder = folder.display().to_string();
        ["-p", &folder, "-c", "nginx.conf", "-e", "stderr"].map(str::to_owned).to_vec()
    };
    Server::start("/usr/sbin/nginx", "apt-get install nginx-light", Ready::Listens, words)
}

#[test]
fn files_of_a_static_server_are_read_by_name() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return cannot("mounting needs root and /dev/fuse");
    }
    let place = Place::new();
    let root = place.folder.path().join("www");
    fs::create_dir_all(root.join("files/d")).unwrap();
    let bytes = (0..3_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8);
    let bytes = bytes.collect::<Vec<u8>>();
    for name in ["big", "sp ace", "ü", "%41", "a#b", "a?b", "d/below"] {
        let path = root.join("files").join(name);
        fs::write(&path, &bytes).unwrap();
        // What changed just now is not believed for long.
        let old = std::time::SystemTime::now() - Duration::from_secs(3_600);
        fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    fs::write(root.join("files/empty"), b"").unwrap();
    fs::write(root.join("files/changes"), b"first").unwrap();
    fs::write(root.join("secret"), b"s3cret").unwrap();
    let Some(server) = nginx(&root) else { return };
    let address = format!("http://127.0.0.1:{}/files", server.port());
    let output = place.mount(&address, &["--lookahead", "none"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mnt = place.point();
    for name in ["big", "sp ace", "ü", "%41", "a#b", "a?b"] {
        assert!(fs::read(mnt.join(name)).unwrap() == bytes, "{name}");
    }
    assert_eq!(fs::read(mnt.join("empty")).unwrap(), b"");
    for name in ["absent", "..%2fsecret", "%2e%2e", "%2e%2e%2fsecret", "secret"] {
        let error = fs::read(mnt.join(name)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name}: {error}");
    }
    // What is cached is not asked for again.
    let reads = |place: &Place| {
        let output = place.command(&["stat", "--json"]).output().unwrap();
        let stat: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        stat["body_counters"]["origin_reads"].as_u64().unwrap()
    };
    assert!(fs::read(mnt.join("big")).unwrap() == bytes);
    let before = reads(&place);
    assert!(fs::read(mnt.join("big")).unwrap() == bytes);
    assert_eq!(reads(&place), before);
    // Times in seconds: what was replaced within two of them is looked at again, and no mixture is read.
    for text in ["second", "third!", "fourth"] {
        fs::write(root.join("files/changes"), text).unwrap();
        std::thread::sleep(Duration::from_millis(1_100));
        assert_eq!(fs::read(mnt.join("changes")).unwrap(), text.as_bytes());
    }
    drop(server);
    assert!(fs::read(mnt.join("absent too")).is_err());
    place.umount();
}

#[test]
fn a_static_server_without_ranges_gives_an_error_and_no_other_bytes() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return cannot("mounting needs root and /dev/fuse");
    }
    let place = Place::new();
    fs::write(place.folder.path().join("file"), vec![7; 300_000]).unwrap();
    let words = |port: u16, _: &Path| {
        let folder = place.folder.path().display().to_string();
        let port = port.to_string();
        let words = ["-m", "http.server", "--bind", "127.0.0.1", "--directory", &folder, &port];
        words.map(str::to_owned).to_vec()
    };
    let server = Server::start("python3", "apt-get install python3", Ready::Listens, words);
    let Some(server) = server else { return };
    let output =
        place.mount(&format!("http://127.0.0.1:{}/", server.port()), &["--origin-retries", "1"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::metadata(place.point().join("file")).unwrap().len(), 300_000);
    let error = fs::read(place.point().join("file")).unwrap_err();
    println!("without ranges: {error}");
    place.umount();
}

/// A tier server, ended when this is dropped.
struct TierServer {
    child: std::process::Child,
    port: u64,
}

impl TierServer {
    fn start(place: &Place, more: &[&str]) -> Self {
        use std::io::BufRead;
        let words = [&["tier", "serve", "--listen", "127.0.0.1:0", "--memory", "16M"], more].concat();
        let mut child = place.command(&words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let record: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        let port = record["listen"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        Self { child, port }
    }
}

impl Drop for TierServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_tier_server_is_mounted_by_who_has_only_its_address_and_password() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return cannot("mounting needs root and /dev/fuse");
    }
    let place = Place::new();
    let (mnt, data) = (place.point(), place.folder.path().join("data"));
    fs::create_dir_all(data.join("d")).unwrap();
    let bytes = (0..700_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    fs::write(data.join("d/f"), &bytes).unwrap();
    std::os::unix::fs::symlink("f", data.join("d/link")).unwrap();
    let file = place.folder.path().join("password");
    fs::write(&file, SECRET).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let (file, data) = (file.display().to_string(), data.display().to_string());
    let server = TierServer::start(&place, &["--origin", &data, "--password-file", &file]);
    let plain = TierServer::start(&place, &[]);
    let address = format!("tier://127.0.0.1:{}", server.port);
    let tier = format!("redis://127.0.0.1:{},8M", server.port);
    let ways: [(&[&str], Environment); 3] = [
        (&["--tier-password-file", &file], &[("PANTLER_LOG", "trace")]),
        (&[], &[("PANTLER_TIER_PASSWORD", SECRET), ("PANTLER_LOG", "trace")]),
        (&["--tier-password-file", &file, "--tier", &tier], &[]),
    ];
    for (more, environment) in ways {
        let output = place.mount(&address, more, environment);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{err}");
        assert!(
            fs::read(mnt.join("d/f")).unwrap() == bytes && fs::read(mnt.join("d/link")).unwrap() == bytes
        );
        assert_eq!(fs::read_dir(mnt.join("d")).unwrap().count(), 2);
        let refused = fs::write(mnt.join("new"), "x").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
        let said =
            [err.into_owned(), String::from_utf8_lossy(&output.stdout).into_owned(), place.logs()].concat();
        assert!(!said.contains(SECRET), "the password is in a log");
        place.umount();
    }
    // A part of it.
    let output = place.mount(&format!("{address}/d"), &["--tier-password-file", &file], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(mnt.join("f")).unwrap() == bytes);
    place.umount();
    let none = format!("tier://127.0.0.1:{}", plain.port);
    let cases: [(&str, &[&str], i32, &str); 4] = [
        (&none, &[], 1, "start it with --origin"),
        (&address, &[], 1, "NOAUTH"),
        (&format!("{address}/absent"), &["--tier-password-file", &file], 1, "nothing below that path"),
        (&address, &["--tier-password-file", &file, "--tier-origin", "x"], 2, "--tier-origin"),
    ];
    for (origin, more, status, words) in cases {
        let output = place.mount(origin, more, &[]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{origin}: {err}");
        assert!(err.contains(words) && err.trim_end().lines().count() == 1, "{origin}: {err}");
    }
}

/// Where a password is, for oneself alone.
fn password_file(place: &Place, name: &str, password: &str) -> String {
    let file = place.folder.path().join(name);
    fs::write(&file, password).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    file.display().to_string()
}

#[test]
fn a_server_over_a_server_takes_the_password_of_that_from_a_file() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return cannot("mounting needs root and /dev/fuse");
    }
    let place = Place::new();
    let data = place.folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("f"), vec![9; 300_000]).unwrap();
    let (far, near) = (password_file(&place, "far", SECRET), password_file(&place, "near", "another"));
    let first =
        TierServer::start(&place, &["--origin", &data.display().to_string(), "--password-file", &far]);
    let address = format!("tier://127.0.0.1:{}", first.port);
    let second = TierServer::start(
        &place,
        &["--origin", &address, "--origin-password-file", &far, "--password-file", &near],
    );
    let over = format!("tier://127.0.0.1:{}", second.port);
    let output = place.mount(&over, &["--tier-password-file", &near], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(place.point().join("f")).unwrap() == vec![9; 300_000]);
    place.umount();
    // The variable has the server's own password, and is nobody's else.
    let serve = ["tier", "serve", "--listen", "127.0.0.1:0", "--memory", "16M", "--origin"];
    let cases: [(&[&str], Environment, i32, &str); 4] = [
        (&[&address], &[("PANTLER_TIER_PASSWORD", SECRET)], 1, "NOAUTH"),
        (&[&address, "--origin-password-file", &near], &[], 1, "WRONGPASS"),
        (&[&address, "--origin-password-file", "/nowhere"], &[], 1, "/nowhere"),
        (&["/tmp", "--origin-password-file", &far], &[], 2, "expected a tier server as origin"),
    ];
    for (more, environment, status, words) in cases {
        let mut command = place.command(&[&serve, more].concat());
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{more:?}: {err}");
        let is_one_line = err.trim_end().lines().count() == 1;
        assert!(err.contains(words) && is_one_line && !err.contains(SECRET), "{more:?}: {err}");
    }
}

/// A daemon that ends with the test.
struct Daemon(std::process::Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn a_daemon_has_the_password_of_its_own_environment_and_is_given_no_others() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return cannot("mounting needs root and /dev/fuse");
    }
    let place = Place::new();
    let data = place.folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("f"), vec![9; 300_000]).unwrap();
    let file = password_file(&place, "password", SECRET);
    let server =
        TierServer::start(&place, &["--origin", &data.display().to_string(), "--password-file", &file]);
    let address = format!("tier://127.0.0.1:{}", server.port);
    let secret = [("PANTLER_TIER_PASSWORD", SECRET)];
    // One that knows a password by its own environment, and one that knows none.
    for known in [&secret[..], &[]] {
        let mut command = place.command(&["daemon"]);
        let daemon = Daemon(command.envs(known.iter().copied()).stderr(Stdio::null()).spawn().unwrap());
        let socket = place.folder.path().join("run/control.sock");
        eventually("the daemon listens", || socket.exists());
        let ways: [(&[&str], Environment, bool); 3] = [
            (&["--tier-password-file", &file], &[], true),
            // Of who asks: then the daemon is not asked.
            (&[], &secret, true),
            // Of the daemon, if it has one.
            (&[], &[], !known.is_empty()),
        ];
        for (more, environment, is_mounted) in ways {
            let output = place.mount(&address, more, environment);
            let err = String::from_utf8_lossy(&output.stderr);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.success(), is_mounted, "{more:?} {environment:?} {known:?}: {err}");
            assert!(!said.contains(SECRET) && !err.contains(SECRET));
            if !is_mounted {
                assert!(err.contains("NOAUTH"), "{err}");
                continue;
            }
            assert!(fs::read(place.point().join("f")).unwrap() == vec![9; 300_000]);
            let by_daemon = said.contains(&format!("\"pid\":{}", daemon.0.id()));
            assert_eq!(by_daemon, environment.is_empty(), "{said}");
            place.umount();
        }
        drop(daemon);
        assert!(!socket.exists());
    }
    assert!(!place.logs().contains(SECRET), "the password is in a log");
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", silent.local_addr().unwrap());
    let brief = ["--origin-timeout", "1000", "--origin-retries", "1"];
    let nobody = [("AWS_ENDPOINT", "http://127.0.0.1:1"), ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")];
    let port = silent.trim_start_matches("http://").trim_end_matches('/');
    let silent_tier = format!("tier://{port}");
    let cases: [(&str, Environment, i32, &str); 13] = [
        ("ftp://host/x", &[], 2, "origin scheme \"ftp\""),
        ("s3://", &[], 2, "expected"),
        ("s3://me:s3cret@bucket/", &[], 2, "--origin-credentials"),
        ("http://127.0.0.1:1/?token=s3cret", &[], 2, "nothing after the path"),
        ("s3://bucket", &nobody, 1, "AWS_ACCESS_KEY_ID"),
        ("az://container", &[], 1, "AZURE_STORAGE_ACCOUNT_NAME"),
        ("http://127.0.0.1:1/x", &[], 1, "origin http://127.0.0.1:1/x: "),
        (&silent, &[], 1, "origin http://127.0.0.1:"),
        ("tier://", &[], 2, "expected tier://HOST:PORT"),
        ("tier://me:s3cret@host", &[], 2, "--tier-password-file"),
        ("redis://127.0.0.1:1", &[], 2, "tier://HOST:PORT"),
        ("tier://127.0.0.1:1", &[], 1, "origin tier://127.0.0.1:1: "),
        (&silent_tier, &[], 1, "no answer within 1000 ms"),
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
