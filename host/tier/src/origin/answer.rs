//! What a server says of files, read as what it is: input.

use pantler_origin::{Found, Object, Tag, Time};
use redis::Value;

use crate::files::{Identity, PATH_BYTES_MAX, PROTOCOL, Token};

/// The field of a map.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let is_name = |key: &Value| match key {
        Value::BulkString(key) => key == name.as_bytes(),
        Value::SimpleString(key) => key == name,
        _ => false,
    };
    map.as_map_iter()?.find(|(key, _)| is_name(key)).map(|(_, value)| value)
}

fn text<'a>(map: &'a Value, name: &str) -> Option<&'a str> {
    match field(map, name)? {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

fn number(map: &Value, name: &str) -> Option<i64> {
    match field(map, name)? {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

fn token(map: &Value, name: &str) -> Option<Token> {
    Token::parse(text(map, name)?.as_bytes())
}

/// The answer to `PANTLER.ORIGIN`.
pub(super) fn introduced(value: &Value) -> Option<Identity> {
    if number(value, "version")? != PROTOCOL {
        return None;
    }
    Some(Identity { origin: token(value, "identity")?.0, names: token(value, "names")?.0 })
}

/// What the map of a file says; an inner nothing where that is nothing to be shown.
pub(super) fn described(value: &Value) -> Option<Option<Found>> {
    Some(match text(value, "kind")? {
        "directory" => Some(Found::Directory),
        "link" => match field(value, "target")? {
            Value::BulkString(target) if target.len() < PATH_BYTES_MAX && !target.contains(&0) => {
                String::from_utf8(target.clone()).ok().map(Found::Link)
            }
            _ => return None,
        },
        "file" => {
            let version = token(value, "version")?;
            Some(Found::Object(Object {
                size: u64::try_from(number(value, "size")?).ok()?,
                modified: time(text(value, "modified")?)?,
                tag: Some(version.to_string()),
                young: number(value, "settled")? == 0,
                executable: number(value, "executable")? == 1,
                named: Some(Tag(version.0)),
            }))
        }
        _ => None,
    })
}

/// A name as bytes, and what it stands for.
type Named = (Vec<u8>, Option<Found>);

/// The answer to `PANTLER.LIST`: the next cursor, and names.
pub(super) fn listed(value: Value) -> Option<(String, Vec<Named>)> {
    let Value::Array(parts) = value else { return None };
    let [Value::BulkString(cursor), Value::Array(entries)]: [Value; 2] = parts.try_into().ok()? else {
        return None;
    };
    let cursor = String::from_utf8(cursor).ok()?;
    cursor.parse::<u64>().ok()?;
    let mut named = Vec::with_capacity(entries.len() / 2);
    for pair in entries.chunks(2) {
        let [Value::BulkString(name), described_by] = pair else { return None };
        named.push((name.clone(), described(described_by)?));
    }
    Some((cursor, named))
}

/// Seconds, a point, nine digits.
fn time(text: &str) -> Option<Time> {
    let (seconds, rest) = text.split_once('.')?;
    let is_fraction = rest.len() == 9 && rest.bytes().all(|byte| byte.is_ascii_digit());
    is_fraction.then_some(())?;
    Some(Time { seconds: seconds.parse().ok()?, nanoseconds: rest.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(name, value)| (bytes(name), value.clone())).collect())
    }

    fn file() -> Vec<(&'static str, Value)> {
        vec![
            ("kind", bytes("file")),
            ("size", Value::Int(7)),
            ("modified", bytes("-5.000000123")),
            ("version", bytes("000102030405060708090a0b0c0d0e0f")),
            ("settled", Value::Int(1)),
            ("executable", Value::Int(0)),
        ]
    }

    #[test]
    fn a_file_is_understood_whole_or_not_at_all() {
        let Some(Some(Found::Object(object))) = described(&map(&file())) else { panic!("no file") };
        assert_eq!((object.size, object.young, object.executable), (7, false, false));
        assert_eq!(object.modified, Time { seconds: -5, nanoseconds: 123 });
        assert_eq!(object.named, Some(Tag(std::array::from_fn(|at| at as u8))));
        for at in 0..file().len() {
            let mut without = file();
            let (name, _) = without.remove(at);
            assert_eq!(described(&map(&without)), None, "without {name}");
            let mut strange = file();
            strange[at].1 = Value::Double(1.5);
            assert_eq!(described(&map(&strange)), None, "{name} is a fraction");
        }
        for (name, wrong) in [
            ("size", Value::Int(-1)),
            ("modified", bytes("5")),
            ("modified", bytes("5.12")),
            ("modified", bytes("5.00000000x")),
            ("version", bytes("00")),
        ] {
            let mut strange = file();
            strange.iter_mut().find(|(field, _)| *field == name).unwrap().1 = wrong.clone();
            assert_eq!(described(&map(&strange)), None, "{name}: {wrong:?}");
        }
    }

    #[test]
    fn what_is_no_file_is_shown_or_left_out() {
        let link = |target: &[u8]| {
            described(&map(&[("kind", bytes("link")), ("target", Value::BulkString(target.to_vec()))]))
        };
        assert_eq!(link(b"../x"), Some(Some(Found::Link("../x".into()))));
        assert_eq!(link(b"\xff"), Some(None), "no UTF-8");
        assert_eq!(link(b"a\0b"), None);
        assert_eq!(link(&vec![b'x'; PATH_BYTES_MAX]), None);
        assert_eq!(described(&map(&[("kind", bytes("other"))])), Some(None));
        assert_eq!(described(&Value::Nil), None);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let words = prop::sample::select(vec![
            "kind",
            "file",
            "link",
            "target",
            "size",
            "version",
            "modified",
            "1.000000000",
            "0",
            "settled",
            "executable",
            "000102030405060708090a0b0c0d0e0f",
            "",
        ]);
        let leaf = prop_oneof![
            words.prop_map(bytes),
            any::<i64>().prop_map(Value::Int),
            prop::collection::vec(any::<u8>(), 0..5).prop_map(Value::BulkString),
            Just(Value::Nil),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
                prop::collection::vec((inner.clone(), inner), 0..8).prop_map(Value::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_that_a_server_says_makes_a_reader_panic(value in any_value()) {
            introduced(&value);
            described(&value);
            listed(value);
        }
    }
}
