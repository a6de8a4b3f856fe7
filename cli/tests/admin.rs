//! The page of the daemon, in a browser, and what it tells to which user. Needs root; says why when
//! it cannot run.

#![cfg(all(feature = "network", feature = "top"))]

mod place;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pantler_rig::eventually;
use place::{Daemon, Place, quote_rights, uncached_file};
use serde_json::{Value, json};

/// One test at a time: each start removes what a killed daemon left, also that of another test.
static SERIAL: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A daemon that steers, and the address of its page.
fn daemon(place: &Place) -> (Daemon, String) {
    daemon_at(place, "127.0.0.1:0")
}

fn daemon_at(place: &Place, address: &str) -> (Daemon, String) {
    let (daemon, said) = Daemon::start(place, "16M", &["--admin", address]);
    let page = said.iter().find_map(|line| line.split_once("page at http://"));
    let page = page.expect("a page").1.trim_end_matches('/').to_owned();
    (daemon, page)
}

/// Asks with this user's rights, by the words that a browser would use.
fn asked(uid: u32, address: &str, path: &str, host: &str) -> String {
    let (machine, port) = address.rsplit_once(':').unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/{machine}/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3; cat <&3"
    );
    let user = format!("--reuid={uid}");
    let mut command = Command::new("setpriv");
    command.args([&user, "--regid=65534", "--clear-groups", "bash", "-c", &script]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn data(answer: &str) -> Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// Protects users from each other: the kernel says whose a connection is, and each is told what is
/// hers.
#[test]
fn each_user_is_told_what_is_hers() {
    let _turn = turn();
    let Some(place) = Place::new() else { return };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let read = uncached_file(folder.path(), "secret-file", 1);
    let (_daemon, page) = daemon(&place);
    place.ok(&["run", "--owner-name", "secret-owner", "--", "cat", read.to_str().unwrap()]);

    quote_rights(
        "The page of the daemon shows root and the user of the daemon all, and others only counters of owners that are theirs.",
    );
    let of_root = data(&asked(0, &page, "/data?by=file", "localhost"));
    assert_eq!((of_root["uid"].as_u64(), of_root["kind"].as_str()), (Some(0), Some("admin")));
    let bodies = of_root["bodies"].to_string();
    assert!(bodies.contains("secret-owner") && bodies.contains("secret-file"), "{bodies}");
    let of_other = data(&asked(65_534, &page, "/data?by=file", "localhost"));
    assert_eq!(of_other["uid"], 65_534);
    assert_eq!((&of_other["bodies"], &of_other["top"]), (&json!([]), &Value::Null), "{of_other}");
    assert!(!of_other.to_string().contains("secret"), "{of_other}");

    // The same numbers as those of the command.
    let stat: Value = serde_json::from_str(&place.ok(&["stat", "page-cache", "--json"])).unwrap();
    assert_eq!(of_root["bodies"][0]["owners"], stat["owners"]);

    quote_rights(
        "The page tells others neither paths nor the daemon's process, and of what owners took from each other only what went between owners of theirs.",
    );
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = place.command(&["run", "--owner-name", "mine", "--", "cat", read.to_str().unwrap()]);
    run.env("SUDO_UID", "65534").env("SUDO_GID", "65534").stdout(Stdio::null());
    assert!(run.status().unwrap().success());
    let mut of_other = Value::Null;
    eventually("the owner is told to its user", || {
        of_other = data(&asked(65_534, &page, "/data", "localhost"));
        of_other["bodies"][0]["owners"][0]["owner"] == "mine"
    });
    let body = &of_other["bodies"][0]["body"];
    assert_eq!(
        (&body["pid"], &body["mount_point"], &body["origin"]),
        (&json!(0), &Value::Null, &Value::Null)
    );
    assert_eq!(of_other["bodies"][0]["owners"].as_array().unwrap().len(), 1, "{of_other}");
    assert!(!of_other.to_string().contains("secret"), "{of_other}");

    quote_rights(
        "A browser that asks for data on behalf of another site's page is refused; a link there may open the page.",
    );
    let site = |path: &str, words: &str| {
        let answer = asked(0, &page, path, &format!("localhost\\r\\nSec-Fetch-Site: {words}"));
        answer.lines().next().unwrap_or_default().to_owned()
    };
    for foreign in ["cross-site", "same-site", "none\\r\\nSec-Fetch-Site: cross-site"] {
        assert!(site("/data", foreign).contains(" 403 "), "{foreign}");
        assert!(
            site("/data", &format!("{foreign}\\r\\nSec-Fetch-Mode: navigate")).contains(" 403 "),
            "{foreign}"
        );
        assert!(site("/", foreign).contains(" 403 "), "{foreign}");
    }
    assert!(site("/data", "same-origin").contains(" 200 ") && site("/", "none").contains(" 200 "));
    assert!(site("/", "cross-site\\r\\nSec-Fetch-Mode: navigate").contains(" 200 "));

    quote_rights(
        "The page is refused to a browser that asks by another name than this machine's, and at other addresses than those of loopback the daemon does not start.",
    );
    let foreign = asked(0, &page, "/data", "evil.example");
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    assert!(asked(0, &page, "/metrics", "localhost").starts_with("HTTP/1.1 404 "));
    let refused = place.pantler(&["daemon", "--admin", "0.0.0.0:7070"]);
    let err = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() != Some(0), "{err}");

    // What no request is, and what is silent, holds nothing up.
    let mut nonsense = std::net::TcpStream::connect(&page).unwrap();
    nonsense.write_all(&[0xff; 4096]).unwrap();
    let _silent: Vec<_> = (0..12).map(|_| std::net::TcpStream::connect(&page).unwrap()).collect();
    assert_eq!(data(&asked(0, &page, "/data", "[::1]:9"))["uid"], 0);
}

/// Protects users from one that takes all connections: it keeps those of its own.
#[test]
fn one_user_cannot_take_the_page_from_others() {
    let _turn = turn();
    let Some(place) = Place::new() else { return };
    // By an address of its own, which is a name of this machine then.
    let (_daemon, page) = daemon_at(&place, "127.0.0.2:0");
    quote_rights(
        "A user has 16 connections to the page at a time, and 16 are for root alone; further ones are closed.",
    );
    let (machine, port) = page.rsplit_once(':').unwrap();
    assert_eq!(machine, "127.0.0.2");
    let script = format!(
        "for n in {{1..64}}; do exec {{fd}}<>/dev/tcp/{machine}/{port}; done; echo all; read -r line"
    );
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", &script]);
    let mut crowd = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(crowd.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let _crowd = Program(crowd);
    // Silent connections are closed after 30 s.
    let begun = std::time::Instant::now();
    assert_eq!(data(&asked(0, &page, "/data", &page))["uid"], 0);
    assert_eq!(data(&asked(65_533, &page, "/data", "127.0.0.2"))["uid"], 65_533);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Chromium, told what to do over two pipes. It ends with the test.
struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    number: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// `None`, and a line that says why, where there is none.
    fn new() -> Option<Browser> {
        let profile = tempfile::tempdir().unwrap();
        // It takes its orders from descriptor 3, and answers to 4.
        let script = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
            --remote-debugging-pipe --user-data-dir=\"$0\" 3<&0 4>&1 <&- >/dev/null 2>&1";
        if !Command::new("sh")
            .args(["-c", "command -v chromium"])
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
        {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "the page needs chromium");
            eprintln!("skipped: the page needs chromium");
            return None;
        }
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(profile.path()).env("HOME", profile.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Browser { child, to, from, session: String::new(), number: 0, _profile: profile };
        let target = browser.tell("Target.createTarget", json!({ "url": "about:blank" }));
        let words = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session =
            browser.tell("Target.attachToTarget", words)["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    fn tell(&mut self, method: &str, words: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": words });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// What an expression is on the page.
    fn value(&mut self, expression: &str) -> Value {
        let words = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let told = self.tell("Runtime.evaluate", words);
        assert!(told["exceptionDetails"].is_null(), "{expression}: {told}");
        told["result"]["value"].clone()
    }

    fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = if key == "Tab" { 9 } else { 0 };
            let mut words = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if key.len() == 1 && kind == "keyDown" {
                words["text"] = key.into();
            }
            self.tell("Input.dispatchKeyEvent", words);
        }
    }

    fn window(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.tell("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.tell("Emulation.setEmulatedMedia", features);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Before anything of a page: what it would hide.
const WATCH: &str = "window.shifts = 0; window.violations = []; window.bad = 0;
    addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));
    addEventListener('error', (event) => violations.push(event.message));
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) shifts += entry.value; })
        .observe({ type: 'layout-shift', buffered: true });";

/// Protects what the page is for, in a browser: numbers come and go on while it is open, by mouse
/// and by keys, on a phone and in the dark; names are text; nothing jumps.
#[test]
fn the_page_is_live_in_a_browser() {
    let _turn = turn();
    let Some(place) = Place::new() else { return };
    let Some(mut browser) = Browser::new() else { return };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let evil = uncached_file(folder.path(), "<img src=x onerror=bad=1>&lt;b\u{202e}", 2);
    let large = uncached_file(folder.path(), "large", 15);
    let (_daemon, page) = daemon(&place);
    // They read, and are there until the end.
    let run = |owner: &str, words: &[&str], path: &Path| {
        let script = "cat \"$0\" > /dev/null; echo done; read -r line";
        let all = [&["run", "--owner-name", owner], words, &["--", "sh", "-c", script]].concat();
        let mut command = place.command(&all);
        command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = command.spawn().unwrap();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        Program(program)
    };
    let _queries = run("queries", &["--policy", "mru"], &evil);
    browser.window(1100, 1300, "light");
    browser.tell("Page.enable", json!({}));
    browser.tell("Page.addScriptToEvaluateOnNewDocument", json!({ "source": WATCH }));
    browser.tell("Page.navigate", json!({ "url": format!("http://{page}/") }));
    let has = |browser: &mut Browser, text: &str| {
        browser.value("document.body ? document.body.innerText : ''").as_str().unwrap().contains(text)
    };
    eventually("owners and rows are shown", || has(&mut browser, "queries") && has(&mut browser, "total"));

    // What programs do meanwhile is shown without a touch.
    let _backup = run("backup", &[], &large);
    eventually("a new owner is shown", || has(&mut browser, "backup"));
    eventually("what it took is shown", || has(&mut browser, "queries\tbackup\t"));
    assert!(has(&mut browser, "0 mru"), "the priorities of an owner");

    // Names are text.
    assert!(has(&mut browser, "<img src=x onerror=bad=1>&lt;b\\u{202e}"));
    assert_eq!(browser.value("document.images.length + window.bad"), 0);

    // Keys and the focus.
    browser.key("f");
    assert_eq!(
        browser.value("document.querySelector('[data-by=file]').getAttribute('aria-pressed')"),
        "true"
    );
    eventually("rows are files", || browser.value("document.querySelector('#top th').textContent") == "file");
    browser.key("Tab");
    assert_eq!(browser.value("document.activeElement.dataset.by"), "process", "the first stop of Tab");
    browser.key("h");
    let held = browser.value("document.getElementById('state').textContent");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(browser.value("document.getElementById('state').textContent"), held, "held");
    assert_eq!(browser.value("document.activeElement.dataset.by"), "process", "the focus stays");
    browser.key("h");
    browser.key("p");
    eventually("it goes on", || browser.value("document.getElementById('state').textContent") != held);

    let shifts = browser.value("window.shifts").as_f64().unwrap();
    assert!(shifts < 0.1, "the page jumps: {shifts}");
    assert_eq!(browser.value("window.violations"), json!([]));
    if let Some(folder) = std::env::var_os("PANTLER_PICTURES") {
        let picture = browser.tell("Page.captureScreenshot", json!({ "format": "png" }));
        let mut decode = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(Path::new(&folder).join("page.png")).unwrap())
            .spawn()
            .unwrap();
        decode.stdin.take().unwrap().write_all(picture["data"].as_str().unwrap().as_bytes()).unwrap();
        assert!(decode.wait().unwrap().success());
    }

    // A phone, in the dark.
    browser.window(360, 740, "dark");
    assert_eq!(browser.value("matchMedia('(prefers-color-scheme: dark)').matches"), true);
    assert_eq!(browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(20, 23, 27)");
    let width = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
    assert!(width <= 360, "the page is {width} pixels wide");
    let small = "[...document.querySelectorAll('button')].filter((one) => one.getBoundingClientRect().height < 36).length";
    assert_eq!(browser.value(small), 0, "a finger is wider");
}
