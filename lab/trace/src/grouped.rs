//! Numbers as people read them.

/// A whole number in groups of three digits.
///
/// ```
/// let texts = [0, 999, 1000, 914_455, 1_234_567].map(pantler_trace::grouped);
/// assert_eq!(texts, ["0", "999", "1,000", "914,455", "1,234,567"]);
/// ```
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
