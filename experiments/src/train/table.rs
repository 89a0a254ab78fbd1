//! What came of a training, in text and for programs.

use reports::{Trained, columns};
use schema::Bytes;
use serde::Serialize;

use super::Done;
use super::trainer::Trainer;

/// The whole of it for programs.
#[derive(Serialize)]
pub struct Summary {
    /// What keeping everything takes.
    pub in_core_peak_bytes: Bytes,
    /// What plans were given.
    pub budget_bytes: Bytes,
    /// Whether ways that lose nothing learnt the same, bit for bit; absent where there are no two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossless_equal: Option<bool>,
    /// Each way that had a plan.
    pub ways: Vec<Trained>,
}

/// Two tables, and what there is to say.
pub(super) fn text(
    trainer: &Trainer,
    peak: Bytes,
    done: &[Done],
    lossless: Option<bool>,
) -> String {
    let course = trainer.course;
    let mut text = format!(
        "{}\n{} (batch {}), {} epochs of {} iterations; in core {peak}, budget {} ({:.0} %)\n\n",
        trainer.machine.description,
        trainer.network.name,
        trainer.network.batch,
        course.epochs,
        course.batches,
        trainer.budget,
        100.0 * trainer.budget.0 as f64 / peak.0.max(1) as f64
    );
    text.push_str(&columns(&ways(done)));
    let trained: Vec<&Trained> =
        done.iter().filter_map(|done| Some(&done.outcome.as_ref().ok()?.0)).collect();
    text.push_str("\naccuracy after each epoch\n");
    text.push_str(&columns(&accuracies(&trained)));
    text.push('\n');
    match lossless {
        Some(true) => text.push_str(
            "in-core and zvc learnt the same: losses, accuracies and weights are equal, bit for bit.\n",
        ),
        Some(false) => text.push_str("in-core and zvc DIFFER, which must not be.\n"),
        None => {}
    }
    for note in trained.iter().flat_map(|way| &way.notes) {
        text.push_str(&format!("{note}\n"));
    }
    text
}

fn ways(done: &[Done]) -> Vec<Vec<String>> {
    let head = ["way", "loss", "accuracy", "arena", "iteration", "copied", "fallbacks", "codecs"];
    let row = |done: &Done| match &done.outcome {
        Ok((way, _)) => vec![
            way.way.clone(),
            format!("{:.4}", way.final_loss()),
            share(way.final_accuracy()),
            way.arena_bytes.to_string(),
            way.iteration_ns.to_string(),
            way.copied_bytes.to_string(),
            way.fallbacks.to_string(),
            codecs(&way.codecs),
        ],
        Err(error) => match error.short_by() {
            Some(short) => vec![done.way.name().into(), format!("lacks {short}")],
            None => vec![done.way.name().into(), "no plan".into()],
        },
    };
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(done.iter().map(row));
    rows
}

/// So many codecs are named one by one.
const FEW: usize = 6;

/// All of a few, the first and the last of many.
fn codecs(names: &[String]) -> String {
    match names {
        [] => "-".into(),
        [first, .., last] if names.len() > FEW => format!("{} to {}", short(first), short(last)),
        few => few.iter().map(|name| short(name)).collect::<Vec<_>>().join(", "),
    }
}

/// A codec's name, its parameter to three digits where it has many more.
fn short(name: &str) -> String {
    let parameter = name.split_once('(').and_then(|(codec, rest)| {
        let parameter = rest.strip_suffix(')').filter(|parameter| parameter.len() > 8)?;
        Some((codec, parameter.parse::<f64>().ok()?))
    });
    parameter.map_or(name.into(), |(codec, parameter)| format!("{codec}({parameter:.2e})"))
}

fn accuracies(trained: &[&Trained]) -> Vec<Vec<String>> {
    let head = ["epoch".to_string()].into_iter();
    let mut rows: Vec<Vec<String>> =
        vec![head.chain(trained.iter().map(|way| way.way.clone())).collect()];
    let epochs = trained.iter().map(|way| way.accuracies.len()).max().unwrap_or(0);
    rows.extend((0..epochs).map(|epoch| {
        let cells =
            trained.iter().map(|way| way.accuracies.get(epoch).copied().map_or("-".into(), share));
        [(epoch + 1).to_string()].into_iter().chain(cells).collect()
    }));
    rows
}

fn share(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
