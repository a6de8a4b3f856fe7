//! Which precompressed form of a file a client takes (RFC 9110, section 12.5.3). Pure.

/// A form of a file, beside it under the same name with a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `.br`
    Brotli,
    /// `.zst`
    Zstandard,
    /// `.gz`
    Gzip,
}

impl Encoding {
    /// All of them, the one that is usually smallest first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    /// As in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// What its name adds to that of the file.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// Forms that an `Accept-Encoding` field takes rather than the plain file, best first: by weight,
/// then by usual size.
pub fn accepted(field: &str) -> Vec<Encoding> {
    let identity = weight(field, "identity").unwrap_or(1);
    let found = Encoding::ALL.into_iter().filter_map(|encoding| {
        let weight = weight(field, encoding.name()).or_else(|| weight(field, "*")).unwrap_or(0);
        // Plain is as good unless the client says that it prefers a compressed form; most say
        // nothing, and mean it.
        let preferred = weight > 0 && (weight >= identity || !names(field, "identity"));
        preferred.then_some((weight, encoding))
    });
    let mut found: Vec<(u32, Encoding)> = found.collect();
    found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(_, encoding)| encoding).collect()
}

fn names(field: &str, name: &str) -> bool {
    weight(field, name).is_some()
}

/// In thousandths. Of several, the first counts.
fn weight(field: &str, name: &str) -> Option<u32> {
    field.split(',').find_map(|item| {
        let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
        let coding = coding.trim();
        let is_it =
            coding.eq_ignore_ascii_case(name) || (name == "gzip" && coding.eq_ignore_ascii_case("x-gzip"));
        if !is_it {
            return None;
        }
        let value = parameters.split(';').find_map(|parameter| {
            let (key, value) = parameter.split_once('=')?;
            key.trim().eq_ignore_ascii_case("q").then_some(value.trim())
        });
        let Some(value) = value else { return Some(1000) };
        let value: f32 = value.parse().ok().filter(|value| (0.0..=1.0).contains(value)).unwrap_or(0.0);
        Some((value * 1000.0).round() as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field: &str, expected: &str) {
        let names: Vec<&str> = accepted(field).into_iter().map(Encoding::name).collect();
        assert_eq!(names.join(" "), expected, "{field}");
    }

    #[test]
    fn the_client_decides() {
        check("gzip, deflate, br, zstd", "br zstd gzip");
        check("gzip", "gzip");
        check("x-gzip", "gzip");
        check("gzip;q=1.0, br;q=0.5", "gzip br");
        check("br;q=0, gzip", "gzip");
        check("*", "br zstd gzip");
        check("*;q=0", "");
        check("identity", "");
        check("", "");
        check("identity;q=1, gzip;q=0.5", "");
        check("identity;q=0.5, gzip", "gzip");
        check("gzip;q=nonsense", "");
        check("gzip;q=-1", "");
        check("deflate", "");
    }
}
