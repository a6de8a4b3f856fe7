//! Numbers as people read them.

/// A whole number in groups of three digits.
///
/// ```
/// assert_eq!([999, 1_234_567].map(pantler_trace::grouped), ["999", "1,234,567"]);
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
