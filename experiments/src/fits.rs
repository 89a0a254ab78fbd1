//! Codec models and efficiencies from samples, and how far each fit is off.

use std::path::Path;

use planner::Monitor;
use profiler::codec_samples::{CodecSample, Sampling, name};
use profiler::codec_timers::codec_timer;
use profiler::device::Target;
use regression::{HeldOut, Method, Sample, TimesFit, fit_size, fit_times, relative_absolute_error};
use reports::{Picture, Predictions, held_out};
use schema::{CodecModel, CodecModels, Document, Fidelity, Nanos, PendingFile};

use crate::error::SamplesProblem;
use crate::{Error, Result};

/// Models of codecs, and what they were chosen from.
pub struct Fits {
    /// The models.
    pub models: CodecModels,
    /// For each codec and direction its name and the fit of its times.
    pub times: Vec<(String, TimesFit)>,
}

/// Takes samples of codecs, and fits models to them.
///
/// # Errors
/// If a codec fails.
pub fn sample_and_fit(
    sampling: &Sampling,
    target: &Target,
    monitor: &dyn Monitor,
) -> Result<(Vec<CodecSample>, CodecModels)> {
    let mut timer = codec_timer(target, sampling.codecs, 1)?;
    let samples = sampling.take(timer.as_mut(), monitor)?;
    let fits = fit_models(&samples, Path::new("the samples just taken"))?;
    Ok((samples, fits.models))
}

/// The models of samples, which errors call `file`.
///
/// # Errors
/// If no one model holds for them, or nothing can be fitted.
pub fn fit_models(rows: &[CodecSample], file: &Path) -> Result<Fits> {
    fits(rows).map_err(|problem| Error::Samples(file.into(), problem))
}

fn fits(rows: &[CodecSample]) -> std::result::Result<Fits, SamplesProblem> {
    let first = rows.first().ok_or(SamplesProblem::Empty)?;
    let on = |row: &CodecSample| format!("{} ({}, {} threads)", row.device, row.dtype, row.threads);
    if let Some(other) = rows.iter().find(|row| on(row) != on(first)) {
        return Err(SamplesProblem::Several(on(first), on(other)));
    }
    let source = format!("{} samples of {}, {} threads", rows.len(), first.device, first.threads);
    let models = CodecModels { device: first.device.clone(), source, models: Vec::new() };
    let mut fits = Fits { models, times: Vec::new() };
    let mut groups: Vec<Vec<&CodecSample>> = Vec::new();
    for row in rows {
        let key = |row: &CodecSample| (row.codec.clone(), row.parameter.map(f64::to_bits));
        match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    for group in &groups {
        fits.add(group)?;
    }
    let checked = fits.models.check().map_err(|error| SamplesProblem::NoModels(error.to_string()));
    checked.map(|()| fits)
}

impl Fits {
    fn add(&mut self, group: &[&CodecSample]) -> std::result::Result<(), SamplesProblem> {
        let row = group[0];
        let of = |time: fn(&CodecSample) -> Nanos| -> Vec<Sample> {
            let sample = |row: &&CodecSample| Sample {
                bytes: row.bytes,
                compressed: row.compressed,
                sparsity: row.sparsity,
                time: time(row),
            };
            group.iter().map(sample).collect()
        };
        let known = [Fidelity::Lossless, Fidelity::FixedRate, Fidelity::ErrorBounded];
        let fidelity = known.into_iter().find(|fidelity| name(*fidelity) == row.fidelity);
        let fidelity = fidelity.ok_or_else(|| SamplesProblem::NoFidelity(row.fidelity.clone()))?;
        let no_fit = |error| SamplesProblem::NoFit(row.codec.clone(), error);
        let mut times = |what: &str, samples: &[Sample]| {
            let fit = fit_times(samples, &format!("{} samples", samples.len())).map_err(no_fit)?;
            let name = match row.parameter {
                Some(parameter) => format!("{}:{parameter} {what}", row.codec),
                None => format!("{} {what}", row.codec),
            };
            let model = fit.model.clone();
            self.times.push((name, fit));
            Ok(model)
        };
        let compress = of(|row| row.compress);
        let model = CodecModel {
            codec: row.codec.clone(),
            parameter: row.parameter,
            fidelity,
            size: fit_size(&compress, fidelity).map_err(no_fit)?,
            compress: times("compress", &compress)?,
            decompress: times("decompress", &of(|row| row.decompress))?,
        };
        self.models.models.push(model);
        Ok(())
    }

    /// How far each method is off, as a table.
    pub fn table(&self) -> Vec<Vec<String>> {
        let methods = Method::ALL.iter().map(|method| method.name());
        let header = ["codec"].into_iter().chain(methods).chain(["nine in ten within"]);
        let lines = self.times.iter().map(|(name, fit)| line(name, fit));
        [header.map(String::from).collect()].into_iter().chain(lines).collect()
    }

    /// Draws predicted against measured times, a picture for each codec and direction.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn plot(&self, folder: &Path) -> Result<()> {
        for (name, fit) in &self.times {
            let stem = name.replace([' ', ':'], "-");
            let file = PendingFile::create(&folder.join(format!("{stem}.svg")))?;
            file.finish(plot(name, fit).svg().as_bytes())?;
        }
        Ok(())
    }
}

/// Predicted against measured times, a panel for each method.
fn plot(name: &str, fit: &TimesFit) -> Picture {
    let panel = |(method, predicted): &(Method, Vec<HeldOut>)| Predictions {
        name: method.name().into(),
        error: format!("{:.2} %", 100.0 * relative_absolute_error(predicted)),
        is_used: *method == fit.method,
        times: (predicted.iter())
            .map(|held_out| (held_out.sample.time, Nanos(held_out.predicted.round() as u64)))
            .collect(),
    };
    let panels: Vec<Predictions> = fit.held_out.iter().map(panel).collect();
    held_out(&format!("{name}: samples that the models have not seen"), &panels)
}

fn line(name: &str, fit: &TimesFit) -> Vec<String> {
    let mut cells = vec![name.to_string()];
    cells.extend(fit.errors.iter().map(|(method, error)| match error {
        Some(error) => {
            let mark = if *method == fit.method { "*" } else { "" };
            format!("{mark}{:.2} %", 100.0 * error)
        }
        None => "-".into(),
    }));
    let spread = fit.model.spread_permille.unwrap_or(0);
    cells.push(format!("{:.1} %", f64::from(spread) / 10.0));
    cells
}
