//! A picture before it is framed: as a file of its own, or within a page.

/// Marks of an SVG, with the style and definitions that they share with others of their kind.
///
/// A page holds each style once and the marks of all pictures; a file holds everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub(crate) width: String,
    pub(crate) height: String,
    /// What a reader without eyes is told.
    pub(crate) name: String,
    pub(crate) style: &'static str,
    pub(crate) definitions: &'static str,
    /// The elements, in the order in which they are painted.
    pub(crate) marks: String,
}

impl Picture {
    /// An SVG that needs nothing beside it and follows the reader's preference for dark or light.
    pub fn svg(&self) -> String {
        let Self { width, height, style, definitions, marks, .. } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" {}>\n\
             <style>{style}</style>\n<defs>{definitions}</defs>\n\
             <rect class=\"bg\" width=\"{width}\" height=\"{height}\"/>\n{marks}</svg>\n",
            self.frame()
        )
    }

    /// The marks alone, for a page that holds the style and shows its own ground.
    pub(crate) fn inline(&self) -> String {
        format!("<svg {}>\n{}</svg>\n", self.frame(), self.marks)
    }

    fn frame(&self) -> String {
        let Self { width, height, name, .. } = self;
        format!("viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\"", escaped(name))
    }
}

/// Text as XML and HTML hold it. Characters that XML cannot hold at all become the replacement
/// character.
pub(crate) fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => result.push_str("&amp;"),
            '<' => result.push_str("&lt;"),
            '>' => result.push_str("&gt;"),
            '"' => result.push_str("&quot;"),
            c => result.push(representable(c)),
        }
    }
    result
}

/// A character that XML can hold, in one line.
pub(crate) fn representable(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => ' ',
        '\0'..' ' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c => c,
    }
}
