//! The page of a training.

use std::path::{Path, PathBuf};

use anyhow::Context;
use reports::{Report, Trained};
use schema::PendingFile;

use crate::commands::report::write_figure;
use crate::exit::{Exit, OrExit, Result};
use crate::output::{Format, print};

/// A page that is to be written.
pub struct Pending {
    folder: PathBuf,
    page: PendingFile,
}

impl Pending {
    /// The page of a folder, which is made where there is none.
    pub fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))
            .or_exit(Exit::Failed)?;
        let page = PendingFile::create(&folder.join("index.html"))?;
        Ok(Self { folder: folder.to_path_buf(), page })
    }

    /// Writes the figures and the page.
    pub fn finish(self, trainings: Vec<Trained>, format: Format) -> Result {
        let report = Report { trainings, ..Report::default() };
        let figures = report.figures();
        for figure in &figures {
            write_figure(&self.folder, figure)?;
        }
        self.page.finish(report.html(&figures).as_bytes())?;
        let page = self.folder.join("index.html");
        match format {
            Format::Text => print(format!("{}: {} figures\n", page.display(), figures.len())),
            Format::Json => Ok(()),
        }
    }
}
