//! The rules of a static file server, over real sockets.

mod common;

use common::{pattern, site};
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

#[test]
fn files_are_served_with_what_names_them() {
    let site = site(|_| ());
    let answer = site.get("/hello.txt");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello, world\n"));
    assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.field("content-length"), Some("13"));
    assert_eq!(answer.field("last-modified"), Some("Sun, 09 Sep 2001 01:46:40 GMT"));
    assert_eq!(answer.field("accept-ranges"), Some("bytes"));
    assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
    assert!(answer.field("etag").unwrap().starts_with('"') && answer.field("date").is_some());
    let head = site.ask("HEAD", "/hello.txt", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["content-type", "content-length", "last-modified", "etag"] {
        assert_eq!(head.field(name), answer.field(name), "{name}");
    }
    assert_eq!(site.get("/large.bin").body, pattern(3 << 20));
    let empty = site.get("/empty");
    assert_eq!((empty.status, empty.field("content-length")), (200, Some("0")));
}

#[test]
fn methods_are_told_apart() {
    let site = site(|_| ());
    let options = site.ask("OPTIONS", "/hello.txt", "");
    assert_eq!((options.status, options.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
    assert_eq!(site.ask("OPTIONS", "*", "").status, 204);
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "FOO"] {
        let answer = site.ask(method, "/hello.txt", "");
        assert_eq!((answer.status, answer.field("allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
    }
}

#[test]
fn directories_have_an_index_or_nothing() {
    let plain = site(|_| ());
    assert_eq!(plain.get("/d/").text(), "<p>index</p>");
    let moved = plain.get("/d?x=1");
    assert_eq!((moved.status, moved.field("location")), (301, Some("/d/?x=1")));
    assert_eq!(plain.get("/plain/").status, 404);
    assert_eq!(plain.get("/").status, 404);
    assert_eq!(plain.get("/hello.txt/").status, 404);
    assert_eq!(plain.get("/hello.txt/x").status, 404);
    // A doubled slash must not become the name of a host.
    assert_eq!(plain.get("//d").field("location"), Some("/d/"));
    let named = site(|options| options.index = vec!["b.txt".into(), "a b.txt".into(), "index.html".into()]);
    assert_eq!((named.get("/plain/").text(), named.get("/d/").text()), ("a b".into(), "<p>index</p>".into()));
    fs::write(named.path("d/a b.txt"), "before").unwrap();
    assert_eq!(named.get("/d/").text(), "before", "the first name that is there");
}

#[test]
fn nothing_outside_of_the_root_is_served() {
    let site = site(|_| ());
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "outside").unwrap();
    symlink(outside.path(), site.path("absolute")).unwrap();
    symlink("../../../../../../../../etc/passwd", site.path("up")).unwrap();
    symlink("/proc/self/root/etc/passwd", site.path("magic")).unwrap();
    symlink("hello.txt", site.path("inside")).unwrap();
    symlink("loop", site.path("loop")).unwrap();
    assert_eq!(site.get("/inside").text(), "hello, world\n");
    for path in ["/absolute", "/up", "/magic", "/loop"] {
        assert_eq!(site.get(path).status, 403, "{path}");
    }
    assert_eq!(site.get("/.secret").status, 404);
    let hidden = common::site(|options| options.hidden = true);
    assert_eq!(hidden.get("/.secret").text(), "secret");
}

#[test]
fn conditions_hold_over_the_wire() {
    let site = site(|_| ());
    let etag = site.get("/hello.txt").field("etag").unwrap().to_owned();
    let at = "Sun, 09 Sep 2001 01:46:40 GMT";
    let before = "Sun, 09 Sep 2001 01:46:39 GMT";
    for (fields, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: W/{etag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {at}\r\n"), 200),
        (format!("If-Modified-Since: {at}\r\n"), 304),
        (format!("If-Modified-Since: {before}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        (format!("If-Match: {etag}\r\n"), 200),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Unmodified-Since: {before}\r\n"), 412),
        (format!("If-Unmodified-Since: {at}\r\n"), 200),
        (format!("Range: bytes=0-4\r\nIf-Range: {etag}\r\n"), 206),
        ("Range: bytes=0-4\r\nIf-Range: \"x\"\r\n".to_owned(), 200),
        (format!("Range: bytes=0-4\r\nIf-Range: {at}\r\n"), 206),
        (format!("Range: bytes=0-4\r\nIf-Range: {before}\r\n"), 200),
        (format!("Range: bytes=99-\r\nIf-None-Match: {etag}\r\n"), 304),
        (format!("Range: bytes=99-\r\nIf-Match: {etag}\r\n"), 416),
    ] {
        let answer = site.ask("GET", "/hello.txt", &fields);
        assert_eq!(answer.status, status, "{fields}");
        if status == 304 {
            assert_eq!(answer.field("etag"), Some(etag.as_str()));
            assert_eq!(answer.field("content-length"), None);
        }
    }
}

#[test]
fn ranges_are_cut_out() {
    let site = site(|_| ());
    let all = pattern(3 << 20);
    for (field, start, end) in
        [("0-99", 0, 100), ("1048570-1048590", 1_048_570, 1_048_591), ("-7", (3 << 20) - 7, 3 << 20)]
    {
        let answer = site.ask("GET", "/large.bin", &format!("Range: bytes={field}\r\n"));
        assert_eq!(answer.status, 206);
        let range = format!("bytes {start}-{}/{}", end - 1, 3 << 20);
        assert_eq!(answer.field("content-range"), Some(range.as_str()));
        assert!(answer.body == all[start..end], "{field}");
    }
    let beyond = site.ask("GET", "/hello.txt", "Range: bytes=13-\r\n");
    assert_eq!((beyond.status, beyond.field("content-range")), (416, Some("bytes */13")));
    assert_eq!(site.ask("HEAD", "/hello.txt", "Range: bytes=0-1\r\n").status, 200, "for GET only");
    let several = site.ask("GET", "/hello.txt", "Range: bytes=0-4,-2\r\n");
    assert_eq!((several.status, several.text().as_str()), (200, "hello, world\n"), "one range only");
}

#[test]
fn who_has_bytes_that_could_have_changed_without_showing_it_gets_them_again() {
    let site = site(|_| ());
    fs::write(site.path("young"), "1").unwrap();
    let young = fs::File::options().write(true).open(site.path("young")).unwrap();
    // A stamp on a whole second is taken for one of a file system that has no others; this one is
    // not over for an hour.
    let seconds = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 3600;
    young.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    let tag = site.get("/young").field("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/"), "{tag}");
    let again = site.ask("GET", "/young", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((again.status, again.text()), (200, "1".to_owned()));
    assert_eq!(site.ask("GET", "/young", "If-None-Match: *\r\n").status, 304);
}

#[test]
fn what_is_no_request_is_counted() {
    let site = site(|_| ());
    let huge = format!("GET /hello.txt HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(100_000));
    for (bytes, status) in [("what is this\r\n\r\n", "400"), (&huge, "431")] {
        let answer = String::from_utf8(site.raw(bytes.as_bytes())).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    // A client that leaves in the middle of a request has sent nothing malformed.
    site.raw(b"GET /hello.txt HT");
    pantler_rig::eventually("both are counted", || {
        site.metric("malformed_total") >= 2 && site.metric("connections") == 0
    });
    assert_eq!((site.metric("malformed_total"), site.metric("answers_total{class=\"4xx\"}")), (2, 2));
}
