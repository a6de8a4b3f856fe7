//! A directory as a page.

use bytes::Bytes;
use html_escape::encode_quoted_attribute as escaped;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use std::fmt::Write;
use std::io;
use std::os::fd::OwnedFd;

use crate::buffers::Held;

/// Most entries that are listed.
const ENTRIES_MAX: usize = 10_000;
/// Bytes that are escaped in a link.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A page of links to what lies in a directory, sorted by name, directories with a slash. Its
/// memory, that of the names too, counts as long as it is there.
///
/// # Errors
/// The system's, and `NOMEM` when there is no room for it.
pub fn page(directory: OwnedFd, path: &str, hidden: bool, mut held: Held) -> io::Result<Bytes> {
    let mut names: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut is_cut = false;
    for entry in rustix::fs::Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || (!hidden && name.starts_with(b".")) {
            continue;
        }
        if names.len() == ENTRIES_MAX {
            is_cut = true;
            break;
        }
        held.grow(size_of::<(Vec<u8>, bool)>() + name.len())?;
        names.push((name.to_owned(), entry.file_type() == rustix::fs::FileType::Directory));
    }
    names.sort();
    let title = escaped(path);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    if path != "/" {
        text.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    let mut counted = 0;
    for (name, is_directory) in names {
        held.grow(text.capacity() - counted)?;
        counted = text.capacity();
        let slash = if is_directory { "/" } else { "" };
        let text_of_name = String::from_utf8_lossy(&name);
        let shown = escaped(&text_of_name);
        // `./` keeps a name with a colon from being a scheme.
        let _ = writeln!(
            text,
            "<li><a href=\"./{}{slash}\">{shown}{slash}</a></li>",
            percent_encode(&name, NAME)
        );
    }
    text.push_str("</ul>\n");
    if is_cut {
        let _ = writeln!(text, "<p>Only {ENTRIES_MAX} entries are shown.</p>");
    }
    text.push_str("</html>\n");
    Ok(held.freeze(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Buffers;

    #[test]
    fn names_do_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["<script>", "a b", "javascript:x", ".hidden", "ü"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let open = || std::fs::File::open(folder.path()).unwrap().into();
        let buffers = Buffers::new(1 << 20);
        let page = |path, hidden| {
            let bytes = page(open(), path, hidden, buffers.hold()).unwrap();
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        let text = page("/x/", false);
        assert!(text.contains("href=\"./%3Cscript%3E\">&lt;script&gt;<"), "{text}");
        assert!(text.contains("href=\"./javascript%3Ax\""));
        assert!(text.contains("href=\"./d/\">d/<") && text.contains("../"));
        assert!(!text.contains(".hidden") && page("/", true).contains(".hidden"));
    }
}
