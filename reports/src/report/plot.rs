//! What the plots share: colours, text, and pictures drawn with plotters.

use std::fmt::Write as _;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use crate::Picture;
use crate::picture::{escaped, representable};
use crate::png::FONT;

/// Width of all plots, in pixels.
pub(super) const WIDTH: u32 = 900;
/// Size of all text in plots, in pixels.
pub(super) const TEXT: f64 = 13.0;

/// Text and lines; light on a dark page.
pub(super) const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
/// The grid, and lines that lead from a label to its mark.
pub(super) const GRID: RGBColor = RGBColor(0xd0, 0xd7, 0xde);

// Okabe and Ito ("Color Universal Design", 2008): apart for all kinds of colour vision. Their
// yellow is left out, which is hard to see on white.
pub(super) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(super) const SKY: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
pub(super) const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
pub(super) const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
pub(super) const VERMILLION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
pub(super) const PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
pub(super) const GREY: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// What tells methods apart: from the seventh on by something else, too.
pub(super) const COLOURS: [RGBColor; 7] = [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK];

/// The colour of a method by its position among all names of the report, so that it looks the same
/// in all figures.
pub(super) fn of_style(style: usize) -> RGBColor {
    COLOURS[style % COLOURS.len()]
}

/// plotters writes colours into attributes, which any rule of a style sheet outranks.
const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',Helvetica,Arial,sans-serif}\
.bg{fill:#fff}.hover{fill-opacity:0}.hover:hover{fill-opacity:.25}\
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}\
[fill=\"#24292F\"]{fill:#e6edf3}[stroke=\"#24292F\"]{stroke:#e6edf3}\
[fill=\"#D0D7DE\"]{fill:#30363d}[stroke=\"#D0D7DE\"]{stroke:#30363d}}";

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Painting goes to memory with a font that is there: this type only carries `?`.
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// What shows when the pointer rests on a place.
#[derive(Default)]
pub(super) struct Hovers(String);

impl Hovers {
    /// Over a rectangle, in pixels; it is enlarged where it is too small to be pointed at.
    pub fn add(&mut self, (left, top): (i32, i32), (right, bottom): (i32, i32), title: &str) {
        let (width, height) = ((right - left).max(2), (bottom - top).max(2));
        let title = escaped(title);
        writeln!(
            self.0,
            "<path class=\"hover\" fill=\"#24292F\" d=\"M{left} {top}h{width}v{height}h-{width}z\">\
             <title>{title}</title></path>"
        )
        .expect("a string takes all text");
    }

    /// Over a point.
    pub fn around(&mut self, (x, y): (i32, i32), title: &str) {
        self.add((x - 7, y - 7), (x + 7, y + 7), title);
    }
}

/// A picture of [`WIDTH`] and some height, painted by `paint`.
pub(super) fn picture(
    name: &str,
    height: u32,
    paint: impl FnOnce(&Area<'_>, &mut Hovers) -> Drawn,
) -> Picture {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let font = register_font("sans-serif", FontStyle::Normal, FONT);
        assert!(font.is_ok(), "the font that comes with this crate is one");
    });
    let mut svg = String::new();
    let mut hovers = Hovers::default();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let painted = paint(&area, &mut hovers).and_then(|()| area.present());
    painted.expect("painting to memory with a font that is there does not fail");
    drop(area);
    // The frame is ours: first line and last.
    let marks = svg.split_once(">\n").map_or("", |(_, rest)| rest);
    let marks = marks.trim_end().strip_suffix("</svg>").unwrap_or(marks);
    Picture {
        width: WIDTH.to_string(),
        height: height.to_string(),
        name: name.into(),
        style: STYLE,
        definitions: "",
        marks: format!("{marks}{}", hovers.0),
    }
}

/// Text that begins, ends or is centred at a place, its middle at the place's height.
pub(super) fn write(area: &Area<'_>, text: &str, at: (i32, i32), side: HPos) -> Drawn {
    write_in(area, text, at, side, TEXT, &INK)
}

/// Text on a light mark, dark whatever the page is.
pub(super) fn write_dark(area: &Area<'_>, text: &str, at: (i32, i32)) -> Drawn {
    write_in(area, text, at, HPos::Center, 11.0, &BLACK)
}

fn write_in(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    side: HPos,
    size: f64,
    colour: &RGBColor,
) -> Drawn {
    // plotters escapes what XML reserves, but not what XML cannot hold.
    let text: String = text.chars().map(representable).collect();
    // plotters' SVG divides sizes by this.
    let style = ("sans-serif", size * 1.24).into_font().color(colour);
    area.draw_text(&text, &style.pos(Pos::new(side, VPos::Center)), at)
}

/// About how wide a text is, in pixels: readers' fonts differ, so this errs to the wide side.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * TEXT * 0.58).ceil() as i32
}

/// What the colours mean, from left to right and, where there is no room, below.
pub(super) fn legend(
    area: &Area<'_>,
    entries: &[(String, RGBColor)],
    (left, top): (i32, i32),
) -> Drawn {
    for ((name, colour), (x, line)) in entries.iter().zip(places(entries, left)) {
        let y = top + LINE * line;
        area.draw(&Rectangle::new([(x, y), (x + 18, y + 13)], colour.filled()))?;
        write(area, name, (x + 24, y + 7), HPos::Left)?;
    }
    Ok(())
}

/// How many pixels [`legend`] needs.
pub(super) fn legend_height(entries: &[(String, RGBColor)], left: i32) -> i32 {
    places(entries, left).last().map_or(0, |(_, line)| LINE * (line + 1))
}

const LINE: i32 = 21;

/// Where each entry of a legend begins, and on which line.
fn places(entries: &[(String, RGBColor)], left: i32) -> impl Iterator<Item = (i32, i32)> {
    let (mut end, mut line) = (left, 0);
    entries.iter().map(move |(name, _)| {
        let needed = 24 + text_width(name) + 16;
        if end + needed > WIDTH as i32 && end > left {
            (end, line) = (left, line + 1);
        }
        end += needed;
        (end - needed, line)
    })
}

/// A step between ticks that is 1, 2 or 5 times a power of ten, for at most `most` of them.
pub(super) fn step(max: f64, most: usize) -> f64 {
    let least = (max / most.max(1) as f64).max(1e-9);
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|d| d * power >= least * 0.999_999);
    digit.unwrap_or(10.0) * power
}
