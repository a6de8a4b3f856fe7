//! Which file has the password of which server: `--tier-password-file FILE` for all,
//! `HOST:PORT=FILE` for one.

use anyhow::Result;
use pantler_control::ControlError;
use pantler_tier::{TierError, TierPlace};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a password comes from without a file.
pub const PASSWORD: &str = "PANTLER_TIER_PASSWORD";

/// Where passwords are. They stay there: only this travels.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PasswordFiles {
    /// For servers that none of the others is for.
    pub all: Option<PathBuf>,
    /// For one server each.
    pub each: Vec<(Server, PathBuf)>,
}

/// Name or address, and port.
type Server = (String, u16);

fn refuse((host, port): &Server, why: &str) -> ControlError {
    ControlError::invalid(format!("--tier-password-file {host}:{port}=...: {why}"))
}

impl PasswordFiles {
    /// What was typed, with paths made absolute.
    pub fn new(words: &[PathBuf]) -> Result<Self> {
        let mut files = Self::default();
        for word in words {
            let named = word.to_str().and_then(|text| text.split_once('='));
            let named = named.and_then(|(server, file)| Some((TierPlace::server(server)?, file)));
            match named {
                Some((server, "")) => {
                    return Err(refuse(&server, "expected a file behind the server").into());
                }
                Some((server, file)) => files.each.push((server, std::path::absolute(file)?)),
                None if files.all.is_some() => {
                    let text =
                        "--tier-password-file: expected one for all servers, and HOST:PORT=FILE for others";
                    return Err(ControlError::invalid(text).into());
                }
                None => files.all = Some(std::path::absolute(word)?),
            }
        }
        Ok(files)
    }

    /// A password for no server is a mistake, and so are two for one server.
    pub fn check(&self, tiers: &[TierPlace]) -> Result<(), ControlError> {
        if let Some((server, _)) = self.each.iter().find(|one| !tiers.iter().any(|tier| tier.is_at(&one.0))) {
            return Err(refuse(server, "expected a server of this mount"));
        }
        let second = |tier| {
            let mut own = self.of(tier);
            let (_, first) = own.next()?;
            own.find(|(_, file)| file != first)
        };
        match tiers.iter().find_map(second) {
            Some((server, _)) => Err(refuse(server, "expected one password for a server or a cluster")),
            None => Ok(()),
        }
    }

    /// The files of a tier's own servers.
    fn of(&self, tier: &TierPlace) -> impl Iterator<Item = &(Server, PathBuf)> {
        self.each.iter().filter(|(server, _)| tier.is_at(server))
    }

    /// Whether a tier has a password that is not of the environment.
    pub fn know(&self, tier: &TierPlace) -> bool {
        self.all.is_some() || self.of(tier).next().is_some()
    }
}

/// Words that make no sense are a usage error, everything else a failure.
pub fn refused(error: TierError) -> ControlError {
    match error {
        TierError::Invalid(text) => ControlError::invalid(text),
        error => ControlError::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_tier::TierSpec;
    use std::path::Path;

    fn files(words: &[&str]) -> Result<PasswordFiles> {
        PasswordFiles::new(&words.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    fn tiers(words: &[&str]) -> Vec<TierPlace> {
        words.iter().map(|word| TierSpec::parse(&format!("{word},1G")).unwrap().place).collect()
    }

    #[test]
    fn each_server_has_its_own_and_the_others_that_of_all() {
        let files = files(&["/all", "a:1=/one", "[::1]:2=/t=wo"]).unwrap();
        assert_eq!(files.all.as_deref(), Some(Path::new("/all")));
        let of = |server: (&str, u16)| {
            let found = files.each.iter().find(|((host, port), _)| (host.as_str(), *port) == server);
            found.map(|(_, file)| file.as_path())
        };
        assert_eq!((of(("a", 1)), of(("a", 2))), (Some(Path::new("/one")), None));
        assert_eq!(of(("::1", 2)), Some(Path::new("/t=wo")));
        files.check(&tiers(&["ssd:/x", "redis://A:1", "redis-cluster://b:7+[::1]:2"])).unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        let error = |words: &[&str], places: &[&str]| {
            let checked = files(words).and_then(|files| Ok(files.check(&tiers(places))?));
            let text = checked.unwrap_err().to_string();
            assert_eq!(text.lines().count(), 1, "{text}");
            text
        };
        assert!(error(&["/a", "/b"], &[]).contains("one for all"));
        assert!(error(&["a:1="], &["redis://a:1"]).contains("a:1=...: expected a file"));
        assert!(error(&["a:1=/f"], &["redis://a:2"]).contains("a:1=...: expected a server of this mount"));
        assert!(error(&["a:1=/f", "A:1=/g"], &["redis://a:1"]).contains("one password"));
        assert!(error(&["a:1=/f", "b:2=/g"], &["redis-cluster://a:1+b:2"]).contains("one password"));
        // A path is a path.
        assert_eq!(files(&["./a:1=f"]).unwrap().each.len(), 0);
        assert_eq!(files(&["a=f"]).unwrap().each.len(), 0);
    }
}
