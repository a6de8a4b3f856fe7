//! TLS and passwords.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pantler_tier::serve::{ServeOptions, Server};
use pantler_tier::{Given, Key, Place, Put, RemoteOptions, RemoteTier, Retrieve, Seal, Stem, Tier, Wanted};

fn key(index: u64) -> Key {
    Stem::new(None, 4096, [index.to_le_bytes().as_slice()]).block(index)
}

fn client(host: &str, ports: &[u16], choose: impl FnOnce(&mut RemoteOptions)) -> RemoteTier {
    let nodes = ports.iter().map(|port| (host.to_owned(), *port)).collect();
    let mut options = RemoteOptions {
        place: Place::Remote { nodes, tls: false, cluster: ports.len() > 1, user: None },
        bytes: 1 << 30,
        timeout: Duration::from_secs(2),
        password: None,
        authority: None,
        client: "one".to_owned(),
        seal: Seal::Checksum,
    };
    choose(&mut options);
    RemoteTier::new(options).unwrap()
}

fn give(tier: &RemoteTier, index: u64) -> bool {
    let bytes = vec![index as u8; 4096];
    tier.put(&[Given { key: key(index), bytes: &bytes, why: Put::Keep, age: Duration::ZERO }]).is_ok()
}

fn ask(tier: &RemoteTier, index: u64, how: Retrieve) -> bool {
    let mut found = false;
    // An error is a miss.
    let _ = tier.retrieve(&[Wanted { key: key(index), how }], &mut |_, bytes| {
        assert_eq!(bytes, vec![index as u8; 4096]);
        found = true;
    });
    found
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

fn tls(tier: &mut RemoteOptions, authority: &Path) {
    if let Place::Remote { tls, .. } = &mut tier.place {
        *tls = true;
    }
    tier.authority = Some(authority.to_owned());
}

#[test]
fn over_tls_with_a_password_and_not_without() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) =
            (folder.path().join(format!("{name}.pem")), folder.path().join(format!("{name}.key")));
        write(&certificate, &made.cert.pem());
        write(&key, &made.signing_key.serialize_pem());
        (certificate, key)
    };
    let (ours, strange) = (made("ours"), made("strange"));
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 8 << 20);
    options.tls = Some(ours.clone());
    options.password = Some("s3cret".to_owned());
    let server = Server::bind(&options).unwrap();
    let (port, stop) = (server.address().unwrap().port(), Arc::new(AtomicBool::new(false)));
    let thread = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || server.run(&stop).unwrap())
    };
    let right = client("localhost", &[port], |tier| {
        tls(tier, &ours.0);
        tier.password = Some("s3cret".to_owned());
    });
    right.heal().unwrap();
    assert!(right.server().unwrap().starts_with("pantler tier serve"));
    for index in 0..200 {
        assert!(give(&right, index));
    }
    assert!((0..200).all(|index| ask(&right, index, Retrieve::Read)));
    let wrong: [(&str, RemoteTier); 4] = [
        ("no password", client("localhost", &[port], |tier| tls(tier, &ours.0))),
        (
            "another password",
            client("localhost", &[port], |tier| {
                tls(tier, &ours.0);
                tier.password = Some("an0ther".to_owned());
            }),
        ),
        (
            "another authority",
            client("localhost", &[port], |tier| {
                tls(tier, &strange.0);
                tier.password = Some("s3cret".to_owned());
            }),
        ),
        ("no TLS", client("localhost", &[port], |tier| tier.password = Some("s3cret".to_owned()))),
    ];
    for (what, tier) in wrong {
        let start = Instant::now();
        let error = tier.heal().expect_err(what).to_string();
        assert_eq!(error.lines().count(), 1, "{what}: {error}");
        assert!(!error.contains("s3cret") && !error.contains("an0ther"), "{what}: {error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: {:?}", start.elapsed());
    }
    stop.store(true, Ordering::Release);
    thread.join().unwrap();
}
