//! Arbitrary bytes as what a tier returns, and as what a client sends.
//!
//! The same functions run under `cargo fuzz` (`make fuzz`), which follows coverage, and in an
//! ordinary test with mutated samples. They assert what must hold whatever the bytes are.

use pantler_tier::wire::{Begin, begin};
use pantler_tier::{Key, Seal, Secret, Stem};

/// Longest command that a target takes.
const COMMAND_BYTES_MAX: usize = 1 << 16;
/// Places, evenly spread, at which a command is cut.
const CUTS: usize = 16;
/// What the samples hold.
const BLOCK: &[u8] = b"bytes of a block";

fn key() -> Key {
    Stem::new(None, 4096, [b"x".as_slice()]).block(1)
}

fn seals() -> [Seal; 2] {
    [Seal::Checksum, Seal::Encrypted(Secret::new(b"secret"))]
}

/// Arbitrary bytes as what a tier returns, and as a key.
///
/// # Panics
///
/// If something is wrong.
pub fn envelope(bytes: &[u8]) {
    let (key, mut again) = (key(), Vec::new());
    for seal in seals() {
        seal.open(&key, bytes, |block| match seal {
            // Knowing the format is enough to make an envelope, but only the one that there is for
            // a block.
            Seal::Checksum => {
                seal.seal(&key, block, &mut again);
                assert!(again == bytes, "two envelopes for one block");
            }
            // Without the secret none can be made.
            Seal::Encrypted(_) => assert_eq!(block, BLOCK, "{seal:?}: forged"),
        });
    }
    let stranger = Seal::Encrypted(Secret::new(b"another secret"));
    assert!(stranger.open(&key, bytes, |_| ()).is_none(), "opened with another secret");
    if let Some(key) = Key::parse(bytes) {
        assert_eq!(key.to_string().as_bytes(), bytes, "a key has one name");
        assert_eq!(Key::unpack(&key.pack()), key);
    }
}

/// Arbitrary bytes as what a client sends, whole and in part.
///
/// # Panics
///
/// If something is wrong.
pub fn wire(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Begin::Command { words, length }) = begin(rest, COMMAND_BYTES_MAX) {
        assert!(length > 0 && length <= rest.len(), "{length} of {} bytes", rest.len());
        assert!(words.iter().all(|word| word.start <= word.end && word.end <= length), "{words:?}");
        assert!(words.windows(2).all(|pair| pair[0].end <= pair[1].start), "{words:?}");
        // Whatever part of it came first, more was asked for, and no more than there is.
        for end in (0..length).step_by(length.div_ceil(CUTS)) {
            match begin(&rest[..end], COMMAND_BYTES_MAX) {
                Ok(Begin::Part(least)) => {
                    assert!(least > end && least <= length, "{least} of {length} bytes")
                }
                other => panic!("{other:?} after {end} of {length} bytes"),
            }
        }
        rest = &rest[length..];
    }
}

/// Envelopes and keys to begin with.
pub fn envelopes() -> Vec<Vec<u8>> {
    let mut samples = vec![key().to_string().into_bytes(), Vec::new()];
    for seal in seals() {
        let mut sealed = Vec::new();
        seal.seal(&key(), BLOCK, &mut sealed);
        samples.push(sealed);
    }
    samples
}

/// Commands to begin with: each that the server knows, as a list or as a line.
pub fn commands() -> Vec<Vec<u8>> {
    let lines = [
        "PING",
        "SET k v NX GET",
        "SET k v EX 5",
        "GET k",
        "DEL a b",
        "EXISTS a b",
        "HELLO 3 AUTH default x",
        "HELLO 3",
        "HELLO 2",
        "AUTH default x",
        "PANTLER.JOIN me",
        "PANTLER.SET k value KEEP 0",
        "PANTLER.SET k value DEMOTE 18446744073709551615",
        "PANTLER.GET k TAKE",
        "PANTLER.GET k KEEP",
        "PANTLER.GET k READ",
        "PANTLER.DROP k l",
        "PANTLER.KEYS",
        "INFO everything",
        "DBSIZE",
        "FLUSHALL",
        "QUIT",
    ];
    let line = |line: &str| format!("{line}\r\n").into_bytes();
    let list = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
        bytes.into_bytes()
    };
    let large = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n".as_slice(), &[b'v'; 20_000], b"\r\n"].concat();
    lines.iter().flat_map(|words| [line(words), list(words)]).chain([large]).collect()
}
