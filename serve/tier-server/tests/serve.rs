//! The server over sockets: common tools, hostile peers, and the client of this crate; the same
//! client against Redis.

mod common;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{PATIENCE, Served, ask, client, connect, eventually, give, hear, key, put, read_until, say};
use pantler_policy::Draws;
use pantler_tier::{News, Put, Retrieve, Tier, TierError, Wanted};

#[test]
fn commands_in_any_pieces_are_answered_in_order() {
    let served = Served::new(|_| {});
    let mut stream = served.connect();
    say(&stream, b"PING\r\n", "+PONG\r\n");
    say(&stream, b"*1\r\n$4\r\nPING\r\n", "+PONG\r\n");
    let many = b"SET a 1\r\nGET a\r\nEXISTS a\r\nDEL a\r\nGET a\r\nEXISTS a\r\nDBSIZE\r\n";
    say(&stream, many, "+OK\r\n$1\r\n1\r\n:1\r\n:1\r\n$-1\r\n:0\r\n:0\r\n");
    for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    say(&stream, b"", "+OK\r\n");
    say(&stream, b"NX\r\n", "-ERR unknown command 'NX' with 0 arguments\r\n");
    say(&stream, b"SET k v EX 5\r\n", "-ERR unknown command 'SET' with 4 arguments\r\n");
}

#[test]
fn large_values_of_every_size_come_back() {
    let served = Served::new(|options| options.memory_bytes = 64 << 20);
    let stream = served.connect();
    for length in [0, 1, 16_383, 16_384, 16_385, 65_536, 1 << 20, 3 << 20] {
        let value = vec![b'v'; length];
        let mut command = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n").into_bytes();
        command.extend(&value);
        command.extend(b"\r\n");
        say(&stream, &command, "+OK\r\n");
        let expected = format!("${length}\r\n{}\r\n", String::from_utf8(value).unwrap());
        say(&stream, b"GET k\r\n", &expected);
    }
    say(&stream, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000000\r\n", "-ERR Protocol error: too long\r\n");
}

#[test]
fn hostile_peers_are_hung_up_on_and_others_served() {
    let served = Served::new(|options| options.clients_max = 20);
    let good = served.connect();
    let deep = "*1\r\n".repeat(10_000);
    let bad: [&[u8]; 6] = [
        deep.as_bytes(),
        b"*9999999\r\n",
        b"*1\r\n$-5\r\n",
        b"*2\r\n:1\r\n",
        &[b'z'; 40_000],
        b"*1\r\n$1\r\nabc",
    ];
    for bytes in bad {
        let mut stream = served.connect();
        // It may hang up before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"-ERR Protocol error"), "{answer:?}");
        say(&good, b"PING\r\n", "+PONG\r\n");
    }
    let mut draws = Draws::new(1);
    for _ in 0..200 {
        let mut stream = served.connect();
        let bytes: Vec<u8> = (0..100).map(|_| b"*$\r\n0123GETSPANTLER. "[draws.below(20) as usize]).collect();
        let _ = stream.write_all(&bytes);
    }
    say(&good, b"PING\r\n", "+PONG\r\n");
    let crowd: Vec<TcpStream> = (0..40).map(|_| served.connect()).collect();
    say(&good, b"PING\r\n", "+PONG\r\n");
    drop(crowd);
    say(&good, b"PING\r\n", "+PONG\r\n");
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let served = Served::new(|options| options.memory_bytes = 64 << 20);
    let mut stream = served.connect();
    say(&stream, b"SET k ", "");
    let mut value = vec![b'v'; 10_000];
    value.extend(b"\r\n");
    say(&stream, &value, "+OK\r\n");
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut asked = 0_u64;
    while asked < 40_000 && stream.write_all(b"GET k\r\n").is_ok() {
        asked += 1;
    }
    // 8 MiB wait for it, and some more are in sockets: 400 MB are asked for.
    let done = settled(&served);
    assert!(done < asked / 10, "{done} of {asked}");
    // What was answered is whole.
    let expected = format!("$10000\r\n{}\r\n", String::from_utf8(vec![b'v'; 10_000]).unwrap());
    (0..asked.min(100)).for_each(|_| say(&stream, b"", &expected));
}

/// Commands that the server carried out, when it has nothing to do any more but to tell.
fn settled(served: &Served) -> u64 {
    let (mut before, mut done) = (0, commands(served));
    // Asking takes two.
    while done != before + 2 {
        std::thread::sleep(Duration::from_millis(50));
        (before, done) = (done, commands(served));
    }
    done
}

fn commands(served: &Served) -> u64 {
    let mut stream = served.connect();
    stream.write_all(b"INFO stats\r\nQUIT\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    count.unwrap_or_else(|| panic!("no count in {text}")).parse().unwrap()
}

#[test]
fn strangers_get_nothing_without_the_password() {
    let served = Served::new(|options| options.password = Some("s3cret".into()));
    let stream = served.connect();
    say(&stream, b"GET k\r\n", "-NOAUTH Authentication required.\r\n");
    say(&stream, b"AUTH wrong\r\n", "-WRONGPASS");
    let stream = served.connect();
    say(&stream, b"AUTH s3cret\r\nGET k\r\n", "+OK\r\n$-1\r\n");
    // The password and what it allows, in one piece.
    let stream = served.connect();
    let mut command = b"AUTH s3cret\r\n*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$20000\r\n".to_vec();
    command.extend([b'v'; 20_000]);
    command.extend(b"\r\nEXISTS l\r\n");
    say(&stream, &command, "+OK\r\n+OK\r\n:1\r\n");
    let wrong = client(served.port(), "c", |options| options.password = Some("wr0ng".into()));
    let error = wrong.heal().unwrap_err().to_string();
    assert!(!error.contains("wr0ng") && error.lines().count() == 1, "{error}");
    let right = client(served.port(), "c", |options| options.password = Some("s3cret".into()));
    right.heal().unwrap();
    give(&right, 1, Put::Keep);
    assert!(ask(&right, 1, Retrieve::Read));
}

#[test]
fn clients_share_blocks_and_hear_what_becomes_of_theirs() {
    let served = Served::new(|options| options.memory_bytes = 1 << 20);
    let port = served.port();
    let (one, other) = (client(port, "one", |_| {}), client(port, "other", |_| {}));
    one.heal().unwrap();
    other.heal().unwrap();
    assert!(one.server().unwrap().starts_with("pantler"));
    put(&one, 1, Put::Demote, Duration::from_micros(1000)).unwrap();
    assert!(ask(&other, 1, Retrieve::Take), "a copy, and it stays for its owner");
    assert!(ask(&other, 1, Retrieve::Keep), "now it is the other's");
    ask(&one, 1, Retrieve::Read);
    let news = one.news();
    assert_eq!((news.gone, news.full), (vec![key(1)], Some(false)));
    assert!(ask(&other, 1, Retrieve::Take) && !ask(&one, 1, Retrieve::Read));
    // The oldest leaves: not what came first, but what was used longest ago.
    give(&one, 2, Put::Keep);
    put(&one, 3, Put::Demote, Duration::from_secs(60)).unwrap();
    let mut index = 10;
    while ask(&one, 3, Retrieve::Read) {
        give(&other, index, Put::Keep);
        index += 1;
        assert!(index <= 10 + u64::from(one.frames(4096)), "nothing leaves");
    }
    assert!(ask(&one, 2, Retrieve::Read));
    let News { gone, full, .. } = one.news();
    assert_eq!((gone, full), (vec![key(3)], Some(true)));
    assert_eq!(one.held(), vec![key(2)], "what is mine, after a restart too");
    one.remove(&[key(2), key(10)]).unwrap();
    assert!(!ask(&one, 2, Retrieve::Read) && ask(&one, 10, Retrieve::Read), "only what is mine");
}

/// Chooses a protocol. The list of modules ends the answer.
fn greet(mut stream: &TcpStream, protocol: u8) {
    stream.write_all(format!("HELLO {protocol}\r\n").as_bytes()).unwrap();
    read_until(stream, b"*0\r\n");
}

#[test]
fn who_cannot_be_told_does_not_join() {
    let served = Served::new(|_| {});
    let mut stream = served.connect();
    say(&stream, b"PANTLER.JOIN a\r\n", "-ERR notices need RESP3: say HELLO 3 first\r\n");
    greet(&stream, 3);
    stream.write_all(b"PANTLER.JOIN a\r\n").unwrap();
    read_until(&stream, b"full\r\n:0\r\n");
    say(&stream, b"SET k v\r\nPANTLER.KEYS\r\n", "+OK\r\n*1\r\n$1\r\nk\r\n");
    greet(&stream, 2);
    say(&stream, b"PANTLER.KEYS\r\n", "*0\r\n");
    greet(&stream, 3);
    say(&stream, b"PANTLER.KEYS\r\n", "*0\r\n");
}

#[test]
fn only_values_are_long() {
    let served = Served::new(|_| {});
    let stream = served.connect();
    let long = "k".repeat(65_537);
    let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let send = |words: &[&str], expected: &str| {
        let command = words.iter().fold(format!("*{}\r\n", words.len()), |all, word| all + &bulk(word));
        say(&stream, command.as_bytes(), expected);
    };
    let refused = "-ERR a word is too long\r\n";
    for words in [&["SET", &long, "v"][..], &["PANTLER.SET", &long, "v", "KEEP", "0"]] {
        send(words, refused);
    }
    send(&["DBSIZE"], ":0\r\n");
    send(&["SET", "k", &long], "+OK\r\n");
}

#[test]
fn something_else_on_the_port_is_said_in_one_line_and_does_not_hang() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let chatty = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = chatty.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in chatty.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for port in [silent.local_addr().unwrap().port(), address.port(), nobody] {
        let tier = client(port, "c", |options| options.timeout = Duration::from_millis(200));
        let start = Instant::now();
        let error = tier.heal().unwrap_err();
        assert!(start.elapsed() < PATIENCE, "{error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }
}

#[test]
fn a_server_that_lies_is_found_out_and_one_that_stops_costs_one_time_limit() {
    let served = Served::new(|_| {});
    let tier = client(served.port(), "c", |_| {});
    tier.heal().unwrap();
    give(&tier, 1, Put::Keep);
    let liar = served.connect();
    let lie = format!("SET {} lies\r\n", key(1));
    say(&liar, lie.as_bytes(), "+OK\r\n");
    assert!(!ask(&tier, 1, Retrieve::Read));
    assert_eq!(tier.damaged(), 1);
    drop(served);
    let start = Instant::now();
    let wanted = [Wanted { key: key(1), how: Retrieve::Read }];
    assert!(tier.retrieve(&wanted, &mut |_, _| {}).is_err());
    assert!(start.elapsed() < PATIENCE);
    assert!(matches!(tier.heal(), Err(TierError::Remote { .. } | TierError::Timeout { .. })));
    assert!(tier.news().unknown, "what is there is unknown, not gone");
}

fn redis(more: &[&str]) -> Option<pantler_rig::Server> {
    pantler_rig::redis(&[&["--maxmemory-policy", "allkeys-lru"], more].concat())
}

#[test]
fn redis_is_a_tier_whose_evictions_are_heard() {
    let Some(redis) = redis(&["--maxmemory", "3mb"]) else { return };
    let (one, other) = (client(redis.port(), "one", |_| {}), client(redis.port(), "other", |_| {}));
    one.heal().unwrap();
    other.heal().unwrap();
    assert!(one.server().unwrap().starts_with("Redis"));
    give(&one, 1, Put::Demote);
    assert!(ask(&other, 1, Retrieve::Take), "not the other's: a copy");
    assert!(ask(&one, 1, Retrieve::Take), "GETDEL where it is owned");
    assert!(!ask(&one, 1, Retrieve::Read));
    assert_eq!(hear(&other, |news| news.gone.len() >= 2).gone, vec![key(1); 2], "put, and taken");
    assert_eq!(one.news().gone, Vec::new(), "what one did itself is not told (NOLOOP)");
    // More than fits: Redis evicts, and tells the client that put it there.
    (100..1100).for_each(|index| give(&one, index, Put::Keep));
    let gone = hear(&one, |news| news.gone.len() > 200).gone;
    assert!(gone.iter().filter(|gone| ask(&one, gone.index, Retrieve::Read)).count() <= gone.len() / 100);
    // Everything removed: unknown, not gone.
    let mut admin = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    admin.write_all(b"FLUSHALL\r\n").unwrap();
    assert!(hear(&one, |news| news.unknown).unknown);
}

#[test]
fn redis_is_not_told_to_remove_what_others_put_there() {
    let Some(redis) = redis(&["--maxmemory", "3mb"]) else { return };
    let (one, other) = (client(redis.port(), "one", |_| {}), client(redis.port(), "other", |_| {}));
    one.heal().unwrap();
    other.heal().unwrap();
    (1..=2).for_each(|index| give(&one, index, Put::Demote));
    other.remove(&[key(1), key(2)]).unwrap();
    assert!(ask(&other, 1, Retrieve::Read), "it is one's (U6)");
    one.remove(&[key(1)]).unwrap();
    assert!(!ask(&other, 1, Retrieve::Read) && ask(&other, 2, Retrieve::Read));
}

#[test]
fn redis_that_is_full_and_drops_nothing_goes_on_answering() {
    let Some(redis) = pantler_rig::redis(&["--maxmemory", "3mb"]) else { return };
    let tier = client(redis.port(), "one", |_| {});
    tier.heal().unwrap();
    let advice = tier.advice().unwrap();
    assert!(advice.contains("noeviction") && advice.lines().count() == 1, "{advice}");
    (0..1100).for_each(|index| give(&tier, index, Put::Keep));
    let news = tier.news();
    assert!(!news.unknown, "the connection was lost");
    let dropped: HashSet<u64> = news.gone.iter().map(|key| key.index).collect();
    assert!((200..1100).contains(&dropped.len()), "{} blocks were dropped", dropped.len());
    for index in 0..1100 {
        assert_eq!(ask(&tier, index, Retrieve::Read), !dropped.contains(&index), "block {index}");
    }
}

#[test]
fn redis_that_does_not_write_is_read() {
    let Some(redis) = redis(&["--maxmemory", "3mb"]) else { return };
    let tier = client(redis.port(), "one", |_| {});
    tier.heal().unwrap();
    assert_eq!(tier.advice(), None);
    give(&tier, 1, Put::Keep);
    let admin = connect(([127, 0, 0, 1], redis.port()).into());
    say(&admin, b"CONFIG SET min-replicas-to-write 1\r\n", "+OK\r\n");
    give(&tier, 2, Put::Keep);
    assert!(!ask(&tier, 1, Retrieve::Take), "nobody may take it out");
    assert!(ask(&tier, 1, Retrieve::Take), "a copy");
    let news = tier.news();
    assert_eq!((news.gone, news.unknown), (vec![key(2)], false));
    say(&admin, b"CONFIG SET min-replicas-to-write 0\r\n", "+OK\r\n");
    give(&tier, 2, Put::Keep);
    assert!(ask(&tier, 2, Retrieve::Take) && !ask(&tier, 2, Retrieve::Read));
}

#[test]
fn redis_that_cannot_be_a_tier_is_refused_and_one_without_bounds_is_talked_about() {
    let Some(old) = redis(&["--rename-command", "GETDEL", ""]) else { return };
    let error = client(old.port(), "one", |_| {}).heal().unwrap_err().to_string();
    assert!(error.contains("expected Redis from 6.2 on") && error.lines().count() == 1, "{error}");
    let Some(unbounded) = redis(&[]) else { return };
    let tier = client(unbounded.port(), "one", |_| {});
    tier.heal().unwrap();
    let advice = tier.advice().unwrap();
    assert!(advice.contains("set maxmemory there"), "{advice}");
}

#[test]
fn redis_gone_and_back_is_unknown_and_heals() {
    let Some(redis) = redis(&[]) else { return };
    let patient = client(redis.port(), "other", |options| options.timeout = PATIENCE);
    patient.heal().unwrap();
    give(&patient, 1, Put::Keep);
    // The short limit is for what cannot be answered; everything else may take as long as the
    // machine is busy.
    let tier = client(redis.port(), "one", |options| options.timeout = Duration::from_millis(300));
    eventually("it is there", || tier.heal().is_ok());
    let _ = tier.news();
    rustix::process::kill_process(redis.pid(), rustix::process::Signal::STOP).unwrap();
    let start = Instant::now();
    let wanted = [Wanted { key: key(1), how: Retrieve::Read }];
    assert!(matches!(tier.retrieve(&wanted, &mut |_, _| {}), Err(TierError::Timeout { .. })));
    assert!(start.elapsed() < PATIENCE, "one time limit");
    assert!(tier.news().unknown);
    rustix::process::kill_process(redis.pid(), rustix::process::Signal::CONT).unwrap();
    eventually("it is asked again", || {
        let mut found = false;
        tier.heal().is_ok() && tier.retrieve(&wanted, &mut |_, _| found = true).is_ok() && found
    });
    assert!(ask(&patient, 1, Retrieve::Read), "an idle client noticed nothing");
}

#[test]
fn tools_of_redis_work_against_the_server() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return pantler_rig::missing("redis-cli", "apt-get install redis-server");
    }
    let served = Served::new(|options| options.memory_bytes = 32 << 20);
    let port = served.port().to_string();
    let cli = |words: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(cli(&["ping"]), "PONG\n");
    assert!(cli(&["-3", "hello", "3"]).contains("proto"));
    assert_eq!(cli(&["set", "a", "b"]), "OK\n");
    assert_eq!(cli(&["get", "a"]), "b\n");
    assert_eq!(cli(&["del", "a"]), "1\n");
    assert!(cli(&["info"]).contains("redis_mode:standalone"));
    assert_eq!(cli(&["dbsize"]), "0\n");
    let bench = Command::new("redis-benchmark")
        .args(["-p", &port, "-n", "2000", "-c", "20", "-P", "4", "-q", "-d", "4096"])
        .args(["-t", "ping_inline,ping_mbulk,set,get"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&bench.stdout).into_owned();
    assert!(bench.status.success() && text.matches("requests per second").count() == 4, "{text}");
}

/// Bytes of a server are what it has, and what of them a client may use is what was typed for it.
#[test]
fn a_client_knows_whether_a_server_has_more_room_than_it_may_use_or_less() {
    let served = Served::new(|options| options.memory_bytes = 8 << 20);
    let frames = |bytes| {
        let tier = client(served.port(), "one", |options| options.bytes = bytes);
        assert!(!tier.has_more(), "nobody has said so yet");
        let typed = tier.frames(4096);
        tier.heal().unwrap();
        (tier.has_more(), tier.frames(4096), typed)
    };
    let (has_more, small, typed) = frames(1 << 20);
    assert!(has_more && small == typed, "{small} frames");
    let (has_more, all, typed) = frames(64 << 20);
    assert!(!has_more && all < typed && all > 6 * small, "{all} of {typed} frames");
}
