//! The page of the daemon: what it steers and hosts, and what uses the page cache, live.
//!
//! A browser shows no credentials, so the kernel is asked for the user of its connection. Each user
//! is told what is hers: docs/decisions/0158-a-page-knows-its-reader-by-the-kernel.md.

use anyhow::Result;
use pantler_control::server::Host;
use pantler_control::{BodyInfo, BodyKind, BodyStat, Counters, Speaker};
use pantler_kernel::tcp_user;
use pantler_web::{Exporter, Question, Told, Untold};
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::failure::Usage;
use crate::output;

#[cfg(feature = "top")]
mod usage;

const PAGE: &str = include_str!("admin/page.html");
/// Stands in the page for a number that nothing but the page can know. The browser ignores scripts
/// and styles without it.
const NONCE: &str = "NONCE";

/// Serves the page until it is dropped.
pub struct Admin(Exporter);

impl Admin {
    /// Listens on loopback.
    ///
    /// # Errors
    /// Any other address: the kernel does not know the user of a connection from elsewhere.
    pub fn start(address: SocketAddr, host: Arc<Host>) -> Result<Admin> {
        if !address.ip().to_canonical().is_loopback() {
            let text = format!(
                "--admin {address}: expected an address of this machine alone, such as 127.0.0.1:{}; from elsewhere `ssh -L` \
                 leads there",
                address.port()
            );
            return Err(Usage(text).into());
        }
        let teller = Teller {
            host,
            kept: Mutex::default(),
            #[cfg(feature = "top")]
            usage: usage::Usage::default(),
        };
        let exporter = Exporter::tell_users(address, move |question| teller.tell(question));
        Ok(Admin(exporter.map_err(crate::web::refused)?))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

struct Teller {
    host: Arc<Host>,
    /// Answers by what they are about.
    kept: Mutex<HashMap<Subject, (Instant, String)>>,
    #[cfg(feature = "top")]
    usage: usage::Usage,
}

/// Time for which an answer is told again: bodies are asked once in it, however often a user asks.
const KEPT_TIME: Duration = Duration::from_secs(1);
/// Answers that are kept; further ones are made anew.
const KEPT_MAX: usize = 64;

/// One answer: its user, and the rows that root wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Subject {
    uid: u32,
    /// `by=process`, `by=group`, `by=file`, or nothing.
    rows: &'static str,
}

impl Subject {
    fn new(uid: u32, query: &str) -> Subject {
        let known = ["by=process", "by=group", "by=file"].into_iter().find(|known| *known == query);
        Subject { uid, rows: known.filter(|_| uid == 0).unwrap_or_default() }
    }
}

/// What the page shows.
#[derive(Serialize)]
struct Data {
    /// The user that it is told to.
    uid: u32,
    /// As `pantler stat --json` has them.
    bodies: Vec<BodyStat>,
    /// As `pantler top --json` has it; root's.
    top: Option<serde_json::Value>,
    /// Why there is none.
    no_top: Option<String>,
}

impl Teller {
    fn tell(&self, question: &Question) -> Result<Told, Untold> {
        // A name that leads here from a foreign page is none of ours, and no foreign page asks.
        if !is_ours(&question.host, question.own.ip()) || is_foreign(question) {
            return Err(Untold::Forbidden);
        }
        match &*question.path {
            "/" => page(),
            "/data" => {
                let uid = tcp_user::of_peer(question.peer, question.own).ok_or(Untold::Forbidden)?;
                Ok(told("application/json", self.answer(&Subject::new(uid, &question.query))?))
            }
            _ => Err(Untold::Absent),
        }
    }

    /// Made now, or less than [`KEPT_TIME`] ago.
    fn answer(&self, subject: &Subject) -> Result<String, Untold> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |made: &Instant| made.elapsed() < KEPT_TIME;
        if let Some((_, text)) = kept().get(subject).filter(|(made, _)| is_fresh(made)) {
            return Ok(text.clone());
        }
        let text = output::to_json("admin", &self.data(subject)).map_err(|_| Untold::Absent)?;
        let mut kept = kept();
        kept.retain(|_, (made, _)| is_fresh(made));
        if kept.len() < KEPT_MAX {
            kept.insert(subject.clone(), (Instant::now(), text.clone()));
        }
        Ok(text)
    }

    fn data(&self, &Subject { uid, rows }: &Subject) -> Data {
        // Only the user counts here; nothing is looked up for a process or a group.
        let speaker = Speaker { uid, gid: u32::MAX, groups: Vec::new(), pid: 0 };
        let mut bodies = Vec::new();
        for (place, body) in self.host.bodies().into_iter().enumerate() {
            if uid == 0 {
                bodies.extend(body.stat(&speaker));
            } else if body.has_owner_of(uid) || body.describe().uid == uid {
                // For the asking of others nothing more is watched in the kernel.
                bodies.extend(body.peek(&speaker).ok().and_then(|stat| own(stat, place + 1, uid)));
            }
        }
        let (top, no_top) = match self.top(uid, rows) {
            Ok(top) => (Some(top), None),
            Err(why) => (None, Some(why)),
        };
        Data { uid, bodies, top, no_top }
    }

    #[cfg(feature = "top")]
    fn top(&self, uid: u32, query: &str) -> Result<serde_json::Value, String> {
        match uid {
            0 => self.usage.told(query),
            _ => Err("processes and files of all users are shown to root".to_owned()),
        }
    }

    #[cfg(not(feature = "top"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    fn top(&self, _: u32, _: &str) -> Result<serde_json::Value, String> {
        Err("this build has no `top` feature".to_owned())
    }
}

/// Whether a browser asks for a page that is not ours. A link there may open our page: it changes
/// nothing until our page, which is shown, asks.
fn is_foreign(question: &Question) -> bool {
    let is_opened = question.path == "/" && question.mode.as_deref() == Some("navigate");
    !is_opened && question.site.as_deref().is_some_and(|site| !["same-origin", "none"].contains(&site))
}

/// Whether a browser that asks by this name means this machine, at the address that the connection
/// has here.
fn is_ours(host: &str, own: IpAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name == "localhost"
        || ["127.0.0.1", "[::1]"].contains(&name)
        || address.parse().is_ok_and(|address: IpAddr| address == own.to_canonical())
}

fn page() -> Result<Told, Untold> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Untold::Absent)?;
    let nonce = format!("{:032x}", u128::from_ne_bytes(bytes));
    let mut told = told("text/html; charset=utf-8", PAGE.replace(NONCE, &nonce));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    told.headers.push(("content-security-policy", policy));
    Ok(told)
}

fn told(kind: &str, text: String) -> Told {
    let headers = [
        ("content-type", kind),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    Told { headers: headers.map(|(name, value)| (name, value.to_owned())).into(), text }
}

/// A body without paths and processes, for others than root and its user. The name of a mount is a
/// path, so the body's place among those of the daemon stands for it.
fn public(body: BodyInfo, place: usize) -> BodyInfo {
    let name = if body.kind == BodyKind::Mount { format!("mount {place}") } else { body.name };
    BodyInfo { name, mount_point: None, origin: None, pid: 0, why_own: None, ..body }
}

/// The part of a body's counters that is a user's: all of them to root and to the user that started
/// it. `None` if nothing there is hers.
fn own(mut stat: BodyStat, place: usize, uid: u32) -> Option<BodyStat> {
    if uid == 0 || uid == stat.body.uid {
        return Some(stat);
    }
    stat.owners.retain(|owner| owner.uid == Some(uid));
    if stat.owners.is_empty() {
        return None;
    }
    stat.revocations.retain(|one| one.uid == Some(uid));
    // By the user: another user's owner may have the same name.
    stat.takings.retain(|taking| taking.from_uid == Some(uid) && taking.to_uid == Some(uid));
    let totals = stat.owners.iter().fold(Counters::default(), |sum, owner| sum + owner.counters);
    Some(BodyStat {
        body: public(stat.body, place),
        totals,
        followed: stat.followed,
        owners: stat.owners,
        revocations: stat.revocations,
        takings: stat.takings,
        ..BodyStat::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_control::{FileStat, OwnerStat, TakingStat};

    #[test]
    fn a_user_is_told_what_is_hers() {
        let owner = |name: &str, uid, references| OwnerStat {
            owner: name.to_owned(),
            uid: Some(uid),
            counters: Counters { references, ..Counters::default() },
            ..OwnerStat::default()
        };
        let taking = |(from, from_uid): (&str, u32), (to, to_uid): (&str, u32)| TakingStat {
            from: from.into(),
            from_uid: Some(from_uid),
            to: to.into(),
            to_uid: Some(to_uid),
            blocks: 1,
        };
        let body = BodyInfo {
            name: "/home/secret/mnt".to_owned(),
            kind: BodyKind::Mount,
            mount_point: Some("/home/secret/mnt".into()),
            origin: Some("/srv/secret".into()),
            uid: 0,
            pid: 4711,
            capacity_blocks: 9,
            block_bytes: 4096,
            allocation: "lru-sp".to_owned(),
            ..BodyInfo::default()
        };
        let stat = BodyStat {
            body,
            // Two users have an owner of one name.
            owners: vec![owner("a", 7, 1), owner("b", 7, 2), owner("secret", 8, 50), owner("b", 8, 60)],
            totals: Counters { references: 53, ..Counters::default() },
            takings: vec![
                taking(("a", 7), ("b", 7)),
                taking(("secret", 8), ("a", 7)),
                taking(("a", 7), ("b", 8)),
                taking(("b", 8), ("a", 7)),
            ],
            files: vec![FileStat { path: "/secret".into(), counters: Counters::default() }],
            body_counters: [("secret".to_owned(), 1)].into(),
            ..BodyStat::default()
        };
        assert_eq!(own(stat.clone(), 2, 0), Some(stat.clone()));
        assert_eq!(own(stat.clone(), 2, 9), None);
        let hers = own(stat, 2, 7).unwrap();
        assert_eq!((hers.totals.references, hers.body.capacity_blocks), (3, 9));
        assert_eq!(hers.takings, [taking(("a", 7), ("b", 7))]);
        assert_eq!((&*hers.body.name, hers.body.pid), ("mount 2", 0));
        let text = serde_json::to_string(&hers).unwrap();
        assert!(!text.contains("secret") && !text.contains("4711"), "{text}");
    }

    #[test]
    fn foreign_names_of_this_machine_are_refused() {
        let own = "127.0.0.2".parse().unwrap();
        for host in ["localhost", "localhost:80", "127.0.0.1:8080", "[::1]:1", "127.0.0.2:7070", "127.0.0.2"]
        {
            assert!(is_ours(host, own), "{host}");
        }
        assert!(is_ours("127.0.0.2:1", "::ffff:127.0.0.2".parse().unwrap()));
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "127.0.0.1.evil:80",
            "[::1",
            "127.0.0.3:7070",
        ] {
            assert!(!is_ours(host, own), "{host}");
        }
    }

    #[test]
    fn pages_of_others_may_lead_to_ours_and_ask_nothing() {
        let asks = |path: &str, site: Option<&str>, mode: Option<&str>| {
            let end = "127.0.0.1:1".parse().unwrap();
            let [site, mode] = [site, mode].map(|word| word.map(str::to_owned));
            let (path, query, host) = (path.to_owned(), String::new(), "localhost".to_owned());
            !is_foreign(&Question { path, query, host, site, mode, peer: end, own: end })
        };
        assert!(asks("/data", None, None), "no browser");
        assert!(asks("/data", Some("same-origin"), Some("cors")) && asks("/data", Some("none"), None));
        assert!(asks("/", Some("cross-site"), Some("navigate")));
        for site in ["cross-site", "same-site", "", "same-origin, same-origin", "Same-Origin"] {
            assert!(!asks("/data", Some(site), Some("no-cors")), "{site}");
            assert!(!asks("/data", Some(site), Some("navigate")), "{site}");
            assert!(!asks("/", Some(site), Some("no-cors")), "{site}");
        }
    }
}
