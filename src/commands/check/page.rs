//! The page of a check.

use std::path::{Path, PathBuf};

use anyhow::Context;
use reports::{Report, Run};
use schema::{Document, Machine, PendingFile};

use super::{Agreement, Done};
use crate::commands::report::write_figure;
use crate::exit::{Exit, OrExit, Result};
use crate::output::print;

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

    /// Writes figures, the documents of what the page shows as timelines, and the page.
    pub fn finish(self, done: &[Done], agreement: &Agreement, machine: &Machine) -> Result {
        let file = |name: String| PendingFile::create(&self.folder.join(name));
        file("machine.json".into())?.finish(machine.to_json().as_bytes())?;
        let checks = done.iter().map(|done| done.row.clone()).collect();
        let mut report = Report { checks, ..Report::default() };
        for shown in shown(done) {
            let name = |what: &str| format!("{}-{what}.json", shown.trace.network);
            file(name("trace"))?.finish(shown.trace.to_json().as_bytes())?;
            file(name("plan"))?.finish(shown.plan.to_json().as_bytes())?;
            file(name("measured"))?.finish(shown.measured.to_json().as_bytes())?;
            let (plan, trace) = (Some(shown.plan.clone()), Some(shown.trace.clone()));
            let predicted = shown.predicted.clone();
            report.runs.push(Run { timeline: predicted, plan: plan.clone(), trace: trace.clone() });
            report.runs.push(Run { timeline: shown.measured.clone(), plan, trace });
        }
        let figures = report.figures();
        for figure in &figures {
            write_figure(&self.folder, figure)?;
        }
        self.page.finish(report.html(&figures).as_bytes())?;
        let page = self.folder.join("index.html");
        print(format!("{}: {} plans, {} figures\n", page.display(), agreement.plans, figures.len()))
    }
}

/// Of each network the last plan: that of the last method under the smallest budget that fits.
fn shown(done: &[Done]) -> Vec<&Done> {
    let mut shown: Vec<&Done> = Vec::new();
    for plan in done {
        match shown.last_mut() {
            Some(last) if last.row.network == plan.row.network => *last = plan,
            _ => shown.push(plan),
        }
    }
    shown
}
