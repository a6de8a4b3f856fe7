//! Passwords of tier servers, and which of them is told which.

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

/// One for all was not enough where two servers have different owners.
#[test]
fn servers_with_different_passwords_are_told_their_own() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let origin = place.data().display().to_string();
    let file = |name: &str, password: &str| secret_file(&place, name, password);
    let (one, two) = (file("one", "an0ther"), file("two", SECRET));
    let first = TierServer::start(&place, &["--password-file", &one]);
    let second = TierServer::start(&place, &["--password-file", &two]);
    let (far, near) = (format!("127.0.0.1:{}", first.port), format!("127.0.0.1:{}", second.port));
    let (tier, other) = (format!("redis://{near},8M"), format!("redis://{far},8M"));
    let tiers = ["--tier", tier.as_str(), "--tier", other.as_str()];
    let of = |server: &str, file: &str| format!("{server}={file}");
    let (of_first, of_second) = (of(&far, &one), of(&format!("localhost:{}", second.port), &two));
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
    let origin = place.data().display().to_string();
    let file = secret_file(&place, "password", SECRET);
    let server = TierServer::start(&place, &["--password-file", &file]);
    let tier = format!("redis://127.0.0.1:{},8M", server.port);
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
            let words = [&["--tier", tier.as_str()], more].concat();
            let output = place.mount(&origin, &words, environment);
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
