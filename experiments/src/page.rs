//! The page of a report and the figures beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The browsers that print a page, by the names that distributions give them.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Prints a page into a PDF beside it, with a Chromium that is there, and returns the PDF's path.
///
/// # Errors
/// If there is no such browser, or it does not write the file.
pub fn pdf(page: &Path) -> Result<PathBuf> {
    let page = page.canonicalize().map_err(|error| Error::Folder(page.into(), error))?;
    let pdf = page.with_extension("pdf");
    let profile = std::env::temp_dir().join(format!("tidegate-browser-{}", std::process::id()));
    for browser in BROWSERS {
        // The page is ours and has no script: a sandbox, which not every account may make, would guard nothing.
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--print-to-pdf={}", pdf.display()))
            .arg(&page)
            .output();
        let Ok(output) = output else { continue };
        // What a browser leaves there is of no use to anybody, nor is hearing that it stays.
        let _ = std::fs::remove_dir_all(&profile);
        if output.status.success() && pdf.exists() {
            return Ok(pdf);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(Error::Browser(browser, said));
    }
    Err(Error::NoBrowser(BROWSERS.join(", ")))
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
