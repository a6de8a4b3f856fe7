//! The profiles that come with Pantler, compiled in.

use super::{Profile, ProfileError};

/// Name and text of every profile that comes with Pantler.
const BUILTIN: &[(&str, &str)] = &[
    ("cscope", include_str!("../../../../profiles/cscope.toml")),
    ("cscope-text", include_str!("../../../../profiles/cscope-text.toml")),
    ("glimpse", include_str!("../../../../profiles/glimpse.toml")),
    ("grep", include_str!("../../../../profiles/grep.toml")),
    ("ld", include_str!("../../../../profiles/ld.toml")),
    ("mapped-cycles", include_str!("../../../../profiles/mapped-cycles.toml")),
    ("postgresql-indexes", include_str!("../../../../profiles/postgresql-indexes.toml")),
    ("sort", include_str!("../../../../profiles/sort.toml")),
    ("tar", include_str!("../../../../profiles/tar.toml")),
];

impl Profile {
    /// Names of the profiles that come with Pantler.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The profile of that name that comes with Pantler.
    ///
    /// ```
    /// use pantler_control::{PolicyName, Profile};
    /// let cscope = Profile::builtin("cscope").unwrap();
    /// assert_eq!(cscope.policies[&0], PolicyName::Mru);
    /// ```
    pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
        let text = Self::builtin_text(name).ok_or_else(|| ProfileError::Unknown {
            name: name.to_owned(),
            known: Self::builtin_names().collect::<Vec<_>>().join(", "),
        })?;
        Profile::parse(name, text)
    }

    /// The text of the profile of that name that comes with Pantler.
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// The profile that comes with Pantler for a program, with its name.
    /// `program` is the last component of the executable, such as `rg`.
    pub fn builtin_for_program(program: &str) -> Option<(&'static str, Profile)> {
        BUILTIN
            .iter()
            .filter_map(|(name, text)| Some((*name, Profile::parse(name, text).ok()?)))
            .find(|(_, profile)| profile.programs.iter().any(|known| known == program))
    }
}
