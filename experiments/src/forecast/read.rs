//! Recordings as forecasts need them: told apart by what is in them, and known by what stands beside them.

use std::path::{Path, PathBuf};

use networks::{
    Conventions, Network, Optimizer, Sample, Timed, Work, modelled_trace_by, timed_ops,
};
use profiler::import::{
    Beside, Format, ImportOptions, InPlaceOps, Recorded, Recording, detect, import, import_trace,
    is_op_times, recorded, unpack,
};
use schema::file::{read_bytes, read_text};
use schema::{Dtype, Machine, Nanos, Phase};
use serde::Deserialize;
use simulator::in_core;

use super::Known;
use super::runs::{Named, Run, Summary, millis};
use crate::recipes::StatedOptions;
use crate::sources::{read_machine, read_network};
use crate::{Error, Result};

/// A list of recordings and of what they are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The recordings.
    pub recording: Vec<Entry>,
}

/// A recording of a list.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The file, in the folder of the recordings, or else beside the list.
    pub file: String,
    /// What it ran on, where the file does not say.
    pub machine: Option<String>,
    /// What it is of, where that does not follow from shapes that it holds.
    pub network: Option<String>,
    /// Options of the network; its batch where the recording does not state one.
    #[serde(default)]
    pub options: StatedOptions,
    /// Networks whose recordings no fit takes.
    #[serde(default)]
    pub held_back: Vec<String>,
}

impl List {
    /// The one that the efficiencies that come with tidegate are fitted on.
    pub fn bundled() -> Self {
        toml::from_str(networks::SAMPLES).expect("a test reads the bundled list")
    }

    /// Reads a list.
    ///
    /// # Errors
    /// Where the file is none.
    pub fn read(file: &Path) -> Result<Self> {
        toml::from_str(&read_text(file)?).map_err(|why| Error::NoList(file.into(), why))
    }

    /// What it says of a file: the entry with the end of its path, or with its name.
    fn entry(&self, path: &Path) -> Option<&Entry> {
        let named = |entry: &&Entry| Path::new(&entry.file).file_name() == path.file_name();
        let whole = self.recording.iter().find(|entry| path.ends_with(&entry.file));
        whole.or_else(|| self.recording.iter().find(named))
    }

    /// The files, in `folder` or else beside the list.
    pub fn files(&self, folder: &Path, beside: &Path) -> Vec<PathBuf> {
        let place = |entry: &Entry| {
            let there = folder.join(&entry.file);
            if there.exists() { there } else { beside.join(&entry.file) }
        };
        self.recording.iter().map(place).collect()
    }
}

/// What a file's recordings are; `list` says of those that it names what they do not say themselves, and
/// `machine` what all ran on.
///
/// # Errors
/// Where it cannot be read, or it is not known what it is of or ran on.
pub fn read(path: &Path, list: &List, machine: Option<&str>) -> Result<Vec<Known>> {
    let entry = list.entry(path).cloned().unwrap_or_default();
    let reader = Reader { path, entry, machine };
    let bytes = read_bytes(path)?;
    let bytes = unpack(&bytes, path)?;
    if let Ok(summary) = serde_json::from_slice::<Summary>(&bytes) {
        return reader.summary(&summary);
    }
    if is_op_times(&bytes) {
        return Ok(vec![reader.op_times(&bytes)?]);
    }
    match detect(&bytes) {
        Some(Format::Kineto) => Ok(vec![reader.profile(&bytes)?]),
        Some(Format::ExecutionTrace) => Ok(vec![reader.execution_trace(&bytes)?]),
        Some(Format::Dtr | Format::Opgraph) => Ok(vec![reader.trace(&bytes)?]),
        _ => Err(reader.lacks(
            "is no recording with times: name a table of op times, a profile, an execution trace with the \
             summary.json of its runs beside it, a DTR log or an opgraph",
        )),
    }
}

/// The same of several files that say how long an iteration took; and a line for each that cannot be read or
/// does not say so.
///
/// # Errors
/// Where none does.
pub fn read_all(
    paths: &[PathBuf],
    list: &List,
    machine: Option<&str>,
) -> Result<(Vec<Known>, String)> {
    let (mut known, mut left_out) = (Vec::new(), Vec::new());
    for path in paths {
        let found = read(path, list, machine).and_then(|mut found| {
            found.retain(|of| of.iteration > Nanos::ZERO);
            let untimed = "does not say how long an iteration took, or what it is of: put its times beside \
                           it, or name its network and batch in a list (--list)";
            if found.is_empty() { Err(Error::Forecast(path.clone(), untimed.into())) } else { Ok(found) }
        });
        match found {
            Ok(found) => known.extend(found),
            Err(error) => left_out.push(error),
        }
    }
    if known.is_empty() && !left_out.is_empty() {
        return Err(left_out.swap_remove(0));
    }
    let line = |error: &Error| format!("left out: {}\n", error.in_words());
    Ok((known, left_out.iter().map(line).collect()))
}

struct Reader<'a> {
    path: &'a Path,
    entry: Entry,
    machine: Option<&'a str>,
}

impl Reader<'_> {
    fn lacks(&self, what: impl Into<String>) -> Error {
        Error::Forecast(self.path.to_path_buf(), what.into())
    }

    /// The machine that was named, or else that of a device that is called one of these.
    fn machine(&self, devices: &[&str]) -> Result<Machine> {
        if let Some(name) = self.machine.or(self.entry.machine.as_deref()) {
            return read_machine(name);
        }
        let found = devices.iter().find_map(|device| scenarios::machine_of_device(device));
        found.ok_or_else(|| {
            let said: Vec<&str> = devices.iter().copied().filter(|said| !said.is_empty()).collect();
            let said = said.join("` or `");
            self.lacks(format!("ran on `{said}`, which is no machine here: name it with --machine"))
        })
    }

    fn stem(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.split('.').next().unwrap_or_default().to_string()
    }

    fn op_times(&self, bytes: &[u8]) -> Result<Known> {
        let labels = self.path.with_extension("json");
        let labels = labels.exists().then(|| read_text(&labels)).transpose()?;
        let of = recorded(bytes, self.path, &Beside { labels, tf32: false })?;
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        let stem = self.stem();
        let machine = self.machine(&[&folder.to_string_lossy(), &stem])?;
        // `network-train-sequence-batch`
        let network = stem.split("-train").next().unwrap_or(&stem).to_string();
        let batch = stem.rsplit('-').next().and_then(|batch| batch.parse().ok());
        Ok(self.known(of, network, batch, machine))
    }

    fn profile(&self, bytes: &[u8]) -> Result<Known> {
        let of = recorded(bytes, self.path, &Beside::default())?;
        let stem = self.stem();
        let machine = self.machine(&[of.device.as_deref().unwrap_or(""), &stem])?;
        Ok(self.named(of, &stem, machine))
    }

    fn execution_trace(&self, bytes: &[u8]) -> Result<Known> {
        let summary = self.path.with_file_name("summary.json");
        let read: Option<Summary> = match summary.exists() {
            true => serde_json::from_str(&read_text(&summary)?).ok(),
            false => None,
        };
        let stem = self.stem();
        let run = read.as_ref().and_then(|read| {
            let run = read.runs.iter().find(|run| run.name == stem)?;
            Some((run, read.device.as_str()))
        });
        let Some((run, device)) = run else { return self.beside_profile(bytes) };
        self.run(bytes, run, device)
    }

    /// An execution trace with the times of the profile beside it that was written of the same run.
    fn beside_profile(&self, bytes: &[u8]) -> Result<Known> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let profile = ["_et.", ".et."].into_iter().find_map(|et| {
            let profile = self.path.with_file_name(name.replace(et, &et.replace("et", "kineto")));
            (name.contains(et) && profile.exists()).then_some(profile)
        });
        let Some(profile) = profile else {
            return Err(self.lacks(
                "has no times: an execution trace needs the summary.json of its runs or its profile \
                 beside it, named as `run.et.json` and `run.kineto.json` are",
            ));
        };
        let packed = read_bytes(&profile)?;
        let tf32 = unpack(&packed, &profile)?.windows(4).any(|of| of == b"tf32");
        let options =
            ImportOptions { times: Some((packed, profile.clone())), ..Default::default() };
        let Recording { trace: Some(trace), figures, .. } =
            import(bytes, self.path, None, &options)?
        else {
            return Err(self.lacks("has no ops"));
        };
        if let Some(timed) = figures.timed_ops.filter(|timed| timed.of_another_run()) {
            return Err(self.lacks(format!(
                "has no times: {} has {} of its {} ops, so it is of another run; put its own profile beside it",
                profile.display(),
                timed.agree,
                timed.ops
            )));
        }
        let of = recorded(bytes, self.path, &Beside { labels: None, tf32 })?;
        let phase = |phase| {
            let ops = trace.ops.iter().filter(|op| place(op.phase) == place(phase));
            Some(ops.map(|op| op.duration).sum())
        };
        let of = Recorded {
            iteration: Some(trace.total_time()),
            forward: phase(Phase::Forward),
            backward: phase(Phase::Backward),
            kernels_only: true,
            ..of
        };
        let machine = self.machine(&[&trace.provenance.device])?;
        Ok(self.named(of, &self.stem(), machine))
    }

    fn run(&self, bytes: &[u8], run: &Run, device: &str) -> Result<Known> {
        let beside = Beside { labels: None, tf32: run.tf32 };
        // The profile of the same step times each op.
        let profile = self.path.with_file_name(format!("{}.kineto.json.gz", run.name));
        let of = match profile.exists() {
            true => recorded(&read_bytes(&profile)?, &profile, &beside)?,
            false => recorded(bytes, self.path, &beside)?,
        };
        let time = |ms: Option<f64>| ms.filter(|ms| (0.0..1e9).contains(ms)).map(millis);
        let of = Recorded {
            iteration: time(run.step_ms),
            forward: time(run.forward_ms),
            backward: time(run.backward_ms),
            peak: run.peak_allocated,
            kernels_only: false,
            ..of
        };
        Ok(self.named(of, &run.name, self.machine(&[device])?))
    }

    fn summary(&self, summary: &Summary) -> Result<Vec<Known>> {
        let mut all = Vec::new();
        for run in &summary.runs {
            let path = self.path.with_file_name(format!("{}.et.json.gz", run.name));
            if path.exists() {
                let packed = read_bytes(&path)?;
                let entry = self.entry.clone();
                let reader = Reader { path: &path, entry, machine: self.machine };
                all.push(reader.run(&unpack(&packed, &path)?, run, &summary.device)?);
            }
        }
        let machine = self.machine(&[&summary.device])?;
        let timed = summary.timed(&machine.device.compute);
        if !timed.is_empty() {
            let none = Recorded { dtype: "f32", ..Recorded::default() };
            let single = self.known(none, "single ops".into(), None, machine);
            all.push(Known { timed, ..single });
        }
        Ok(all)
    }

    /// A recording whose file's name says what it is of.
    fn named(&self, of: Recorded, name: &str, machine: Machine) -> Known {
        let named = Named::of(name);
        let from_nothing = of.peak_from_nothing;
        let mut known = self.known(of, named.network.clone(), named.batch, machine);
        let products = known.phases[0].works.iter().filter(|(work, _)| work.product.is_some());
        let flops = products.map(|(work, times)| work.flops.saturating_mul(u64::from(*times)));
        let flops = flops.fold(0, u64::saturating_add);
        known.peaks[0] = named.peak(&known.dtype, flops, from_nothing);
        known
    }

    /// A recording whose ops have no shapes: those of its network are taken.
    fn trace(&self, bytes: &[u8]) -> Result<Known> {
        let trace = import_trace(bytes, self.path, None, &ImportOptions::default())?;
        let stem = self.stem();
        let machine = self.machine(&[&stem])?;
        let named = self.entry.network.clone();
        let batch = trace.batch.or(self.entry.options.batch);
        let is_known = |name: &String| networks::networks().any(|network| network.name == *name);
        let network = named.or_else(|| stem.split('-').next().map(String::from).filter(is_known));
        let network: Option<Network> = match (network, batch) {
            (Some(name), Some(batch)) => {
                let mut options = self.entry.options.options(batch);
                options.optimizer.get_or_insert(Optimizer::None);
                options.dtype.get_or_insert(Dtype::F32);
                Some(read_network(&name, &options)?)
            }
            _ => None,
        };
        let by = match detect(bytes) {
            Some(Format::Opgraph) => &Conventions::MONET,
            _ => &Conventions::PYTORCH_1_5,
        };
        let sample = Sample { recorded: &trace, network: network.as_ref(), by, machine: &machine };
        let timed = timed_ops(&sample);
        let none = Recorded { dtype: "f32", ..Recorded::default() };
        let name = network.as_ref().map_or(trace.network.as_str(), |network| network.name());
        let mut known = self.known(none, name.to_string(), batch, machine.clone());
        known.timed = timed;
        let Some(network) = network else { return Ok(known) };
        for op in network.lower(by).tape.ops() {
            known.phases[place(op.phase)].works.push((op.work, 1));
        }
        for op in &trace.ops {
            known.phases[place(op.phase)].recorded += op.duration;
        }
        known.iteration = trace.total_time();
        // Such recordings are of that time.
        let modelled = modelled_trace_by(&network, &Conventions::PYTORCH_1_5, &machine)?;
        // Both with what frameworks do in place.
        let alias = ImportOptions { in_place: InPlaceOps::Alias, ..ImportOptions::default() };
        let trace = import_trace(bytes, self.path, None, &alias)?;
        known.peaks = [&modelled, &trace].map(|trace| Some(in_core(trace).peak.0));
        Ok(known)
    }

    fn known(&self, of: Recorded, network: String, batch: Option<u32>, machine: Machine) -> Known {
        let device = &machine.device.compute;
        let empty = || Timed {
            works: Vec::new(),
            dispatched: 0,
            recorded: Nanos(0),
            device: device.clone(),
            recording: 0,
        };
        let mut phases = [empty(), empty(), empty()];
        let (mut timed, mut forward_alone) = (Vec::new(), Nanos::ZERO);
        for op in of.ops.iter().filter(|op| !op.works.is_empty()) {
            let phase = &mut phases[place(op.phase)];
            phase.works.extend(op.works.iter().map(|work| (*work, op.times)));
            if !of.kernels_only {
                phase.dispatched = phase.dispatched.saturating_add(op.times);
            }
            if let Some(recorded) = op.recorded {
                if op.phase == Phase::Forward {
                    forward_alone += Nanos(recorded.0.saturating_mul(op.times.into()));
                }
                let works = op.works.iter().map(|work| (*work, 1)).collect();
                timed.push(Timed { works, recorded, ..empty() });
            }
        }
        let recorded = [of.forward, of.backward, None];
        for (phase, recorded) in phases.iter_mut().zip(recorded) {
            phase.works = together(&phase.works);
            phase.recorded = recorded.unwrap_or_default();
        }
        if timed.is_empty() {
            timed.extend(phases.iter().filter(|phase| phase.recorded.0 > 0).cloned());
        }
        let held_back = self.entry.held_back.iter().any(|held| network.starts_with(held.as_str()));
        Known {
            path: self.path.display().to_string(),
            network,
            batch,
            dtype: of.dtype.to_string(),
            machine,
            held_back,
            timed,
            phases,
            forward_alone: if of.kernels_only { Nanos::ZERO } else { forward_alone },
            iteration: of.iteration.unwrap_or_default(),
            peaks: [None, of.peak],
        }
    }
}

fn place(phase: Phase) -> usize {
    match phase {
        Phase::Forward => 0,
        Phase::Backward => 1,
        _ => 2,
    }
}

/// The same works with those that are alike as one.
fn together(works: &[(Work, u32)]) -> Vec<(Work, u32)> {
    let mut all: Vec<(Work, u32)> = Vec::new();
    for (work, times) in works {
        match all.iter_mut().find(|(known, _)| known == work) {
            Some((_, count)) => *count = count.saturating_add(*times),
            None => all.push((*work, *times)),
        }
    }
    all
}
