//! Marks on an SVG, and the style that they share.

use std::fmt::Write as _;

use schema::Nanos;

use crate::Picture;
use crate::picture::escaped;

/// The colours are Okabe and Ito's ("Color Universal Design", 2008), which stay apart for all
/// kinds of colour vision. `.f` to `.o` are boxes, `.n` and `.w` text on them, `.s*` stalls.
macro_rules! style {
    () => {
        "\
text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',Helvetica,Arial,sans-serif}\
.bg{fill:#fff}.t{font-size:13px;fill:#24292f}.h{font-size:17px;font-weight:600;fill:#24292f}\
.m{text-anchor:middle}.e{text-anchor:end}\
.f{fill:#56b4e9}.b{fill:#0072b2}.u{fill:#999}.r{fill:#e69f00}.o{fill:#d55e00}.i{fill:#009e73}\
.n{font-size:11px;fill:#000;text-anchor:middle;pointer-events:none}\
.w{font-size:11px;fill:#fff;text-anchor:middle;pointer-events:none}\
.g{stroke:#d0d7de;stroke-width:1}.row{fill:#f3f4f6}\
.sd{fill:url(#sd)}.sm{fill:url(#sm)}.st{fill:url(#st)}.se{fill:url(#se)}.si{fill:url(#si)}.ss{fill:#24292f}\
.q{stroke:#24292f;stroke-width:1.4;fill:none}\
.c{fill:#cc79a7;fill-opacity:.45}.cl{stroke:#a8477c;stroke-width:1.3;fill:none}\
.v{fill:#7b3f61;fill-opacity:.75}\
.k{stroke:#d55e00;stroke-width:1.6;stroke-dasharray:7 4;fill:none}\
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.t,.h{fill:#e6edf3}.g{stroke:#30363d}\
.row{fill:#161b22}.q{stroke:#e6edf3}.ss{fill:#e6edf3}.cl{stroke:#e6a3c8}.v{fill:#f0c4dc}}"
    };
}

const STYLE: &str = style!();

/// With the boxes of codecs, which few pictures have.
const STYLE_WITH_CODECS: &str = concat!(style!(), ".z{fill:#f0e442}.y{fill:#cc79a7}");

/// Hatches, so that stalls differ from boxes and from each other without any colour.
const HATCHES: &str = "\
<pattern id=\"sd\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
<path class=\"q\" d=\"M-1 6L6-1M-1 1L1-1M4 6L6 4\"/></pattern>\
<pattern id=\"sm\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
<path class=\"q\" d=\"M0 2.5H5M2.5 0V5\"/></pattern>\
<pattern id=\"st\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
<path class=\"q\" d=\"M0 2.5H2\"/></pattern>\
<pattern id=\"se\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
<path class=\"q\" d=\"M-1-1L6 6M-1 4L1 6M4-1L6 1\"/></pattern>\
<pattern id=\"si\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
<path class=\"q\" d=\"M3 0V6\"/></pattern>";

pub(super) const RIGHT: f64 = 20.0;

/// The horizontal scale of both plots.
#[derive(Clone, Copy)]
pub(super) struct X {
    pub left: f64,
    pub right: f64,
    pub end: Nanos,
}

impl X {
    /// Where a moment lies.
    pub fn of(self, at: Nanos) -> f64 {
        let share = if self.end == Nanos::ZERO { 0.0 } else { at.0 as f64 / self.end.0 as f64 };
        self.left + share * (self.right - self.left)
    }

    /// The time that a pixel shows.
    pub fn pixel(self) -> Nanos {
        Nanos((self.end.0 as f64 / (self.right - self.left)) as u64)
    }
}

#[derive(Default)]
pub(super) struct Canvas {
    behind: String,
    marks: String,
    with_codecs: bool,
}

impl Canvas {
    /// A line of the grid, behind all marks.
    pub fn behind(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
        put(&mut self.behind, format_args!("<path class=\"g\" d=\"M{x1} {y1}L{x2} {y2}\"/>"));
    }

    /// The ground of a lane, behind all marks and the grid.
    pub fn ground(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let data = rectangle(x, y, width, height);
        put(&mut self.behind, format_args!("<path class=\"row\" d=\"{data}\"/>"));
    }

    /// A box; `title`, where not empty, shows when the pointer rests on it.
    pub fn bar(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, title: &str) {
        self.with_codecs |= matches!(class, "z" | "y");
        let data = rectangle(x, y, width, height);
        if title.is_empty() {
            return self.path(class, &data);
        }
        let title = escaped(title);
        put(
            &mut self.marks,
            format_args!("<path class=\"{class}\" d=\"{data}\"><title>{title}</title></path>"),
        );
    }

    /// A path with data that the caller wrote.
    pub fn path(&mut self, class: &str, data: &str) {
        put(&mut self.marks, format_args!("<path class=\"{class}\" d=\"{data}\"/>"));
    }

    /// Text, its baseline at `y`.
    pub fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let ([x, y], text) = ([x, y].map(number), escaped(text));
        put(
            &mut self.marks,
            format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"),
        );
    }

    pub fn finish(self, width: f64, height: f64, name: &str) -> Picture {
        let Self { behind, marks, with_codecs } = self;
        Picture {
            width: number(width),
            height: number(height),
            name: name.into(),
            style: if with_codecs { STYLE_WITH_CODECS } else { STYLE },
            definitions: HATCHES,
            marks: behind + &marks,
        }
    }
}

/// A rectangle as path data, which is shorter than an element with four attributes.
fn rectangle(x: f64, y: f64, width: f64, height: f64) -> String {
    let [x, y, width, height] = [x, y, width, height].map(number);
    format!("M{x} {y}h{width}v{height}h-{width}z")
}

fn put(text: &mut String, mark: std::fmt::Arguments<'_>) {
    writeln!(text, "{mark}").expect("a string takes all text");
}

/// A coordinate to a tenth of a pixel, without an idle `.0`.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

/// About how wide a text is: fonts differ, so this errs to the wide side.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.58
}

/// Lines of whole words that are no wider than `width`, unless a word is.
pub(super) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        let longer = format!("{line} {word}");
        if line.is_empty() {
            *line = word.to_string();
        } else if text_width(&longer, size) <= width {
            *line = longer;
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}
