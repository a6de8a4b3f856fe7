//! The name that was probably meant.

/// The text behind an unknown name: the name that was perhaps meant, after a space, or nothing.
pub fn perhaps<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!(" (did you mean {near:?}?)"))
}

/// The same for a message that names what is known, as serde's do: unknown field `colour`, expected
/// one of `glob`, `priority`.
pub fn perhaps_of(message: &str) -> String {
    let name_and_known = || {
        let (_, unknown) = message.split_once("unknown ")?;
        let (before, known) = unknown.split_once("`, expected ")?;
        Some((before.split_once('`')?.1, known))
    };
    let Some((name, known)) = name_and_known() else { return String::new() };
    let words = known.split(|c: char| !c.is_alphanumeric() && !"-_".contains(c));
    perhaps(name, words.filter(|word| !["", "one", "of", "or"].contains(word)))
}

/// The known name that needs the fewest edits (insert, delete, replace, swap neighbours), if any
/// looks alike. Of equally near ones the first. Edits of hyphens count last: `s3fifo` is nearer to
/// `s3-fifo` than to `sfifo`.
///
/// ```
/// use pantler_trace::nearest;
/// assert_eq!(nearest("sive", ["lru", "sieve"]), Some("sieve"));
/// assert_eq!(nearest("s3fifo", ["sfifo", "s3-fifo"]), Some("s3-fifo"));
/// assert_eq!(nearest("banana", ["lru", "sieve"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let bare = |name: &str| name.replace(['-', '_'], "");
    let distances = |other: &str| {
        let other = other.to_lowercase();
        (strsim::osa_distance(&bare(&name), &bare(&other)), strsim::osa_distance(&name, &other))
    };
    let near = known.into_iter().map(|other| (distances(other), other)).min_by_key(|&(edits, _)| edits);
    // The longer a name, the more edits leave it alike.
    let most = 1 + name.chars().count() / 4;
    near.filter(|&((_, edits), _)| edits <= most).map(|(_, other)| other)
}
