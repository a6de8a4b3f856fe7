//! Static servers for HTTP: nginx, and one that knows no ranges.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pantler_rig::{Ready, Server};

use crate::place::{Place, can_mount};

#[test]
fn files_of_a_static_server_are_read_by_name() {
    if !can_mount() {
        return;
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
    let shown = root.display();
    let http = |port| format!("server {{ listen 127.0.0.1:{port}; root {shown}; }}");
    let Some(server) = pantler_rig::nginx(http) else { return };
    let address = format!("http://127.0.0.1:{}/files", server.port());
    // By LRU what was read last is cached; the default tries orders out.
    let output = place.mount(&address, &["--lookahead", "none", "--policy", "lru"], &[]);
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
    // Times in seconds: what was replaced within two of them is looked at again, and no mixture is
    // read.
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
    if !can_mount() {
        return;
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
