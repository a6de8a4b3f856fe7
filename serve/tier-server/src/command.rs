//! The commands that our own client sends, and those for a look by hand
//! (docs/decisions/0091-tiers-do-what-mounts-need.md). docs/TIER-PROTOCOL.md says what each
//! answers.

use bytes::Bytes;
use std::str::FromStr;

use crate::listing;
use crate::session::Session;
use crate::shared::Shared;
use crate::store::LOOKED_MAX;
use pantler_tier::wire::{LISTED_MAX, Protocol, Reply, WORD_BYTES_MAX};
use pantler_tier::{Put, Retrieve};

/// Longest name of a client.
const NAME_BYTES_MAX: usize = 128;
/// Places of the store that are looked at for one answer: no other client is served meanwhile.
pub(crate) const SCANNED_MAX: usize = 10_000;

type Words<'a> = [&'a [u8]];

/// A value in the buffer that it arrived in, and the bytes of that.
pub(crate) struct Taken {
    pub(crate) value: Bytes,
    pub(crate) buffer_bytes: usize,
}

/// Carries out a command. `taken` is its third word, where the buffer that it arrived in is free to
/// be kept.
pub(crate) fn execute(
    session: &mut Session,
    shared: &mut Shared,
    words: &Words<'_>,
    taken: Option<Taken>,
) -> Reply {
    let mut name = [0; 24];
    let Some(name) = name.get_mut(..words[0].len()) else { return unknown(words) };
    name.copy_from_slice(words[0]);
    name.make_ascii_uppercase();
    let name: &[u8] = name;
    if !session.known && !matches!(name, b"AUTH" | b"HELLO" | b"QUIT") {
        return Reply::Error("NOAUTH Authentication required.".into());
    }
    let is_value = |at: usize| at == 2 && matches!(name, b"SET" | b"PANTLER.SET");
    if words.iter().enumerate().any(|(at, word)| word.len() > WORD_BYTES_MAX && !is_value(at)) {
        return Reply::Error("ERR a word is too long".into());
    }
    let count = words.len();
    match (name, count) {
        (b"GET", 2) => found({
            let now = shared.now();
            shared.store.get(words[1], now)
        }),
        (b"SET", 3) => {
            let now = shared.now();
            store(session, shared, words, taken, (now, false))
        }
        (b"PANTLER.GET", 3) => retrieve(session, shared, words),
        (b"PANTLER.SET", 5) => put(session, shared, words, taken),
        (b"DEL", 2..) => {
            let owner = session.owner;
            Reply::Number(words[1..].iter().filter(|key| shared.store.delete(key, owner)).count() as i64)
        }
        (b"EXISTS", 2..) => {
            let there = words[1..].iter().filter(|key| shared.store.length(key).is_some());
            Reply::Number(there.count() as i64)
        }
        (b"PANTLER.JOIN", 2) => join(session, shared, words[1]),
        (b"PANTLER.DROP", 2..) => {
            let owner = session.owner;
            Reply::Number(words[1..].iter().filter(|key| shared.store.give_up(key, owner)).count() as i64)
        }
        (b"PANTLER.KEYS", 1) => {
            shared.looked += shared.store.len().min(LOOKED_MAX);
            let keys = shared.store.keys_of(session.owner, LISTED_MAX);
            Reply::List(keys.into_iter().map(|key| Reply::Bytes(Bytes::copy_from_slice(key))).collect())
        }
        (b"PING", 1) => Reply::Simple("PONG"),
        (b"HELLO", _) => hello(session, shared, &words[1..]),
        (b"AUTH", 2) => authenticate(session, shared, b"default", words[1]),
        (b"AUTH", 3) => authenticate(session, shared, words[1], words[2]),
        (b"INFO", _) => {
            let section = words.get(1).and_then(|section| std::str::from_utf8(section).ok());
            Reply::text(listing::info(shared, section))
        }
        (b"DBSIZE", 1) => Reply::Number(shared.store.len() as i64),
        (b"FLUSHALL", _) => {
            shared.store.flush();
            Reply::Simple("OK")
        }
        (b"QUIT", _) => {
            session.closing = true;
            Reply::Simple("OK")
        }
        _ => unknown(words),
    }
}

fn parsed<T: FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn unknown(words: &Words<'_>) -> Reply {
    let name: String = String::from_utf8_lossy(words[0]).chars().take(64).collect();
    let count = words.len() - 1;
    Reply::Error(format!("ERR unknown command '{}' with {count} arguments", name.escape_default()))
}

fn found(value: Option<Bytes>) -> Reply {
    value.map_or(Reply::Null, Reply::Bytes)
}

fn syntax() -> Reply {
    Reply::Error("ERR syntax error".into())
}

/// Puts a value that was used last at `time`, and was perhaps demoted.
fn store(
    session: &Session,
    shared: &mut Shared,
    words: &Words<'_>,
    taken: Option<Taken>,
    (time, demoted): (u64, bool),
) -> Reply {
    let copy = || Taken { value: Bytes::copy_from_slice(words[2]), buffer_bytes: words[2].len() };
    let Taken { value, buffer_bytes } = taken.unwrap_or_else(copy);
    match shared.store.put(words[1], value, buffer_bytes, session.owner, time, demoted) {
        true => Reply::Simple("OK"),
        false => Reply::Error("OOM the value does not fit in the memory of this tier".into()),
    }
}

/// `PANTLER.GET key TAKE|KEEP|READ`
fn retrieve(session: &Session, shared: &mut Shared, words: &Words<'_>) -> Reply {
    let (key, owner) = (words[1], session.owner);
    match parsed(words[2]) {
        Some(Retrieve::Take) => found(shared.store.take(key, owner)),
        Some(Retrieve::Keep) => {
            let now = shared.now();
            found(shared.store.keep(key, owner, now))
        }
        Some(Retrieve::Read) => found(shared.store.read(key)),
        None => syntax(),
    }
}

/// `PANTLER.SET key value KEEP|DEMOTE age-in-microseconds`
fn put(session: &Session, shared: &mut Shared, words: &Words<'_>, taken: Option<Taken>) -> Reply {
    let (Some(why), Some(age_us)) = (parsed::<Put>(words[3]), parsed::<u64>(words[4])) else {
        return syntax();
    };
    let time = shared.now().saturating_sub(age_us.saturating_mul(1000));
    store(session, shared, words, taken, (time, why == Put::Demote))
}

/// `PANTLER.JOIN name`
fn join(session: &mut Session, shared: &mut Shared, name: &[u8]) -> Reply {
    let Some(name) = client_name(name) else { return syntax() };
    if session.protocol != Protocol::Resp3 {
        return Reply::Error("ERR notices need RESP3: say HELLO 3 first".into());
    }
    shared.store.leave(session.owner);
    session.owner = shared.store.join(name);
    if session.owner == crate::store::NOBODY {
        return Reply::Error("ERR too many owners".into());
    }
    Reply::Map(vec![
        (Reply::text("server"), Reply::text("pantler")),
        (Reply::text("version"), Reply::Number(1)),
        (Reply::text("limit"), Reply::Number(shared.store.limit() as i64)),
        (Reply::text("entry"), Reply::Number(pantler_tier::wire::ENTRY_BYTES as i64)),
        (Reply::text("full"), Reply::Number(shared.store.is_full().into())),
    ])
}

fn client_name(name: &[u8]) -> Option<&str> {
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(name).ok().filter(|_| is_name)
}

/// `HELLO [version [AUTH user password]]`
fn hello(session: &mut Session, shared: &mut Shared, words: &Words<'_>) -> Reply {
    let protocol = match words.first() {
        None => session.protocol,
        Some(&b"2") => Protocol::Resp2,
        Some(&b"3") => Protocol::Resp3,
        Some(_) => return Reply::Error("NOPROTO unsupported protocol version".into()),
    };
    match words.get(1..).unwrap_or_default() {
        [] => {}
        [word, user, password] if word.eq_ignore_ascii_case(b"AUTH") => {
            if let error @ Reply::Error(_) = authenticate(session, shared, user, password) {
                return error;
            }
        }
        _ => return syntax(),
    }
    if !session.known {
        return Reply::Error("NOAUTH HELLO must be called with the client already authenticated".into());
    }
    session.speak(shared, protocol);
    let proto = if protocol == Protocol::Resp3 { 3 } else { 2 };
    Reply::Map(vec![
        (Reply::text("server"), Reply::text("redis")),
        (Reply::text("version"), Reply::text("7.2.0")),
        (Reply::text("proto"), Reply::Number(proto)),
        (Reply::text("id"), Reply::Number(session.id as i64)),
        (Reply::text("mode"), Reply::text("standalone")),
        (Reply::text("role"), Reply::text("master")),
        (Reply::text("modules"), Reply::List(Vec::new())),
    ])
}

fn authenticate(session: &mut Session, shared: &Shared, user: &[u8], password: &[u8]) -> Reply {
    let Some(expected) = shared.password else {
        return Reply::Error("ERR AUTH called without any password configured".into());
    };
    // Hashes are compared in constant time.
    if user == b"default" && blake3::hash(password) == expected {
        session.known = true;
        return Reply::Simple("OK");
    }
    session.failures += 1;
    Reply::Error("WRONGPASS invalid username-password pair or user is disabled.".into())
}
