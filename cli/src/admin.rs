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
use std::net::SocketAddr;
use std::sync::Arc;

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
            #[cfg(feature = "top")]
            usage: usage::Usage::default(),
        };
        let exporter = Exporter::tell(address, move |question| teller.tell(question));
        Ok(Admin(exporter.map_err(crate::web::refused)?))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

struct Teller {
    host: Arc<Host>,
    #[cfg(feature = "top")]
    usage: usage::Usage,
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
        // A name that leads here from a foreign page is none of ours.
        if !is_ours(&question.host) {
            return Err(Untold::Forbidden);
        }
        match &*question.path {
            "/" => page(),
            "/data" => {
                let uid = tcp_user::of_peer(question.peer, question.own).ok_or(Untold::Forbidden)?;
                let text = output::to_json("admin", &self.data(uid, &question.query));
                Ok(told("application/json", text.map_err(|_| Untold::Absent)?))
            }
            _ => Err(Untold::Absent),
        }
    }

    fn data(&self, uid: u32, query: &str) -> Data {
        // Only the user counts here; nothing is looked up for a process or a group.
        let speaker = Speaker { uid, gid: u32::MAX, groups: Vec::new(), pid: 0 };
        let bodies = self.host.bodies();
        let told = bodies.iter().filter_map(|body| own(body.stat(&speaker).ok()?, uid));
        let bodies = told.collect();
        let (top, no_top) = match self.top(uid, query) {
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

/// Whether a browser that asks by this name means this machine.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    ["127.0.0.1", "localhost", "[::1]"].contains(&name)
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

/// What others than root and its user are told of a body: no path and no process. The name of a
/// mount is where it is, so the body's place among those of the daemon stands for it.
fn public(body: BodyInfo, place: usize) -> BodyInfo {
    let name = if body.kind == BodyKind::Mount { format!("mount {place}") } else { body.name };
    BodyInfo { name, mount_point: None, origin: None, pid: 0, ..body }
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
        for host in ["localhost", "localhost:80", "127.0.0.1:8080", "[::1]:1"] {
            assert!(is_ours(host), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil:80", "[::1"]
        {
            assert!(!is_ours(host), "{host}");
        }
    }
}
