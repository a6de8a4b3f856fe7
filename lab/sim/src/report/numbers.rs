//! Numbers as people read them.

pub(crate) use pantler_trace::grouped;

/// A share as a percentage with two digits.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (914_455, "914,455"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(percent(0.42214), "42.21%");
    }
}
