//! The page of a report and the figures beside it.

use std::path::{Path, PathBuf};

use reports::{Figure, Report, png};
use schema::PendingFile;

use crate::{Error, Result};

/// A page that is to be written.
pub struct PendingPage {
    folder: PathBuf,
    page: PendingFile,
}

impl PendingPage {
    /// `index.html` of a folder, which is made where there is none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        make_folder(folder)?;
        let page = PendingFile::create(&folder.join("index.html"))?;
        Ok(Self { folder: folder.to_path_buf(), page })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the figures (.svg and .png) and the page. Returns the page's path and how many figures
    /// there are.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(self, report: &Report) -> Result<(PathBuf, usize)> {
        let figures = report.figures();
        for figure in &figures {
            write_figure(&self.folder, figure)?;
        }
        // Last, so that a page is there only with all that it speaks of.
        self.page.finish(report.html(&figures).as_bytes())?;
        Ok((self.folder.join("index.html"), figures.len()))
    }
}

/// Makes a folder where there is none.
///
/// # Errors
/// If that cannot be done.
pub fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::Folder(folder.into(), error))
}

fn write_figure(folder: &Path, figure: &Figure) -> Result<()> {
    for (stem, picture) in figure.files() {
        let write = |extension: &str, bytes: &[u8]| {
            PendingFile::create(&folder.join(format!("{stem}.{extension}")))?.finish(bytes)
        };
        write("svg", picture.svg().as_bytes())?;
        write("png", &png(picture)?)?;
    }
    Ok(())
}
