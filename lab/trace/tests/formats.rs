//! A few lines or records of each format, written by hand, and what becomes of them.

use pantler_trace::{Columns, Format, ReadOptions, Reader, Request, TraceError};

fn options(format: Option<Format>) -> ReadOptions {
    ReadOptions { format, ..ReadOptions::default() }
}

fn read(bytes: &[u8], options: &ReadOptions) -> Result<(Vec<Request>, Reader), TraceError> {
    let mut reader = Reader::from_read("sample", std::io::Cursor::new(bytes.to_vec()), options)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.fill(&mut batch)? {
        all.extend_from_slice(&batch);
    }
    Ok((all, reader))
}

/// Reads a sample by its guessed format and by the named one; both must give the same.
fn guessed(bytes: &[u8], format: Format) -> (Vec<Request>, Reader) {
    let (named, _) = read(bytes, &options(Some(format))).unwrap_or_else(|error| panic!("{error}"));
    let (requests, reader) = read(bytes, &options(None)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reader.format(), format);
    assert_eq!(requests, named);
    (requests, reader)
}

fn objects(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| request.object).collect()
}

/// The message for a sample that cannot be read.
fn refused(bytes: &[u8], options: &ReadOptions) -> String {
    match read(bytes, options) {
        Ok((requests, reader)) => panic!("{requests:?} as {}", reader.format()),
        Err(error) => error.to_string(),
    }
}

fn ranges(requests: &[Request]) -> Vec<(u32, u64, u32, bool)> {
    requests.iter().map(|request| (request.file, request.offset, request.length, request.write)).collect()
}

#[test]
fn lirs() {
    let (requests, _) = guessed(b"17\n*\n0\r\n\n17\n", Format::Lirs);
    assert_eq!(objects(&requests), [17, 0, 17]);
    let message = refused(b"17\n1 7\n", &options(Some(Format::Lirs)));
    assert_eq!(message, "sample: line 2: \"1 7\": expected one block number in a line");
}

#[test]
fn arc() {
    let (requests, _) = guessed(b"100 3 0 0\n5 1 0 1\n7 0 0 2\n", Format::Arc);
    let seen: Vec<(u64, u32)> = requests.iter().map(|request| (request.object, request.objects)).collect();
    assert_eq!(seen, [(100, 3), (5, 1)]);
    assert_eq!(ranges(&requests)[0], (0, 51_200, 1536, false));
    for (line, word) in [
        ("1 2 3", "1 2 3"),
        ("1 9999999 0 0", "9999999"),
        ("x 1 0 0", "x"),
        ("36028797018963968 1 0 0", "36028797018963968"),
    ] {
        let text = format!("1 1 0 0\n{line}\n");
        let message = refused(text.as_bytes(), &options(Some(Format::Arc)));
        assert!(message.starts_with(&format!("sample: line 2: {word:?}: expected ")), "{message}");
    }
}

#[test]
fn msr() {
    let text = b"128166372003061629,hm,1,Read,383496192,32768,413\n\
                 128166372013061629,hm,0,Write,0,512,61\n\
                 128166372013061630,hm,1,Read,383496192,512,61\n";
    let (requests, reader) = guessed(text, Format::Msr);
    assert_eq!(
        ranges(&requests),
        [(0, 383_496_192, 32_768, false), (1, 0, 512, true), (0, 383_496_192, 512, false)]
    );
    assert_eq!(reader.file_names(), ["hm.1", "hm.0"]);
    let message = refused(b"128166372003061629,hm,1,Erase,1,1,1\n", &options(Some(Format::Msr)));
    assert_eq!(message, "sample: line 1: \"Erase\": expected Read or Write as fourth field");
}

#[test]
fn csv_by_its_first_line() {
    let text = b"owner,file,block\ncscope,index,17\ngrep,\"a, b\",17\ncscope,index,18\n";
    let (requests, reader) = guessed(text, Format::Csv);
    let seen: Vec<(u32, u32, u64)> = requests.iter().map(|r| (r.owner, r.file, r.object)).collect();
    assert_eq!(seen, [(0, 0, 17), (1, 1, 17), (0, 0, 18)]);
    assert_eq!(
        (reader.owner_names(), reader.file_names()),
        (&["cscope".into(), "grep".into()][..], &["index".into(), "a, b".into()][..])
    );
    assert!(!reader.has_ranges());
    // What else stands there is ignored, and so is a mark that editors put first.
    let text = "\u{feff}colour;time_ms;LBN;size;op\nred;1.5;8;4096;w\nred;2;9;512;r\n";
    let (requests, reader) = guessed(text.as_bytes(), Format::Csv);
    assert_eq!(ranges(&requests), [(0, 4096, 4096, true), (0, 4608, 512, false)]);
    assert!(reader.has_ranges());
}

/// Times as the world writes them are no reason to refuse a trace, and sizes in floating point are
/// none either.
#[test]
fn csv_whose_times_are_no_seconds_from_0() {
    for time in ["1700000000123", "2024-01-01T00:00:00Z", "-1", "", "99999999999999999999"] {
        let text = format!("timestamp,key,size\n{time},7,4096\n{time},8,100.0\n");
        let (requests, _) = guessed(text.as_bytes(), Format::Csv);
        assert_eq!(objects(&requests), [7, 8], "{time}");
        assert_eq!((requests[0].length, requests[1].length), (4096, 100));
    }
}

#[test]
fn csv_with_a_header_is_told_its_own_mistakes() {
    let message = |text: &str| refused(text.as_bytes(), &options(None));
    assert_eq!(
        message("key,size\n1,4294967296\n2,4294967296\n3,4294967296\n"),
        "sample: line 2: \"4294967296\": expected a size below 4 GiB, or --columns without a column of sizes"
    );
    assert_eq!(message("key;size\n1;-5\n2;x\n3;\n"), "sample: line 2: \"-5\": expected a size in bytes");
    assert!(message("this page is prose\nand\nno\ntrace\n").contains("text of no known trace format"));
}

#[test]
fn marks_of_editors_and_ends_of_lines() {
    let (requests, reader) = guessed(b"\xef\xbb\xbf1\n2\n1\n", Format::Lirs);
    assert_eq!((objects(&requests), reader.note()), (vec![1, 2, 1], None));
    for (text, format) in [("1\n2\n12", Format::Lirs), ("key\n1\n12", Format::Csv)] {
        let (_, reader) = guessed(text.as_bytes(), format);
        assert_eq!(reader.note(), Some("line 3, the last one, has no end: it may be cut"));
    }
    let (_, reader) = guessed(b"1\n2\n1\n\x1a", Format::Lirs);
    assert_eq!(reader.note(), None, "an end of file as DOS writes it");
}

#[test]
fn msr_with_a_first_line_of_names() {
    let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
                128166372003061629,hm,1,Read,383496192,32768,41286\n\
                128166372016382155,hm,1,Write,310738944,16384,24100\n";
    let (requests, reader) = guessed(text.as_bytes(), Format::Msr);
    assert_eq!((objects(&requests), reader.note()), (vec![383_496_192, 310_738_944], None));
    assert_eq!(reader.file_names(), ["hm.1"]);
}

#[test]
fn csv_by_columns() {
    let columns =
        |text: &str| ReadOptions { columns: Some(text.parse::<Columns>().unwrap()), ..options(None) };
    let text = b"7\tred\tcscope\n8\tred\tgrep\n";
    let (requests, reader) = read(text, &columns("block,-,owner")).unwrap();
    assert_eq!(objects(&requests), [7, 8]);
    assert_eq!(reader.owner_names(), ["cscope", "grep"]);
    let (requests, _) = read(text, &columns("owner=3,block=1")).unwrap();
    assert_eq!(objects(&requests), [7, 8]);
    let named = b"what,who\n7,cscope\n";
    let (requests, reader) = read(named, &columns("block=what,owner=who")).unwrap();
    assert_eq!((objects(&requests), reader.owner_names()), (vec![7], &["cscope".to_owned()][..]));
    let (requests, _) = read(b"block,x\n7,1\n", &columns("block,-")).unwrap();
    assert_eq!(objects(&requests), [7], "a first line of names");
    // Text is a key too, and stays one.
    let (requests, _) = read(b"a1,x\nb2,x\n12,x\na1,x\n", &columns("block,-")).unwrap();
    assert_eq!(requests[0].object, requests[3].object);
    assert!(requests[2].object != 12 && requests[0].object != requests[1].object);
    for (text, message) in [
        (&b"7,a\nx,a\n"[..], "sample: line 2: \"x\": expected a block number, as in the lines before"),
        (b"7,a\n8\n", "sample: line 2: \"8\": expected as many fields as there are columns"),
        (b"7,a\n,a\n", "sample: line 2: \"\": expected a block"),
    ] {
        assert_eq!(refused(text, &columns("block,owner")), message);
    }
    let message = refused(b"a,b\n1,2\n", &options(Some(Format::Csv)));
    assert!(
        message.contains("line 1: \"a,b\": expected a first line with names")
            && message.contains("--columns"),
        "{message}"
    );
    for bad in ["", "owner", "block=0", "size,block,colour"] {
        assert!(bad.parse::<Columns>().unwrap_err().to_string().contains("expected one of owner"), "{bad}");
    }
}

/// Block traces with commas between their fields are CSV, with or without a first line of names.
#[test]
fn csv_of_disks() {
    let text = b"0,20941264,8192,W,0.551706\n0,20939840,8192,w,0.554041\n1,3436288,15872,r,1.011732,extra\n";
    let columns = "file,sector,size,op,time".parse().unwrap();
    let (requests, reader) = read(text, &ReadOptions { columns: Some(columns), ..options(None) }).unwrap();
    assert_eq!(
        ranges(&requests),
        [
            (0, 20_941_264 * 512, 8192, true),
            (0, 20_939_840 * 512, 8192, true),
            (1, 3_436_288 * 512, 15_872, false)
        ]
    );
    assert_eq!(reader.file_names(), ["0", "1"]);
    let text = b"version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,4096,42936149\n";
    let (requests, _) = guessed(text, Format::Csv);
    assert_eq!(ranges(&requests), [(0, 42_932_745 * 512, 512, true), (0, 42_936_149 * 512, 4096, false)]);
}

#[test]
fn hash_ids() {
    let text = b"{\"timestamp\": 3, \"hash_ids\": [0, 5]}\n{\"timestamp\": 4, \"hash_ids\": []}\n{\"hash_ids\": [5], \"x\": {}}\n";
    let (requests, _) = guessed(text, Format::HashIds);
    assert_eq!(objects(&requests), [0, 5, 5]);
    let message = refused(b"{\"hash_ids\": [1]}\n{\"hash_ids\": [-1]}\n", &options(None));
    assert!(message.starts_with("sample: line 2: "), "{message}");
}

fn oracle_general_record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
    [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
}

#[test]
fn oracle_general() {
    let records = [(1, 1 << 40, 4096, 2), (1, 7, 512, -1), (2, 1 << 40, 4096, -1)];
    let mut bytes: Vec<u8> =
        records.iter().flat_map(|&(t, o, s, n)| oracle_general_record(t, o, s, n)).collect();
    let (requests, _) = guessed(&bytes, Format::OracleGeneral);
    assert_eq!(objects(&requests), [1 << 40, 7, 1 << 40]);
    assert_eq!(requests[1].length, 512);
    bytes.pop();
    let message = refused(&bytes, &options(Some(Format::OracleGeneral)));
    assert_eq!(message, "sample: byte 48: \"23 bytes\": expected a whole record; the file is cut");
}

#[test]
fn vscsi() {
    let one = |sector: u64, command: u16| {
        let parts: [&[u8]; 7] = [
            &9_u32.to_le_bytes(),
            &4096_u32.to_le_bytes(),
            &1_u32.to_le_bytes(),
            &command.to_le_bytes(),
            &[0, 1],
            &sector.to_le_bytes(),
            &77_u64.to_le_bytes(),
        ];
        parts.concat()
    };
    let two = |sector: u64, command: u16| {
        let parts: [&[u8]; 8] = [
            &command.to_le_bytes(),
            &[0, 2],
            &9_u32.to_le_bytes(),
            &4096_u32.to_le_bytes(),
            &1_u32.to_le_bytes(),
            &sector.to_le_bytes(),
            &77_u64.to_le_bytes(),
            &[0; 8],
        ];
        parts.concat()
    };
    for mut bytes in [
        [one(8, 0x28), one(16, 0x2a), one(8, 0x28)].concat(),
        [two(8, 0x28), two(16, 0x2a), two(8, 0x28)].concat(),
    ] {
        let (requests, _) = guessed(&bytes, Format::Vscsi);
        assert_eq!(
            ranges(&requests),
            [(0, 4096, 4096, false), (0, 8192, 4096, true), (0, 4096, 4096, false)]
        );
        let width = bytes.len() / 3;
        let version = if width == 32 { 15 } else { 3 };
        bytes[width + version] = 9;
        let message = refused(&bytes, &options(Some(Format::Vscsi)));
        assert!(message.starts_with(&format!("sample: byte {width}: \"9\": expected version ")), "{message}");
    }
}

#[test]
fn big_endian_keys() {
    let four: Vec<u8> = [7_u32, 8, 7, 70_000].iter().flat_map(|key| key.to_be_bytes()).collect();
    let (requests, reader) = guessed(&four, Format::Keys32);
    assert_eq!(objects(&requests), [7, 8, 7, 70_000]);
    assert!(reader.note().unwrap().contains("--format"), "a guess that says so");
}

#[test]
fn what_is_no_trace_is_told_so() {
    assert_eq!(refused(b"", &options(None)), "sample: the file is empty: a trace has at least one request");
    for bytes in [
        &b"hello world\nthis is prose\n"[..],
        b"\x7fELF\x02\x01\x01\0\0\0\x80\xff\x13\x77\x91\xc3",
        b"<html>\n<p>1</p>\n",
    ] {
        let message = refused(bytes, &options(None));
        assert!(message.contains("of no known trace format: --format names one of lirs, arc"), "{message}");
    }
    assert!(refused(b"*\n*\n", &options(Some(Format::Lirs))).contains("no request in it as lirs"));
}

/// A binary format takes whatever bytes there are, so what was named is looked at before it is
/// believed.
#[test]
fn a_named_format_is_not_believed_of_something_else() {
    let lis = "100 3 0 0\n5 1 0 1\n7 1 0 2\n".repeat(9);
    for format in [Format::Lirs, Format::Vscsi] {
        let expected = "sample: the file is empty: a trace has at least one request";
        assert_eq!(refused(b"", &options(Some(format))), expected);
    }
    let prose = "# A trace\n\nThis file says what is in the others.\n";
    let binary = [Format::OracleGeneral, Format::Vscsi, Format::Keys32];
    for format in binary {
        assert_eq!(
            refused(lis.as_bytes(), &options(Some(format))),
            format!(
                "sample: byte 0: \"100 3 0 0\": expected {format}, and this is text, as arc: leave --format out, or name arc"
            )
        );
        let message = refused(prose.as_bytes(), &options(Some(format)));
        let expected = format!(
            "sample: byte 0: \"# A trace\": expected {format}, and this is text of no known trace format: "
        );
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.ends_with("--format names one of lirs, arc, hash-ids, msr, csv"), "{message}");
    }
    let oracle: Vec<u8> =
        (0..20).flat_map(|at| oracle_general_record(at, u64::from(at) % 7, 1, -1)).collect();
    for format in [Format::Lirs, Format::Arc, Format::Csv, Format::Msr, Format::HashIds] {
        let message = refused(&oracle, &options(Some(format)));
        assert!(message.starts_with("sample: byte 0: \""), "{message}");
        let expected = format!(
            ": expected {format}, and this is binary data, as oracle-general: leave --format out, or name oracle-general"
        );
        assert!(message.ends_with(&expected), "{message}");
    }
    let columns: Columns = "block".parse().unwrap();
    let by_columns = ReadOptions { columns: Some(columns), ..ReadOptions::default() };
    assert!(refused(&oracle, &by_columns).contains("expected csv, and this is binary data"));
    // Records have no version where vscsi keeps it, and look right as another format.
    let message = refused(&oracle, &options(Some(Format::Vscsi)));
    assert!(message.ends_with("expected vscsi, and this is binary data, as oracle-general: leave --format out, or name oracle-general"), "{message}");
    // Keys that could be letters are believed.
    let letters: Vec<u8> = (0..64_u32).flat_map(|key| (0x6161_6161 + key % 9).to_be_bytes()).collect();
    assert_eq!(read(&letters, &options(Some(Format::Keys32))).unwrap().0.len(), 64);
}

#[test]
fn a_line_too_long_is_one_bad_line_or_more_but_never_memory() {
    let long = vec![b'1'; 5 << 20];
    let message = refused(&long, &options(Some(Format::Lirs)));
    assert!(
        message.starts_with("sample: line 1: \"111") && message.ends_with("a line of less than a mebibyte"),
        "{message}"
    );
    assert!(message.len() < 200);
}

#[test]
fn a_missing_file_is_told_by_name() {
    let error = Reader::open("no/such/trace".as_ref(), &options(None)).err().unwrap();
    assert!(error.to_string().starts_with("cannot open no/such/trace: "), "{error}");
    let error = Reader::open("/".as_ref(), &options(None)).err().unwrap();
    assert!(error.to_string().starts_with("cannot read /: "), "{error}");
}
