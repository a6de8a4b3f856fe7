//! Recorded traces: what is written comes back, and what is damaged is told by its byte.

use pantler_trace::{
    Content, Format, Options, ReadOptions, Reader, Request, TraceError, Unit, WriteFormat, Writer,
    prepare_reader,
};
use proptest::prelude::*;

type Trace = (Vec<Request>, Vec<String>, Vec<String>);

fn write((requests, owners, files): &Trace, format: WriteFormat, content: Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, format, content).unwrap();
    for request in requests {
        writer.write(request, owners, files).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

fn read(bytes: &[u8], options: &ReadOptions) -> Result<(Trace, Format), TraceError> {
    let mut reader = Reader::from_read("sample", std::io::Cursor::new(bytes.to_vec()), options)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.fill(&mut batch)? {
        all.extend_from_slice(&batch);
    }
    let format = reader.format();
    let (owners, files) = reader.into_names();
    Ok(((all, owners, files), format))
}

fn trace() -> impl Strategy<Value = Trace> {
    let near = prop_oneof![0_u64..100_000, any::<u64>().prop_map(|offset| offset >> 1)];
    let request = (0_u32..3, 0_u32..4, near, any::<u32>(), any::<bool>(), any::<u64>());
    prop::collection::vec(request, 1..60).prop_map(|fields| {
        let requests = fields.iter().map(|&(owner, file, offset, length, write, time)| Request {
            time_ns: Some(time),
            owner,
            file,
            object: offset,
            objects: 1,
            offset,
            length,
            write,
        });
        let names = |count: usize| (0..count).map(|n| format!("name \"{n}\", ä")).collect();
        (requests.collect(), names(3), names(4))
    })
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![Just(Content::Ranges), Just(Content::Keys), Just(Content::KeyedRanges)]
}

/// With names by number in order of first use, as readers give them.
fn by_name((requests, owners, files): &Trace) -> Vec<(String, String, u64, u32, bool, Option<u64>)> {
    let name = |names: &[String], at: u32| names[at as usize].clone();
    let each = requests
        .iter()
        .map(|r| (name(owners, r.owner), name(files, r.file), r.object, r.length, r.write, r.time_ns));
    each.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_comes_back(trace in trace(), content in content()) {
        let forms = [
            (WriteFormat::Recorded, Format::Recorded),
            (WriteFormat::RecordedJson, Format::RecordedJson),
            (WriteFormat::Csv, Format::Csv),
        ];
        for (form, format) in forms {
            let bytes = write(&trace, form, content);
            let (back, guessed) = read(&bytes, &ReadOptions::default()).unwrap();
            prop_assert_eq!(guessed, format);
            prop_assert_eq!(by_name(&back), by_name(&trace));
            let reader = Reader::from_read("x", std::io::Cursor::new(bytes), &ReadOptions::default()).unwrap();
            let few = Options { references_max: Some(5), ..Options::default() };
            let unit = prepare_reader(reader, &few).unwrap().1.unit;
            let object = content != Content::Ranges || form == WriteFormat::Csv;
            prop_assert_eq!(unit, if object { Unit::Object } else { Unit::Block(4096) });
        }
    }

    #[test]
    fn a_trace_cut_anywhere_is_an_error_that_names_the_byte(trace in trace()) {
        let bytes = write(&trace, WriteFormat::Recorded, Content::Ranges);
        let options = ReadOptions { format: Some(Format::Recorded), ..ReadOptions::default() };
        let message = read(b"", &options).unwrap_err().to_string();
        prop_assert_eq!(message, "sample: the file is empty: a trace has at least one request");
        for cut in 1..bytes.len() {
            let message = read(&bytes[..cut], &options).unwrap_err().to_string();
            prop_assert!(message.starts_with("sample: byte "), "{}", message);
        }
        let skipping = ReadOptions { skip_bad_lines: true, ..options };
        let ((requests, ..), _) = read(&bytes[..bytes.len() - 1], &skipping).unwrap();
        prop_assert_eq!(requests, trace.0);
    }

    #[test]
    fn damage_is_an_error_or_another_trace_but_no_panic(trace in trace(), at in any::<prop::sample::Index>(), bits in 1_u8..) {
        let mut bytes = write(&trace, WriteFormat::Recorded, Content::Ranges);
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        let options = ReadOptions { format: Some(Format::Recorded), ..ReadOptions::default() };
        let _ = read(&bytes, &options);
    }
}

#[test]
fn a_sequential_read_takes_a_byte_for_each_request() {
    let request = |n: u64| Request {
        offset: n * 4096,
        object: n * 4096,
        objects: 1,
        length: 4096,
        ..Request::default()
    };
    let trace = ((0..1000).map(request).collect(), vec!["cscope".to_owned()], vec!["index".to_owned()]);
    let bytes = write(&trace, WriteFormat::Recorded, Content::Ranges);
    assert!(bytes.len() < 1050, "{} bytes", bytes.len());
}

/// The bytes of docs/FORMAT.md.
#[test]
fn the_bytes_are_those_of_the_document() {
    let request = |offset, length, write, time_ns| Request {
        time_ns,
        object: offset,
        objects: 1,
        offset,
        length,
        write,
        ..Request::default()
    };
    let requests = vec![request(0, 4096, false, Some(5)), request(4096, 4096, true, None)];
    let bytes = write(
        &(requests, vec!["ab".to_owned()], vec!["/f".to_owned()]),
        WriteFormat::Recorded,
        Content::Ranges,
    );
    let expected: &[&[u8]] = &[
        b"PANTLERT\x01\0\0\0\0\0\0\0",
        b"\x01\x02ab",
        b"\x02\x02/f",
        b"\xb0\x80\x20\x0a",
        b"\x81",
        b"\x00\x02",
    ];
    assert_eq!(bytes, expected.concat());
    let refused = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        let options = ReadOptions { format: Some(Format::Recorded), ..ReadOptions::default() };
        read(&bytes, &options).unwrap_err().to_string()
    };
    assert_eq!(refused(8, 2), "sample: byte 0: \"2\": expected version 1 of the format of recorded traces");
    assert_eq!(refused(24, 0x70), "sample: byte 24: \"112\": expected the first byte of a record");
    assert_eq!(refused(30, 3), "sample: byte 29: \"3\": expected as many requests at the end as there were");
}

/// Sectors of a disk: counted as objects, several in a row, and still ranges of bytes.
#[test]
fn what_counts_as_objects_still_does_when_it_comes_back() {
    let request = |sector: u64, sectors: u32| Request {
        object: sector,
        objects: sectors,
        offset: sector * 512,
        length: sectors * 512,
        ..Request::default()
    };
    let trace = (vec![request(7, 16), request(8, 1), request(100, 8)], Vec::new(), Vec::new());
    for form in [WriteFormat::Recorded, WriteFormat::RecordedJson, WriteFormat::Csv] {
        let bytes = write(&trace, form, Content::KeyedRanges);
        let prepared = |unit: Option<Unit>| {
            let options = ReadOptions::default();
            let reader = Reader::from_read("x", std::io::Cursor::new(bytes.clone()), &options).unwrap();
            prepare_reader(reader, &Options { unit, ..Options::default() }).unwrap().0
        };
        let objects = prepared(None);
        assert_eq!((objects.unit(), objects.requests().len(), objects.distinct()), (Unit::Object, 25, 24));
        assert!(objects.owner_names().is_empty() && objects.file_names().is_empty());
        let blocks = prepared(Some(Unit::Block(4096)));
        assert_eq!(blocks.requests(), [0, 1, 2, 1, 3, 4], "{form:?}");
    }
}
