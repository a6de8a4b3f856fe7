//! Stands for `client` in a build without the feature `network`.

use super::object::Objects;
use crate::place::{StoreAddress, StoreOptions};

pub(super) fn connect(_: &StoreAddress, _: &StoreOptions) -> Result<(Box<dyn Objects>, String), String> {
    Err("this build has no `network` feature".to_owned())
}
