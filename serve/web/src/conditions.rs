//! Whether the conditions of a request hold (RFC 9110, section 13). Pure.

use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use std::time::SystemTime;

/// What names the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// As sent: in quotes, and with `W/` before it if the file may still change without showing it.
    pub etag: String,
    /// Of the last change, in whole seconds: the finest that HTTP can say. Nothing as long as there
    /// may be another change in the same second, which the date would not tell.
    pub modified: Option<SystemTime>,
}

/// What the conditions say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Send it.
    Proceed,
    /// The client has it: 304.
    NotModified,
    /// The client meant another: 412.
    Failed,
}

/// Evaluates the conditions in the order of RFC 9110, section 13.2.2, for GET and HEAD of a file
/// that is there. A date of what has none is ignored (sections 13.1.3 and 13.1.4).
pub fn evaluate(headers: &HeaderMap, validators: &Validators) -> Verdict {
    if headers.contains_key(IF_MATCH) {
        if !lists(headers, &IF_MATCH, |tag| strong(tag, &validators.etag)) {
            return Verdict::Failed;
        }
    } else if let Some((date, modified)) = date(headers, &IF_UNMODIFIED_SINCE).zip(validators.modified)
        && modified > date
    {
        return Verdict::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if lists(headers, &IF_NONE_MATCH, |tag| weak(tag, &validators.etag)) {
            return Verdict::NotModified;
        }
    } else if let Some((date, modified)) = date(headers, &IF_MODIFIED_SINCE).zip(validators.modified)
        && modified <= date
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether a `Range` field counts: without `If-Range`, or when that names what is there now.
pub fn range_counts(headers: &HeaderMap, validators: &Validators) -> bool {
    let Some(field) = headers.get(IF_RANGE) else { return true };
    let Ok(field) = field.to_str().map(str::trim) else { return false };
    if field.starts_with('"') || field.starts_with("W/") {
        return strong(field, &validators.etag);
    }
    // A date must match exactly, and is a strong validator only when the tag is (section 8.8.2.2).
    !validators.etag.starts_with("W/")
        && httpdate::parse_http_date(field).is_ok_and(|date| Some(date) == validators.modified)
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    // What is no date is ignored (section 13.1.3).
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?.trim()).ok()
}

/// Whether a list of tags is `*` or has one that fits.
fn lists(headers: &HeaderMap, name: &HeaderName, fits: impl Fn(&str) -> bool) -> bool {
    let fields = headers.get_all(name).iter().filter_map(|field| field.to_str().ok());
    let mut fields = fields.map(str::trim);
    fields.any(|field| field == "*" || tags(field).any(&fits))
}

/// The tags of a list. A comma may stand within the quotes of one.
fn tags(field: &str) -> impl Iterator<Item = &str> {
    let mut rest = field;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let quoted = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let length = rest.len() - quoted.len() + quoted.find('"')? + 1;
        let (tag, after) = rest.split_at(length);
        rest = after;
        Some(tag)
    })
}

fn strong(one: &str, other: &str) -> bool {
    !one.starts_with("W/") && one == other
}

fn weak(one: &str, other: &str) -> bool {
    one.trim_start_matches("W/") == other.trim_start_matches("W/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn validators(etag: &str) -> Validators {
        Validators { etag: etag.into(), modified: Some(UNIX_EPOCH + Duration::from_secs(784_111_777)) }
    }

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_whole_matrix() {
        use Verdict::{Failed, NotModified, Proceed};
        let matches = [(None, true, true), (Some("\"a\""), true, true), (Some("\"b\""), false, false)];
        let matches = matches.into_iter().chain([
            (Some("*"), true, true),
            (Some("\"b\", \"a\""), true, true),
            (Some("\"b,\", W/\"a\""), false, true),
            (Some("nonsense"), false, false),
        ]);
        let dates = [
            (None, None),
            (Some(BEFORE), Some(false)),
            (Some(AT), Some(true)),
            (Some(AFTER), Some(true)),
            (Some("x"), None),
        ];
        for (tag, fits_strong, fits_weak) in matches {
            for (date, is_since) in dates {
                let mut failing = Vec::new();
                let mut passing = Vec::new();
                if let Some(tag) = tag {
                    failing.push((IF_MATCH, tag));
                    passing.push((IF_NONE_MATCH, tag));
                }
                if let Some(date) = date {
                    failing.push((IF_UNMODIFIED_SINCE, date));
                    passing.push((IF_MODIFIED_SINCE, date));
                }
                // A tag takes precedence over a date in both pairs.
                let holds = if tag.is_some() { fits_strong } else { is_since.unwrap_or(true) };
                let expected = if holds { Proceed } else { Failed };
                assert_eq!(evaluate(&headers(&failing), &validators("\"a\"")), expected, "{failing:?}");
                let known = if tag.is_some() { fits_weak } else { is_since.unwrap_or(false) };
                let expected = if known { NotModified } else { Proceed };
                assert_eq!(evaluate(&headers(&passing), &validators("\"a\"")), expected, "{passing:?}");
            }
        }
    }

    #[test]
    fn a_weak_tag_never_matches_strongly() {
        let weak = validators("W/\"a\"");
        assert_eq!(evaluate(&headers(&[(IF_MATCH, "W/\"a\"")]), &weak), Verdict::Failed);
        assert_eq!(evaluate(&headers(&[(IF_NONE_MATCH, "\"a\"")]), &weak), Verdict::NotModified);
    }

    #[test]
    fn what_has_no_date_is_neither_older_nor_younger_than_any() {
        let young = Validators { modified: None, ..validators("\"a\"") };
        for name in [IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
            for date in [BEFORE, AT, AFTER] {
                assert_eq!(evaluate(&headers(&[(name.clone(), date)]), &young), Verdict::Proceed);
            }
        }
        assert!(!range_counts(&headers(&[(IF_RANGE, AT)]), &young));
    }

    #[test]
    fn failing_comes_before_not_modified() {
        let both = headers(&[(IF_MATCH, "\"b\""), (IF_NONE_MATCH, "\"a\"")]);
        assert_eq!(evaluate(&both, &validators("\"a\"")), Verdict::Failed);
    }

    #[test]
    fn if_range_needs_exactly_what_is_there() {
        for (field, counts) in [
            ("\"a\"", true),
            ("\"b\"", false),
            ("W/\"a\"", false),
            (AT, true),
            (BEFORE, false),
            (AFTER, false),
            ("junk", false),
        ] {
            assert_eq!(range_counts(&headers(&[(IF_RANGE, field)]), &validators("\"a\"")), counts, "{field}");
        }
        assert!(range_counts(&headers(&[]), &validators("\"a\"")));
        assert!(!range_counts(&headers(&[(IF_RANGE, AT)]), &validators("W/\"a\"")));
    }
}
