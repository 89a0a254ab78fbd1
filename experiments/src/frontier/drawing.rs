//! The curves, drawn.

use std::path::Path;

use reports::{Frontier, frontier_figure, frontier_table, png};
use schema::PendingFile;

use crate::Result;
use crate::page::make_folder;

/// Files that are about to be drawn into.
pub struct Drawing {
    svg: PendingFile,
    /// Of a folder: the table, the figures and the picture once more.
    beside: Option<[PendingFile; 3]>,
}

impl Drawing {
    /// An .svg file, or files of a folder, which is made where there is none.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn create(output: &Path) -> Result<Self> {
        if is_svg(output) {
            return Ok(Self { svg: PendingFile::create(output)?, beside: None });
        }
        make_folder(output)?;
        let file = |name: &str| PendingFile::create(&output.join(name));
        let beside = [file("frontier.txt")?, file("frontier.json")?, file("frontier.png")?];
        Ok(Self { svg: file("frontier.svg")?, beside: Some(beside) })
    }

    /// Draws the curves, and writes into a folder the table and the figures beside them.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn draw(self, frontier: &Frontier) -> Result<()> {
        let figure = frontier_figure(frontier);
        let picture = figure.as_ref().and_then(|figure| figure.pictures.first());
        if let Some([table, json, raster]) = self.beside {
            table.finish(frontier_table(frontier).as_bytes())?;
            let text = serde_json::to_string_pretty(frontier).expect("plain data");
            json.finish(format!("{text}\n").as_bytes())?;
            if let Some(picture) = picture {
                raster.finish(&png(picture)?)?;
            }
        }
        Ok(picture.map_or(Ok(()), |picture| self.svg.finish(picture.svg().as_bytes()))?)
    }
}

/// Whether a path is one that curves can be drawn into.
pub fn is_drawable(path: &Path) -> bool {
    is_svg(path) || path.extension().is_none() || path.is_dir()
}

fn is_svg(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}
