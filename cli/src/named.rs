//! Options with named values: the shell completes them, and a mistyped name gets a
//! suggestion.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use pantler_trace::perhaps;
use std::ffi::OsStr;

/// A parser for values that begin with a known name, such as `arc` or `s3-fifo:ghosts=0.9`.
#[derive(Clone)]
pub struct Named<T> {
    known: fn() -> Vec<&'static str>,
    parse: fn(&str) -> Result<T, String>,
}

/// Completes and suggests `known` names; `parse` decides what is right.
pub fn named<T>(known: fn() -> Vec<&'static str>, parse: fn(&str) -> Result<T, String>) -> Named<T> {
    Named { known, parse }
}

/// Completes `known` names in a text or list that is understood later.
pub fn names(known: fn() -> Vec<&'static str>) -> Named<String> {
    named(known, |text| Ok(text.to_owned()))
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, option: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let Self { known, parse } = *self;
        let parse =
            move |text: &str| parse(text).map_err(|why| format!("{why}{}", suggestion(text, &known())));
        parse.parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.known)().into_iter().map(PossibleValue::new)))
    }
}

/// What was perhaps meant, with a space before it. Nothing for a name that is known: then its
/// parameters are wrong.
pub fn suggestion(text: &str, known: &[&'static str]) -> String {
    let name = text.split(':').next().unwrap_or(text);
    if known.contains(&name) { String::new() } else { perhaps(name, known.iter().copied()) }
}
