//! TLS and passwords.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Served, ask, give};
use pantler_tier::{Put, RemoteOptions, RemoteTier, Retrieve, Tier, TierPlace};

fn client(host: &str, port: u16, choose: impl FnOnce(&mut RemoteOptions)) -> RemoteTier {
    common::client(port, "one", |options| {
        if let TierPlace::Remote { nodes, .. } = &mut options.place {
            *nodes = vec![(host.to_owned(), port)];
        }
        choose(options);
    })
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

fn tls(tier: &mut RemoteOptions, authority: &Path) {
    if let TierPlace::Remote { tls, .. } = &mut tier.place {
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
    let served = Served::new(|options| {
        options.tls = Some(ours.clone());
        options.password = Some("s3cret".to_owned());
    });
    let port = served.port();
    let right = client("localhost", port, |tier| {
        tls(tier, &ours.0);
        tier.password = Some("s3cret".to_owned());
    });
    right.heal().unwrap();
    assert!(right.server().unwrap().starts_with("pantler tier serve"));
    for index in 0..200 {
        give(&right, index, Put::Keep);
    }
    assert!((0..200).all(|index| ask(&right, index, Retrieve::Read)));
    let wrong: [(&str, RemoteTier); 4] = [
        ("no password", client("localhost", port, |tier| tls(tier, &ours.0))),
        (
            "another password",
            client("localhost", port, |tier| {
                tls(tier, &ours.0);
                tier.password = Some("an0ther".to_owned());
            }),
        ),
        (
            "another authority",
            client("localhost", port, |tier| {
                tls(tier, &strange.0);
                tier.password = Some("s3cret".to_owned());
            }),
        ),
        ("no TLS", client("localhost", port, |tier| tier.password = Some("s3cret".to_owned()))),
    ];
    for (what, tier) in wrong {
        let start = Instant::now();
        let error = tier.heal().expect_err(what).to_string();
        assert_eq!(error.lines().count(), 1, "{what}: {error}");
        assert!(!error.contains("s3cret") && !error.contains("an0ther"), "{what}: {error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: {:?}", start.elapsed());
    }
}
