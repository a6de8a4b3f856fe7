//! Results as CSV (RFC 4180): one row per run, and one per owner after it.

use crate::record::Record;

/// Names of the columns.
const HEADER: &str = "trace,policy,allocation,size,owner,requests,misses,hit_ratio,byte_hit_ratio,hit_ratio_error,overrules,mistakes";

/// All results, with a header. Fields without a value are empty; the owner of a whole run is empty,
/// too.
pub fn csv(records: &[Record]) -> String {
    let mut text = format!("{HEADER}\n");
    for record in records {
        let (requests, misses) = record.counts();
        let optional = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let (ratio, bytes, error) = (record.hit_ratio(), record.byte_hit_ratio(), record.error());
        let start = start(record);
        let all = format!("{requests},{misses},{ratio},{},{}", optional(bytes), optional(error));
        text += &format!("{start},,{all},,\n");
        match record {
            Record::Policy(record) => {
                for (name, owner) in &record.owners.0 {
                    let counts = counts(owner);
                    text += &format!("{start},{},{counts},,,,\n", field(name));
                }
            }
            Record::Sharing(record) => {
                for (name, owner) in &record.owners.0 {
                    let counts = counts(&owner.counts);
                    let (overrules, mistakes) = (owner.overrules, owner.mistakes);
                    text += &format!("{start},{},{counts},,,{overrules},{mistakes}\n", field(name));
                }
            }
        }
    }
    text
}

fn start(record: &Record) -> String {
    let (policy, allocation) = match record {
        Record::Policy(_) => (record.name(), ""),
        Record::Sharing(_) => ("", record.name()),
    };
    format!("{},{},{},{}", field(record.trace()), field(policy), field(allocation), record.size())
}

fn counts(counts: &crate::Counts) -> String {
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
