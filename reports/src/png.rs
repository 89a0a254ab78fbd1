//! Pictures as PNG.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use crate::Picture;

/// DejaVu Sans, reduced to Latin and Greek letters; its licence lies beside it. Pictures do not
/// depend on the fonts of the machine.
pub(crate) const FONT: &[u8] = include_bytes!("../fonts/DejaVuSans-subset.ttf");

/// Pixels of a PNG per pixel of its SVG, so that it is sharp on today's screens and on paper.
const SCALE: f32 = 2.0;

/// Why a picture could not be painted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PngError {
    #[error("the renderer does not take the picture `{name}`")]
    Svg { name: String, source: resvg::usvg::Error },
    #[error("the picture `{name}` is too large for a PNG of {width} x {height}")]
    TooLarge { name: String, width: u32, height: u32 },
    #[error("the picture `{name}` cannot be encoded: {why}")]
    Encoding { name: String, why: String },
}

/// The picture as a PNG, in its light colours, at twice its size.
pub fn png(picture: &Picture) -> Result<Vec<u8>, PngError> {
    let name = || picture.name.clone();
    let options =
        Options { fontdb: FONTS.clone(), font_family: "DejaVu Sans".into(), ..Options::default() };
    let tree = Tree::from_str(&picture.svg(), &options)
        .map_err(|source| PngError::Svg { name: name(), source })?;
    let size = tree.size().to_int_size().scale_by(SCALE).unwrap_or(tree.size().to_int_size());
    let (width, height) = (size.width(), size.height());
    let mut pixels =
        Pixmap::new(width, height).ok_or(PngError::TooLarge { name: name(), width, height })?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encoding { name: name(), why: error.to_string() })
}

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});
