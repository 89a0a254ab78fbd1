//! What came of a training, in text and for programs.

use planner::PlanError;
use reports::{Trained, columns};
use schema::{Bytes, Machine};
use serde::Serialize;

use super::{Asked, Seed, Way};

/// The whole of it for programs.
#[derive(Serialize)]
pub struct Summary {
    /// What keeping everything takes.
    pub in_core_peak_bytes: Bytes,
    /// What plans were given.
    pub budget_bytes: Bytes,
    /// Whether ways that lose nothing learnt the same with every seed, bit for bit; absent where there are no two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossless_equal: Option<bool>,
    /// Each way over all seeds with which it had a plan.
    pub spread: Vec<Spread>,
    /// Each way that had a plan, seed after seed.
    pub ways: Vec<Trained>,
}

/// What a way came to over several seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    pub way: String,
    pub seeds: usize,
    /// Loss of the last epoch.
    pub loss: Moments,
    /// Accuracy after the last epoch.
    pub accuracy: Moments,
    /// How many times smaller codecs made what they were applied to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Moments>,
    pub spilled: Moments,
}

/// A mean and the standard deviation of a sample around it, absent of one number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moments {
    pub mean: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Moments {
    fn of(numbers: &[f64]) -> Self {
        let mean = numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
        let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
        let several = numbers.len().checked_sub(1).filter(|freedom| *freedom > 0);
        Self { mean, deviation: several.map(|freedom| (squares / freedom as f64).sqrt()) }
    }

    fn text(&self, one: impl Fn(f64) -> String, unit: &str) -> String {
        let deviation = self.deviation.map_or(String::new(), |d| format!(" +- {}", one(d)));
        format!("{}{deviation}{unit}", one(self.mean))
    }
}

pub(super) fn spreads(asked: &Asked, trained: &[Trained]) -> Vec<Spread> {
    let of = |way: &Way| {
        let of: Vec<&Trained> = trained.iter().filter(|t| t.way == way.name()).collect();
        let all = |number: fn(&Trained) -> f64| {
            Moments::of(&of.iter().map(|t| number(t)).collect::<Vec<_>>())
        };
        let ratios: Vec<f64> = of.iter().filter_map(|t| t.ratio()).collect();
        (!of.is_empty()).then(|| Spread {
            way: way.name().into(),
            seeds: of.len(),
            loss: all(Trained::final_loss),
            accuracy: all(Trained::final_accuracy),
            ratio: (!ratios.is_empty()).then(|| Moments::of(&ratios)),
            spilled: all(Trained::spilled),
        })
    };
    asked.ways.iter().filter_map(of).collect()
}

pub(super) fn text(
    asked: &Asked,
    machine: &Machine,
    seeds: &[Seed],
    equal: Option<bool>,
) -> String {
    let Some(first) = seeds.first() else { return String::new() };
    let trained = |seed: &Seed| -> Vec<Trained> {
        seed.done.iter().filter_map(|done| Some(done.outcome.as_ref().ok()?.0.clone())).collect()
    };
    let all: Vec<Trained> = seeds.iter().flat_map(trained).collect();
    let mut text = format!(
        "{} (batch {}), {} epochs of {} iterations, {} (seeds from {}); in core {}, budget {} ({:.0} %); plans \
         by models of {}\n\n",
        first.network,
        asked.batch,
        asked.epochs,
        asked.batches,
        match seeds.len() {
            1 => "one training of each way".into(),
            count => format!("{count} trainings of each way, mean +- standard deviation"),
        },
        asked.seed,
        first.peak,
        first.budget,
        100.0 * first.budget.0 as f64 / first.peak.0.max(1) as f64,
        machine.description,
    );
    let spread = spreads(asked, &all);
    text.push_str(&columns(&ways(asked, seeds, &spread)));
    let first = trained(first);
    text.push_str(&format!("\naccuracy after each epoch, with seed {}\n", asked.seed));
    text.push_str(&columns(&accuracies(&first)));
    for way in &first {
        text.push_str(&by_layer(way));
    }
    text.push('\n');
    match equal {
        Some(true) => text.push_str(
            "in-core and zvc learnt the same: losses, accuracies and weights are equal, bit for bit.\n",
        ),
        Some(false) => text.push_str("in-core and zvc DIFFER, which must not be.\n"),
        None => {}
    }
    for note in first.iter().flat_map(|way| &way.notes) {
        text.push_str(&format!("{note}\n"));
    }
    text.push_str(&without_plan(seeds));
    text.push_str(&against_in_core(&spread));
    text
}

/// Which trainings there were not: means are over the others.
fn without_plan(seeds: &[Seed]) -> String {
    let of = |seed: &Seed| -> String {
        let short =
            seed.done.iter().filter_map(|done| Some((done.way, done.outcome.as_ref().err()?)));
        let line = |(way, error): (Way, &PlanError)| {
            format!(
                "{} has no plan with seed {}, and its line is without: {error}\n",
                way.name(),
                seed.seed
            )
        };
        short.map(line).collect()
    };
    seeds.iter().map(of).collect()
}

fn ways(asked: &Asked, seeds: &[Seed], spread: &[Spread]) -> Vec<Vec<String>> {
    let head = ["way", "loss", "accuracy", "ratio", "spilled", "fallbacks", "memory", "copied"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for way in &asked.ways {
        let all = || seeds.iter().flat_map(|seed| &seed.done).filter(|done| done.way == *way);
        let trained = || all().filter_map(|done| Some(&done.outcome.as_ref().ok()?.0));
        if let Some(of) = spread.iter().find(|spread| spread.way == way.name()) {
            let sum: u64 = trained().map(|t| t.fallbacks).sum();
            let some = of.seeds < seeds.len();
            rows.push(vec![
                match some {
                    true => format!("{} ({} of {})", of.way, of.seeds, seeds.len()),
                    false => of.way.clone(),
                },
                of.loss.text(|loss| format!("{loss:.4}"), ""),
                of.accuracy.text(|share| format!("{:.1}", 100.0 * share), " %"),
                of.ratio.map_or("-".into(), |ratio| ratio.text(|x| format!("{x:.2}"), "x")),
                of.ratio.map_or("-".into(), |_| format!("{:.1} %", 100.0 * of.spilled.mean)),
                sum.to_string(),
                trained().map(|t| t.arena_bytes).max().unwrap_or(Bytes::ZERO).to_string(),
                trained().map(|t| t.copied_bytes).max().unwrap_or(Bytes::ZERO).to_string(),
            ]);
            continue;
        }
        let short = all().find_map(|done| done.outcome.as_ref().err());
        rows.extend(short.map(|error| {
            let lacks = error.short_by().map(|short| format!("lacks {short}"));
            vec![way.name().into(), lacks.unwrap_or_else(|| "no plan".into())]
        }));
    }
    rows
}

fn accuracies(trained: &[Trained]) -> Vec<Vec<String>> {
    let head = ["epoch".to_string()].into_iter();
    let mut rows: Vec<Vec<String>> =
        vec![head.chain(trained.iter().map(|way| way.way.clone())).collect()];
    let epochs = trained.iter().map(|way| way.accuracies.len()).max().unwrap_or(0);
    rows.extend((0..epochs).map(|epoch| {
        let accuracy = |way: &Trained| way.accuracies.get(epoch).copied();
        let cells = trained
            .iter()
            .map(|way| accuracy(way).map_or("-".into(), |share| format!("{:.1} %", 100.0 * share)));
        [(epoch + 1).to_string()].into_iter().chain(cells).collect()
    }));
    rows
}

/// With which rate or bound what each tensor became, after the first epoch with codecs and after the last.
fn by_layer(way: &Trained) -> String {
    let (Some(first), Some(last)) = (way.applied.first(), way.applied.last()) else {
        return String::new();
    };
    let (first, last) = (first.iterations, last.iterations);
    let head = |at| format!("after {at} iterations");
    let mut rows = vec![vec!["tensor".to_string(), head(first), String::new()]];
    if last > first {
        rows[0].extend([head(last), String::new()]);
    }
    let mut row_of = |tensor: &str| match rows.iter().position(|row| row[0] == tensor) {
        Some(row) => row,
        None => {
            rows.push(vec![tensor.to_string()]);
            rows.len() - 1
        }
    };
    let cells: Vec<(usize, &reports::Applied)> =
        way.applied.iter().map(|applied| (row_of(&applied.tensor), applied)).collect();
    let mut at: Vec<usize> = vec![first, last];
    at.dedup();
    for at in at {
        for (row, line) in rows.iter_mut().enumerate().skip(1) {
            let of = cells.iter().find(|(of, applied)| *of == row && applied.iterations == at);
            line.extend(match of {
                Some((_, of)) => [short(&of.codec), format!("{:.2}x", of.ratio())],
                None => ["-".into(), String::new()],
            });
        }
    }
    format!(
        "\n{}: codecs and what they made of each tensor, with seed {}\n{}",
        way.way,
        way.seed,
        columns(&rows)
    )
}

/// How far ways that lose something are from in-core, against in-core's own spread.
fn against_in_core(spread: &[Spread]) -> String {
    let named = |name: &str| spread.iter().find(|of| of.way == name);
    let own = named(Way::InCore.name()).and_then(|way| Some((way, way.accuracy.deviation?)));
    let Some((in_core, deviation)) = own else { return String::new() };
    let lossy = Way::ALL.into_iter().filter(|(way, ..)| !way.is_lossless());
    let lossy = lossy.filter_map(|(_, name, _)| named(name));
    // Means over other seeds are of other images.
    let lossy = lossy.filter(|of| of.seeds == in_core.seeds);
    let line = |of: &Spread| {
        let points = 100.0 * (of.accuracy.mean - in_core.accuracy.mean);
        let is = if points.abs() <= 100.0 * deviation { "within" } else { "more than" };
        format!(
            "{} differs from in-core by {points:+.2} points of accuracy in the mean, {is} one standard deviation of \
             in-core ({:.2} points).\n",
            of.way,
            100.0 * deviation
        )
    };
    lossy.map(line).collect()
}

/// A codec's name, its parameter to three digits where it has many more.
fn short(name: &str) -> String {
    let parameter = name.split_once('(').and_then(|(codec, rest)| {
        let parameter = rest.strip_suffix(')').filter(|parameter| parameter.len() > 8)?;
        Some((codec, parameter.parse::<f64>().ok()?))
    });
    parameter.map_or(name.into(), |(codec, parameter)| format!("{codec}({parameter:.2e})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_is_a_samples_and_one_number_has_none() {
        let moments = Moments::of(&[1.0, 2.0, 3.0]);
        assert_eq!(moments, Moments { mean: 2.0, deviation: Some(1.0) });
        assert_eq!(moments.text(|x| format!("{x:.1}"), " %"), "2.0 +- 1.0 %");
        assert_eq!(Moments::of(&[4.0]), Moments { mean: 4.0, deviation: None });
    }
}
