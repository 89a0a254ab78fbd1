//! Text from documents, as a terminal may show it.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with what a terminal would obey rather than show written as `\u001b`: control
/// characters but for line feeds and tabs, and marks that change the direction of text. JSON stays
/// the same JSON.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_obeyed(c) {
            true => write!(shown, "\\u{:04x}", u32::from(c)).expect("a string takes all text"),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

fn is_obeyed(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        assert_eq!(
            printable("a \u{1b}[31mb\u{9b}2J\r\u{7f}"),
            r"a \u001b[31mb\u009b2J\u000d\u007f"
        );
        assert_eq!(printable("abc\u{202e}txt.exe\u{2066}"), r"abc\u202etxt.exe\u2066");
        let harmless = "two\tcolumns\nof Grüße, 数 and \\u001b";
        assert_eq!(printable(harmless), harmless);
    }

    proptest! {
        #[test]
        fn json_stays_the_same_json(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("text is JSON");
            prop_assert_eq!(serde_json::from_str::<String>(&printable(&json)).expect("JSON"), text);
        }

        #[test]
        fn nothing_is_obeyed(text in any::<String>()) {
            prop_assert!(!printable(&text).chars().any(is_obeyed));
        }
    }
}
