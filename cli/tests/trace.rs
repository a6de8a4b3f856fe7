//! Transcripts of `pantler trace`: what is written reads back, and mistakes are told.

use std::process::{Command, Stdio};

/// Status, standard output, standard error.
fn trace(words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.arg("trace").args(words).env_remove("PANTLER_LOG").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn what_is_generated_converts_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (one, two) = (path("one"), path("two"));
    assert_eq!(trace(&["generate", "loop:ids=3,requests=7", &one]), (0, String::new(), String::new()));
    assert_eq!(trace(&["convert", &one, &two]).0, 0);
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    for file in [&one, &two] {
        let (status, out, err) = trace(&["info", file, "--json"]);
        let told: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((status, err.as_str(), &told["format"]), (0, "", &"csv".into()));
        assert_eq!(
            (&told["kind"], &told["references"], &told["distinct"]),
            (&"trace".into(), &7.into(), &3.into())
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left behind");
}

#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad");
    std::fs::write(&bad, "1\nx\n2\n").unwrap();
    let (bad, out) = (bad.to_str().unwrap(), folder.path().join("out"));
    let (status, stdout, err) = trace(&["convert", bad, out.to_str().unwrap(), "--format", "lirs"]);
    assert_eq!((status, stdout.as_str(), out.exists()), (1, "", false));
    assert!(err.contains("line 2: \"x\": expected one block number in a line"), "{err}");
    assert_eq!(trace(&["info", bad, "--format", "nothing"]).0, 2);
    assert_eq!(trace(&["generate", "zipf:ids=5", out.to_str().unwrap()]).0, 2);
    assert!(trace(&["formats"]).1.contains("zipf"));
}

#[test]
fn generators_are_listed_and_typos_named() {
    let (status, help, err) = trace(&["generate", "help"]);
    assert_eq!((status, err.as_str()), (0, ""));
    for (name, parameters, description) in pantler_trace::generate::GENERATORS {
        assert!(
            help.contains(&format!("  {name:<16} {description}\n")) && help.contains(parameters),
            "{help}"
        );
    }
    assert!(trace(&["formats"]).1.ends_with(&help), "both lists are one");
    let list = "expected one of zipf, uniform, loop, scan, two-pool, stack-distance, phases, mix \
                before the colon (did you mean \"zipf\"?); pantler trace generate help lists their parameters\n";
    for (words, said) in [
        ("zipff:ids=5,requests=9", format!("\"zipff:ids=5,requests=9\": {list}")),
        ("zipf:id=5,requests=9", "\"id=5\": expected ids=NUMBER (did you mean \"ids\"?)\n".to_owned()),
        (
            "zipf:ids=5,requests=9,alhpa=2",
            "\"alhpa=2\": expected one of first, alpha, ids, order, seed, requests, each once (did you mean \"alpha\"?)\n"
                .to_owned(),
        ),
        (
            "uniform:ids=5",
            "\"uniform:ids=5\": expected requests=NUMBER in it: uniform takes ids, requests, seed=1\n".to_owned(),
        ),
    ] {
        let expected = (2, String::new(), format!("pantler: trace specification {said}"));
        assert_eq!(trace(&["generate", words, "/no/such/folder/file"]), expected);
        assert_eq!(trace(&["info", words]), expected, "a misspelt generator is no missing file");
    }
    let (status, _, err) = trace(&["info", "/no/such/trace"]);
    assert!(status == 2 && err.contains("/no/such/trace"), "{status} {err}");
    let (status, _, err) = trace(&["generate", "loop:ids=3,requests=7"]);
    assert_eq!((status, err.as_str()), (2, "pantler: expected a file to write behind the specification\n"));
    let (status, _, err) = trace(&["info", "/no/such/a:b=c"]);
    assert!(status == 2 && err.starts_with("pantler: cannot open /no/such/a:b=c: "), "{err}");
}

/// Sectors count as objects by default, in whatever form they are kept, and can still be counted in
/// blocks.
#[test]
fn what_is_converted_counts_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (arc, sectors) = (path("arc"), path("sectors"));
    std::fs::write(&arc, "0 16 0 0\n8 4 0 1\n1000 1 0 2\n0 16 0 3\n").unwrap();
    std::fs::write(&sectors, "file,sector,size,op\n0,7,4096,r\n1,8,512,W\n0,7,512,r\n").unwrap();
    for trace_file in [&arc, &sectors] {
        for unit in [&[][..], &["--unit", "block:4096"], &["--unit", "object"]] {
            let content = |file: &str| {
                let (status, out, err) = trace(&[&["info", file, "--json"], unit].concat());
                assert_eq!(status, 0, "{err}");
                let told: serde_json::Value = serde_json::from_str(&out).unwrap();
                ["unit", "references", "distinct", "owners", "files"].map(|field| told[field].clone())
            };
            let before = content(trace_file);
            let converted = path("converted");
            assert_eq!(trace(&["convert", trace_file, &converted]).0, 0);
            assert_eq!(content(&converted), before, "{trace_file} {unit:?}");
        }
    }
}
