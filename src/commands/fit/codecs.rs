//! Codec models from samples.

use std::path::Path;

use anyhow::Context;
use regression::{HeldOut, Method, Sample, TimesFit, fit_size, fit_times, relative_absolute_error};
use reports::{Picture, Predictions, held_out};
use results::{CodecSample, read_parquet};
use schema::{CodecModel, CodecModels, Document, Fidelity, Nanos, PendingFile};

use crate::codec_samples::name;
use crate::exit::{Exit, OrExit, Result, usage};
use crate::output::{columns, print};

/// Fits, shows how far each method is off, and writes.
pub fn run(samples: &Path, output: Option<PendingFile>, plots: Option<&Path>) -> Result {
    if let Some(folder) = plots {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))
            .or_exit(Exit::Usage)?;
    }
    let rows: Vec<CodecSample> = read_parquet(samples).or_exit(Exit::Usage)?;
    let (models, table) = fit_models(&rows, samples, plots)?;
    if let Some(output) = output {
        output.finish(models.to_json().as_bytes())?;
    }
    print("relative absolute error on held-out samples; * is used:\n")?;
    print(columns(&table))
}

/// The models of samples, which errors call `samples`, and a table of how far each method is off;
/// with a plot for each model in the folder `plots`.
pub fn fit_models(
    rows: &[CodecSample],
    samples: &Path,
    plots: Option<&Path>,
) -> Result<(CodecModels, Vec<Vec<String>>)> {
    let first = rows.first().ok_or_else(|| usage(format!("{} is empty", samples.display())))?;
    let same = |row: &&CodecSample| {
        (&row.device, &row.dtype, row.threads) == (&first.device, &first.dtype, first.threads)
    };
    if let Some(other) = rows.iter().find(|row| !same(row)) {
        return Err(usage(format!(
            "{}: samples of {} ({}, {} threads) and of {} ({}, {} threads), for which no one model \
             holds: keep one of them",
            samples.display(),
            first.device,
            first.dtype,
            first.threads,
            other.device,
            other.dtype,
            other.threads
        )));
    }
    let source = format!("{} samples of {}, {} threads", rows.len(), first.device, first.threads);
    let mut models = CodecModels { device: first.device.clone(), source, models: Vec::new() };
    let mut table = vec![header()];
    let mut rest: &[CodecSample] = rows;
    let mut groups: Vec<Vec<&CodecSample>> = Vec::new();
    while let Some((row, others)) = rest.split_first() {
        let key = |row: &CodecSample| (row.codec.clone(), row.parameter.map(f64::to_bits));
        match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
        rest = others;
    }
    for group in &groups {
        models.models.push(model(group, &mut table, samples, plots)?);
    }
    models.check().with_context(|| samples.display().to_string()).or_exit(Exit::Usage)?;
    Ok((models, table))
}

fn model(
    group: &[&CodecSample],
    table: &mut Vec<Vec<String>>,
    file: &Path,
    plots: Option<&Path>,
) -> Result<CodecModel> {
    let row = group[0];
    let of = |time: fn(&CodecSample) -> schema::Nanos| -> Vec<Sample> {
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
    let fidelity = fidelity.ok_or_else(|| {
        usage(format!("{}: `{}` is no fidelity of a codec", file.display(), row.fidelity))
    })?;
    let mut times = |what: &str, samples: &[Sample]| -> Result<TimesFit> {
        let source = format!("{} samples", samples.len());
        let fit = fit_times(samples, &source)
            .map_err(|error| anyhow::anyhow!("{}: {}: {error}", file.display(), row.codec))
            .or_exit(Exit::Usage)?;
        let name = match row.parameter {
            Some(parameter) => format!("{}:{parameter} {what}", row.codec),
            None => format!("{} {what}", row.codec),
        };
        table.push(line(&name, &fit));
        if let Some(folder) = plots {
            let stem = name.replace([' ', ':'], "-");
            let file = PendingFile::create(&folder.join(format!("{stem}.svg")))?;
            file.finish(plot(&name, &fit).svg().as_bytes())?;
        }
        Ok(fit)
    };
    let compress = of(|row| row.compress);
    let size = fit_size(&compress, fidelity)
        .with_context(|| format!("{}: {}", file.display(), row.codec))
        .or_exit(Exit::Usage)?;
    Ok(CodecModel {
        codec: row.codec.clone(),
        parameter: row.parameter,
        fidelity,
        size,
        compress: times("compress", &compress)?.model,
        decompress: times("decompress", &of(|row| row.decompress))?.model,
    })
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

fn header() -> Vec<String> {
    let methods = Method::ALL.iter().map(|method| method.name());
    ["codec"].into_iter().chain(methods).chain(["nine in ten within"]).map(String::from).collect()
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
