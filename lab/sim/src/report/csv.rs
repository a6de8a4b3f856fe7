//! Results as CSV (RFC 4180): one row per run, and one per owner after it.

use crate::outcome::Counts;
use crate::record::Record;

/// Names of the columns.
const HEADER: &str =
    "trace,policy,allocation,size,owner,requests,misses,hit_ratio,byte_hit_ratio,overrules,mistakes";

/// All results, with a header. Fields without a value are empty; the owner of a whole run is empty,
/// too.
pub fn csv(records: &[Record]) -> String {
    let mut text = format!("{HEADER}\n");
    for record in records {
        let shown = field(&record.shown);
        let (policy, allocation) = if record.policy.is_some() { (shown.as_str(), "") } else { ("", &*shown) };
        let start = format!("{},{policy},{allocation},{}", field(&record.trace), record.size);
        text += &format!("{start},,{},{},,\n", counts(&record.counts), optional(record.byte_hit_ratio));
        for (name, owner) in &record.owners {
            let (overrules, mistakes) = (optional(owner.overrules), optional(owner.mistakes));
            text += &format!("{start},{},{},,{overrules},{mistakes}\n", field(name), counts(&owner.counts));
        }
    }
    text
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn counts(counts: &Counts) -> String {
    format!("{},{},{}", counts.requests, counts.misses, counts.hit_ratio())
}

/// A field, in quotes where it needs them.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        for (text, expected) in [("a", "a"), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""), ("", "")] {
            assert_eq!(field(text), expected);
        }
    }
}
