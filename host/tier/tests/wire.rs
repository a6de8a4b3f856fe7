//! The wire format: whatever bytes come, in whatever pieces.

use bytes::BytesMut;
use pantler_tier::wire::{Begin, Protocol, Reply, WireError, begin};
use proptest::prelude::*;

const MAX: usize = 1 << 20;

fn encode(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

proptest! {
    #[test]
    fn what_is_encoded_is_understood_and_every_part_asks_for_more(
        words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8),
    ) {
        let bytes = encode(&words);
        let Ok(Begin::Command { words: found, length }) = begin(&bytes, MAX) else { panic!("{bytes:?}") };
        prop_assert_eq!(length, bytes.len());
        let found: Vec<Vec<u8>> = found.into_iter().map(|word| bytes[word].to_vec()).collect();
        prop_assert_eq!(found, words);
        for end in 0..bytes.len() {
            match begin(&bytes[..end], MAX) {
                Ok(Begin::Part(least)) => prop_assert!(least > end && least <= bytes.len(), "{end}: {least}"),
                other => prop_assert!(false, "{end}: {other:?}"),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_reach_past_the_end(
        bytes in proptest::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'),
            Just(b'1'), Just(b'0'), Just(b'-'), any::<u8>()], 0..200),
        max in 1..300_usize,
    ) {
        if let Ok(Begin::Command { words, length }) = begin(&bytes, max) {
            prop_assert!(length <= bytes.len());
            prop_assert!(words.iter().all(|word| word.start <= word.end && word.end <= length));
        }
    }
}

#[test]
fn hostile_shapes_are_refused_at_once() {
    let deep = "*1\r\n".repeat(100_000);
    let cases: [(&[u8], WireError); 9] = [
        (deep.as_bytes(), WireError::Shape),
        (b"*1000000000\r\n", WireError::Words),
        (b"*99999999999999999999\r\n", WireError::Number),
        (b"*-1\r\n", WireError::Number),
        (b"*1\r\n$-1\r\n", WireError::Number),
        (b"*1\r\n$9999999999\r\n", WireError::Long),
        (b"*1\r\n:5\r\n", WireError::Shape),
        (b"*1\r\n$1\r\nabc\r\n", WireError::Shape),
        (b"*1\r\n$1\rx\nabc\r\n", WireError::Number),
    ];
    for (bytes, error) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        assert_eq!(begin(bytes, MAX), Err(error), "{shown}");
    }
    assert_eq!(begin(&[b'x'; 20_000], MAX), Err(WireError::Long), "a line without an end");
    assert!(matches!(begin(b"PING  x\r\n", MAX), Ok(Begin::Command { words, .. }) if words == [0..4, 6..7]));
    assert!(matches!(begin(b"\r\n", MAX), Ok(Begin::Command { words, .. }) if words.is_empty()));
}

#[test]
fn replies_in_both_protocols() {
    let reply = Reply::Map(vec![(Reply::text("a"), Reply::Null), (Reply::text("b"), Reply::Number(-1))]);
    let encode = |reply: &Reply, protocol| {
        let mut out = BytesMut::new();
        reply.encode(protocol, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    };
    assert_eq!(encode(&reply, Protocol::Resp3), "%2\r\n$1\r\na\r\n_\r\n$1\r\nb\r\n:-1\r\n");
    assert_eq!(encode(&reply, Protocol::Resp2), "*4\r\n$1\r\na\r\n$-1\r\n$1\r\nb\r\n:-1\r\n");
    assert_eq!(encode(&Reply::Push(vec![Reply::Number(1)]), Protocol::Resp2), "");
    assert_eq!(encode(&Reply::Push(vec![Reply::Number(1)]), Protocol::Resp3), ">1\r\n:1\r\n");
    assert_eq!(encode(&Reply::Error("a\r\n+OK".into()), Protocol::Resp2), "-a  +OK\r\n");
}
