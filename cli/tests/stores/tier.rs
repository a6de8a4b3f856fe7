//! Tier servers as origins.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use pantler_rig::eventually;
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{DATA, Environment, Place, SECRET, can_mount, secret_file};

/// A tier server, ended when this is dropped.
struct TierServer {
    child: std::process::Child,
    port: u64,
}

impl TierServer {
    fn start(place: &Place, more: &[&str]) -> Self {
        use std::io::BufRead;
        let words =
            [&["tier", "serve", "--json", "--listen", "127.0.0.1:0", "--memory", "16M"], more].concat();
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
    if !can_mount() {
        return;
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

/// One for all was not enough where two servers have different owners.
#[test]
fn servers_with_different_passwords_are_told_their_own() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let file = |name: &str, password: &str| secret_file(&place, name, password);
    let (one, two) = (file("one", "an0ther"), file("two", SECRET));
    let first =
        TierServer::start(&place, &["--origin", &data.display().to_string(), "--password-file", &one]);
    let second = TierServer::start(&place, &["--password-file", &two]);
    let (origin, near) = (format!("tier://127.0.0.1:{}", first.port), format!("127.0.0.1:{}", second.port));
    let (tier, far) = (format!("redis://{near},8M"), format!("redis://127.0.0.1:{},8M", first.port));
    let tiers = ["--tier", tier.as_str(), "--tier", far.as_str()];
    let of = |server: &str, file: &str| format!("{server}={file}");
    let (of_first, of_second) = (of(&origin[7..], &one), of(&format!("localhost:{}", second.port), &two));
    for words in [[&one, &of_second], [&of_first, &two], [&of_first, &of_second]] {
        let words =
            [&tiers[..], &["--tier-password-file", words[0], "--tier-password-file", words[1]]].concat();
        // A server with a password of its own is not told that of the environment.
        let output =
            place.mount(&origin, &words, &[("PANTLER_TIER_PASSWORD", "wr0ng"), ("PANTLER_LOG", "trace")]);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {err}");
        assert!(fs::read(place.point().join("f")).unwrap() == DATA);
        let said = [err, String::from_utf8_lossy(&output.stdout).into_owned(), place.logs()].concat();
        assert!(!said.contains(SECRET) && !said.contains("an0ther"), "a password is in a log");
        place.umount();
    }
    fs::set_permissions(&two, PermissionsExt::from_mode(0o640)).unwrap();
    let cases: [(&[&str], i32, &str); 4] = [
        (&[&of_first, &of_second], 2, "expected mode 0600"),
        (&[&of_first, "127.0.0.1:1=/x"], 2, "expected a server of this mount"),
        (&[&one, &one], 2, "expected one for all servers"),
        (&[&of_first, &of(&near, &one)], 1, "WRONGPASS"),
    ];
    for (words, status, expected) in cases {
        let words = words.iter().flat_map(|word| ["--tier-password-file", word]);
        let words: Vec<&str> = tiers.into_iter().chain(words).collect();
        let output = place.mount(&origin, &words, &[]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {err}");
        assert!(err.contains(expected) && err.trim_end().lines().count() == 1, "{words:?}: {err}");
    }
}

#[test]
fn a_server_over_a_server_takes_the_password_of_that_from_a_file() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let (far, near) = (secret_file(&place, "far", SECRET), secret_file(&place, "near", "another"));
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
    assert!(fs::read(place.point().join("f")).unwrap() == DATA);
    place.umount();
    // The variable has the server's own password, and no other's.
    let serve = ["tier", "serve", "--json", "--listen", "127.0.0.1:0", "--memory", "16M", "--origin"];
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
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let file = secret_file(&place, "password", SECRET);
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
            // Of the command: then the daemon is not asked.
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
            assert!(fs::read(place.point().join("f")).unwrap() == DATA);
            let by_daemon = said.contains(&format!("\"pid\":{}", daemon.0.id()));
            assert_eq!(by_daemon, environment.is_empty(), "{said}");
            place.umount();
        }
        drop(daemon);
        assert!(!socket.exists());
    }
    assert!(!place.logs().contains(SECRET), "the password is in a log");
}
