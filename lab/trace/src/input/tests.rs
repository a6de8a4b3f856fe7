//! Lines, records, and what compression does to them.

use super::*;
use std::io::Write;

fn input(bytes: &[u8]) -> Result<Input, TraceError> {
    Input::from_read(Path::new("test"), std::io::Cursor::new(bytes.to_vec()), Some(bytes.len() as u64))
}

fn lines(bytes: &[u8]) -> Result<Vec<String>, TraceError> {
    let mut input = input(bytes)?;
    let mut lines = Vec::new();
    while let Some(line) = input.line()? {
        lines.push(String::from_utf8_lossy(line).into_owned());
    }
    Ok(lines)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Encoder = fn(&[u8]) -> Vec<u8>;

const ENCODERS: [Encoder; 3] = [gzip, zstd, xz];

fn text() -> Vec<u8> {
    (0_u32..20_000).flat_map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
}

#[test]
fn lines_end_as_people_end_them() {
    assert_eq!(lines(b"").unwrap(), [""; 0]);
    assert_eq!(lines(b"a").unwrap(), ["a"]);
    assert_eq!(lines(b"a\n\nb\r\nc").unwrap(), ["a", "", "b", "c"]);
}

#[test]
fn a_line_without_an_end_comes_in_pieces() {
    let long = vec![b'x'; 3 * LINE_BYTES_MAX + 5];
    let lengths: Vec<usize> = lines(&long).unwrap().iter().map(String::len).collect();
    assert_eq!(lengths, [LINE_BYTES_MAX, LINE_BYTES_MAX, LINE_BYTES_MAX, 5]);
    let mut input = input(&long).unwrap();
    while input.line().unwrap().is_some() {}
    assert!(input.buffer.len() <= LINE_BYTES_MAX + 2 * CHUNK_BYTES, "{}", input.buffer.len());
}

#[test]
fn records_are_whole_until_the_end() {
    let bytes: Vec<u8> = (0..=250).collect();
    let mut input = input(&bytes).unwrap();
    assert_eq!(input.records(24, 10).unwrap(), &bytes[..240]);
    assert_eq!(input.offset(), 240);
    assert_eq!(input.records(24, 10).unwrap(), &bytes[240..]);
    assert!(input.records(24, 10).unwrap().is_empty());
}

#[test]
fn compressed_content_is_the_content() {
    let text = text();
    let plain = lines(&text).unwrap();
    for encode in ENCODERS {
        assert_eq!(lines(&encode(&text)).unwrap(), plain);
        // Several in a row are one.
        let parts = [encode(&text[..70_000]), encode(&[]), encode(&text[70_000..])].concat();
        assert_eq!(lines(&parts).unwrap(), plain);
    }
}

#[test]
fn skippable_frames_are_skipped() {
    let mut bytes = zstd(b"1\n");
    bytes.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    bytes.extend(zstd(b"2\n"));
    assert_eq!(lines(&bytes).unwrap(), ["1", "2"]);
    bytes.truncate(bytes.len() - zstd(b"2\n").len() - 1);
    assert!(matches!(lines(&bytes), Err(TraceError::Damaged { .. })));
}

#[test]
fn what_is_cut_is_an_error_wherever_it_is_cut() {
    let text = text();
    for encode in ENCODERS {
        let whole = encode(&text);
        for cut in (7..whole.len()).step_by(whole.len() / 40).chain([whole.len() - 1]) {
            let result = lines(&whole[..cut]);
            assert!(matches!(result, Err(TraceError::Damaged { .. })), "{cut} of {}", whole.len());
        }
    }
}

#[test]
fn what_is_damaged_is_an_error() {
    let text = text();
    for encode in ENCODERS {
        let whole = encode(&text);
        for at in (20..whole.len()).step_by(whole.len() / 40) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            match lines(&damaged) {
                Err(TraceError::Damaged { .. }) => {}
                Ok(found) => assert_eq!(found, lines(&text).unwrap(), "a bit that means nothing"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn what_expands_without_end_is_refused() {
    // A megabyte of zeros as one gzip member, over and over: more than EXPANSION_FREE_BYTES at
    // 1:1000.
    let member = zstd(&vec![b'\n'; 4 << 20]);
    assert!(member.len() * 1000 < 4 << 20, "{} bytes", member.len());
    struct Endless(Vec<u8>, usize);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let from = &self.0[self.1..];
            let read = from.len().min(buffer.len());
            buffer[..read].copy_from_slice(&from[..read]);
            self.1 = (self.1 + read) % self.0.len();
            Ok(read)
        }
    }
    let mut input = Input::from_read(Path::new("bomb"), Endless(member, 0), None).unwrap();
    let refused = loop {
        match input.records(1 << 16, 1) {
            Ok(bytes) => assert!(!bytes.is_empty()),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, TraceError::Expansion { .. }), "{refused}");
}
