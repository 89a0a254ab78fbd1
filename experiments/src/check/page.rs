//! The page of a check.

use reports::{Report, Run};
use schema::{Document, Machine, PendingFile};

use super::Done;
use crate::Result;
use crate::page::PendingPage;

/// Writes figures, the documents of what the page shows as timelines, and the page. Says what it wrote.
pub(super) fn write(page: PendingPage, done: &[Done], machine: &Machine) -> Result<String> {
    let file = |name: String| PendingFile::create(&page.folder().join(name));
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
    let (page, figures) = page.finish(&report)?;
    Ok(format!("{}: {} plans, {figures} figures\n", page.display(), done.len()))
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
