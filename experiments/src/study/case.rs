//! A point with everything that it names: ready to be planned.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use networks::{Conventions, NetworkOptions, modelled_trace_by};
use planner::{Allowed, CodecOptions, Limits, Monitor, methods};
use profiler::import::InPlaceOps;
use reports::MethodResult;
use scenarios::{Budget, Find, Group, LinkChoice, Place, Point, Study};
use schema::{
    Bandwidth, Bytes, BytesPerSec, Digest, Document, Framework, InCore, Machine, Shard, SizeModel,
    Trace,
};
use simulator::in_core;

use super::profiled::profiled;
use crate::compare::{Found, found_by};
use crate::compressed_forms::CompressedForms;
use crate::largest::{Budgeted, Question, largest_batch, smallest_budget};
use crate::rates::{every_rate, slides};
use crate::sources::{read_machine, read_network, read_trace};
use crate::tables::Row;
use crate::{CodecInputs, Conditions, Error, Result};

/// The copy whose bandwidth stands for a link's.
const LARGE: Bytes = Bytes(256 << 20);

/// A point that is ready to be planned.
pub struct Case {
    /// Names what was asked, and nothing else: two runs of one point have the same.
    pub digest: Digest,
    /// The question; the answer is still empty.
    pub row: Row,
    machine: Machine,
    decided_on: Option<(Machine, Arc<Traced>)>,
    profiled: bool,
    traced: Arc<Traced>,
    options: NetworkOptions,
    budget: Option<Budget>,
    find: Option<Find>,
    conditions: Conditions,
    epoch: Option<(u32, u32)>,
    by: &'static Conventions,
    powers_of_two: bool,
}

struct Traced {
    trace: Trace,
    digest: Digest,
    in_core: InCore,
}

/// Every point of a study as a case, in the study's order.
pub fn cases(study: &Study) -> Result<Vec<Case>> {
    let mut traces = Traces::default();
    study.points().map(|point| case(study, &point, &mut traces)).collect()
}

/// The point of a number, from 0, where there is one.
pub fn case_at(study: &Study, number: usize) -> Result<Option<Case>> {
    let point = study.points().nth(number);
    point.map(|point| case(study, &point, &mut Traces::default())).transpose()
}

/// The options of a point's network.
pub fn options_of(point: &Point) -> NetworkOptions {
    let mut options = NetworkOptions {
        batch: point.batch.unwrap_or(1),
        image: point.image,
        ..point.group.options.clone()
    };
    if let Some((epoch, epochs)) = point.epoch {
        options.progress = f64::from(epoch) / f64::from((epochs - 1).max(1));
    }
    options
}

fn case(study: &Study, point: &Point, traces: &mut Traces) -> Result<Case> {
    let group = point.group;
    let machine = machine(point)?;
    let options = options_of(point);
    let codecs = codecs(point, &machine)?;
    let conditions = Conditions {
        host_budget: Some(machine.host.memory),
        allowed: Allowed {
            swap: point.allow.swap,
            recompute: point.allow.recompute,
            compress: codecs.is_some(),
        },
        limits: group.evaluations.map_or(Limits::default(), |evaluations| Limits { evaluations }),
        codecs,
    };
    let from = group.recorded_on.as_ref().map(|(name, place)| at(place, read_machine(name)));
    let from = from.transpose()?;
    let traced = traces.get(point, &options, from.as_ref(), &machine)?;
    let decided_on = match &group.decided_on {
        Some((name, place)) => {
            let other = at(place, read_machine(name))?;
            let traced = traces.get(point, &options, from.as_ref(), &other)?;
            Some((other, traced))
        }
        None => None,
    };
    let budget = Budget::resolve(point.budget, &machine, traced.in_core.peak);
    let mut row = Row {
        study: study.name.clone(),
        group: group.name.clone(),
        network: point.subject.name.clone(),
        batch: traced.trace.batch,
        options: options_text(&options, point),
        codecs: Some(group.codecs.text()).filter(|text| !text.is_empty()),
        origin: format!("{:?}", traced.trace.provenance.origin).to_lowercase(),
        machine: point.machine.0.clone(),
        link: point.link.to_string(),
        bandwidth: BytesPerSec(machine.link.h2d.at(LARGE).round() as u64),
        budget,
        host_budget: machine.host.memory,
        answer: MethodResult { method: point.method.to_string(), ..MethodResult::default() },
        decided_on: decided_on_text(group),
        allowed: point.allow.name().into(),
        find: group.find.map(Find::name).unwrap_or_default().into(),
        evaluations: conditions.limits.evaluations,
        in_core: traced.in_core.iteration,
        in_core_peak: traced.in_core.peak,
        ..Row::default()
    };
    // What is searched for is no part of the question.
    match group.find {
        Some(Find::LargestBatch) => row.batch = None,
        Some(Find::SmallestBudget) => row.budget = Bytes::ZERO,
        None => {}
    }
    let elsewhere = decided_on.as_ref().map(|(machine, traced)| (machine.digest(), &traced.digest));
    let asked = format!(
        "tidegate {} {row:?} {:?} {} {} {elsewhere:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        point.budget,
        machine.digest(),
        traced.digest,
        conditions.codecs.as_ref().map(|codecs| (codecs.chosen.digest(), codecs.host.digest()))
    );
    Ok(Case {
        digest: Digest::of_bytes(asked.as_bytes()),
        row,
        machine,
        decided_on,
        profiled: group.profiled,
        traced,
        options,
        budget: point.budget,
        find: group.find,
        conditions,
        epoch: point.epoch,
        by: Conventions::of(group.framework),
        powers_of_two: group.powers_of_two,
    })
}

impl Case {
    /// Plans the point.
    pub fn answer(&self, monitor: &dyn Monitor) -> Result<Row> {
        let method =
            methods::by_name(&self.row.answer.method).expect("the study's methods are checked");
        let question = Question {
            machine: &self.machine,
            decided_on: self.decided_on.as_ref().map(|(m, traced)| (m, &traced.trace)),
            method: method.as_ref(),
            conditions: &self.conditions,
            probes: false,
            epoch: self.epoch,
        };
        let begin = std::time::Instant::now();
        let answer = match self.find {
            Some(Find::LargestBatch) => {
                let trace = |batch| {
                    let options = NetworkOptions { batch, ..self.options.clone() };
                    let network = read_network(&self.row.network, &options)?;
                    Ok(modelled_trace_by(&network, self.by, &self.machine)?)
                };
                let budget = |peak| Budget::resolve(self.budget, &self.machine, peak);
                largest_batch(&question, (&trace, self.powers_of_two), &budget, monitor)?
            }
            Some(Find::SmallestBudget) => {
                smallest_budget(&question, self.traced.trace.clone(), monitor)?
            }
            None => Budgeted {
                found: self.found(question, monitor)?,
                trace: self.traced.trace.clone(),
                in_core: self.traced.in_core,
                budget: self.row.budget,
            },
        };
        let models = self.conditions.codecs.iter().flat_map(|codecs| &codecs.chosen.models);
        let margin = models.map(|model| model.size.margin_permille()).max().unwrap_or(0);
        Ok(answered(self.row.clone(), (answer, margin), begin.elapsed().as_secs_f64()))
    }

    /// The answer under a budget, decided by a profile where the group has methods decide so. Where there is none,
    /// there is no plan.
    fn found(&self, question: Question, monitor: &dyn Monitor) -> Result<Found> {
        let (trace, budget) = (&self.traced.trace, self.row.budget);
        if !self.profiled {
            return question.answer(trace, budget, monitor);
        }
        let (machine, decided_for) = question.decided_on.unwrap_or((&self.machine, trace));
        let problem = self.conditions.problem(decided_for, machine, budget);
        match profiled(&problem, monitor) {
            Ok((machine, profile)) => {
                let decided_on = Some((&machine, &profile));
                Question { decided_on, ..question }.answer(trace, budget, monitor)
            }
            Err(error) => {
                let name = question.method.name();
                found_by(name, &problem, &self.traced.in_core, || Err(error))
            }
        }
    }
}

/// What the point's method may compress with.
fn codecs(point: &Point, machine: &Machine) -> Result<Option<CodecInputs>> {
    let of_group = &point.group.codecs;
    let Some((_, place)) = of_group.names.first() else { return Ok(None) };
    let names: Vec<String> = of_group.names.iter().map(|(name, _)| name.clone()).collect();
    if names == ["none"] {
        return Ok(None);
    }
    let models = scenarios::codec_models(machine);
    let mut models = of_group.speed.map_or(models.clone(), |speed| models.at_speed(speed));
    let varying = models.models.iter_mut().filter(|model| model.fidelity.size_varies());
    for model in varying {
        if let SizeModel::Rate { permille, .. } = &mut model.size {
            *permille = of_group.size_permille.unwrap_or(*permille);
        }
    }
    let options = CodecOptions { sparsity: of_group.sparsity, lossy: of_group.lossy };
    let host = scenarios::host_codec_models();
    let inputs = at(place, CodecInputs::named(&names, models, host, options))?;
    let method = methods::by_name(point.method).expect("the study's methods are checked");
    if point.epoch.is_none() || !slides(method.as_ref()) {
        return Ok(Some(inputs));
    }
    let rates = at(place, every_rate(&inputs.chosen))?;
    Ok(Some(inputs.with(rates)))
}

fn answered(question: Row, (answer, margin): (Budgeted, u32), seconds: f64) -> Row {
    let Budgeted { trace, in_core, budget, found } = answer;
    let small = found.plan.as_ref().ok().map(|plan| CompressedForms::of(plan, &trace));
    let small = small.filter(|small| small.count > 0);
    let mut answer = found.row;
    answer.method.clone_from(&question.answer.method);
    if !question.find.is_empty() {
        answer.plan_seconds = Some(seconds);
    }
    Row {
        batch: trace.batch,
        budget,
        in_core: in_core.iteration,
        in_core_peak: in_core.peak,
        compressed_raw: small.map(|small| small.raw),
        // What is expected of them, without the margin on top.
        compressed_small: small
            .map(|small| Bytes(small.reserved.0 * 1000 / u64::from(1000 + margin))),
        answer,
        ..question
    }
}

/// Traces by what they are made of, so that each is made once.
#[derive(Default)]
struct Traces(HashMap<String, Arc<Traced>>);

impl Traces {
    fn get(
        &mut self,
        point: &Point,
        options: &NetworkOptions,
        from: Option<&Machine>,
        machine: &Machine,
    ) -> Result<Arc<Traced>> {
        let subject = point.subject;
        let speed = point.group.speed;
        let by = Conventions::of(point.group.framework);
        let of = (&machine.device, &machine.network);
        let key = format!("{} {options:?} {by:?} {of:?} {speed:?}", subject.name);
        if let Some(traced) = self.0.get(&key) {
            return Ok(traced.clone());
        }
        let trace = at(&subject.place, trace(subject, (options, by), from, machine, speed))?;
        let traced = Arc::new(Traced { digest: trace.digest(), in_core: in_core(&trace), trace });
        self.0.insert(key, traced.clone());
        Ok(traced)
    }
}

fn trace(
    subject: &scenarios::Subject,
    (options, by): (&NetworkOptions, &Conventions),
    from: Option<&Machine>,
    machine: &Machine,
    speed: Option<f64>,
) -> Result<Trace> {
    let trace = match subject.is_network {
        false => read_trace(&subject.name, InPlaceOps::AsRecorded, Some(machine))?,
        true => {
            let network = read_network(&subject.name, options)?;
            let modelled = modelled_trace_by(&network, by, machine)?;
            if speed.is_none() {
                return Ok(modelled);
            }
            modelled
        }
    };
    Ok(scenarios::carry_over(&trace, from, machine, speed)?.0)
}

fn machine(point: &Point) -> Result<Machine> {
    let (name, place) = point.machine;
    let mut machine = match point.link {
        LinkChoice::Named(link) if is_file(name) => {
            return Err(Error::LinkOfFile(place.clone(), link.clone()));
        }
        LinkChoice::Named(link) => {
            let machine = name.split('+').next().unwrap_or(name);
            at(place, read_machine(&format!("{machine}+{link}")))?
        }
        LinkChoice::Own | LinkChoice::Bandwidth(_) => at(place, read_machine(name))?,
    };
    if let LinkChoice::Bandwidth(bandwidth) = *point.link {
        machine.link.name = point.link.to_string();
        machine.link.d2h = Bandwidth::constant(bandwidth);
        machine.link.h2d = Bandwidth::constant(bandwidth);
    }
    machine.host.memory = point.host_memory.unwrap_or(machine.host.memory);
    Ok(machine)
}

fn is_file(name: &str) -> bool {
    Path::new(name).extension().is_some()
}

/// By which machine's times methods decide, where not by those of the one that carries plans out; for people.
pub fn decided_on_text(group: &Group) -> String {
    let machine = group.decided_on.as_ref().map(|(name, _)| name.clone());
    let profile = group.profiled.then(|| "a profile of swapping everything".into());
    machine.into_iter().chain(profile).collect::<Vec<String>>().join(", ")
}

/// The options that are not the network's own, for people.
pub fn options_text(options: &NetworkOptions, point: &Point) -> String {
    let defaults = NetworkOptions::default();
    let mut texts = Vec::new();
    texts.extend(options.image.map(|[height, width]| format!("image {height}x{width}")));
    texts.extend(options.frames.map(|frames| format!("{frames} frames")));
    texts.extend(options.sequence.map(|tokens| format!("{tokens} tokens")));
    texts.extend(options.activation.map(|activation| activation.name().to_string()));
    texts.extend(options.dtype.map(|dtype| format!("{dtype:?}").to_lowercase()));
    texts.extend(options.optimizer.map(|optimizer| format!("{optimizer:?}").to_lowercase()));
    if options.ranks > 1 {
        let shard = options.shard.map_or("data parallel", Shard::name);
        texts.push(format!("{} ranks ({shard})", options.ranks));
    }
    if options.update_in_backward {
        texts.push("updates in the backward phase".into());
    }
    if options.in_place != defaults.in_place {
        texts.push("out of place".into());
    }
    if options.pool_indices != defaults.pool_indices {
        texts.push("pooling without indices".into());
    }
    if options.fused_attention != defaults.fused_attention {
        texts.push("unfused attention".into());
    }
    match point.group.framework {
        Framework::Caffe => texts.push("as Caffe".into()),
        Framework::Chainer => texts.push("as Chainer".into()),
        Framework::Pytorch | Framework::Tidegate => {}
    }
    if point.group.powers_of_two {
        texts.push("powers of two".into());
    }
    texts.extend(point.group.speed.map(|factor| format!("computing {factor}x as fast")));
    match point.epoch {
        Some((epoch, epochs)) => texts.push(format!("epoch {epoch} of {epochs}")),
        None if options.progress != defaults.progress => {
            texts.push(format!("progress {}", options.progress));
        }
        None => {}
    }
    texts.join(", ")
}

/// An error with the place in the study that leads to it.
fn at<T>(place: &Place, result: Result<T>) -> Result<T> {
    result.map_err(|error| Error::At(place.clone(), Box::new(error)))
}
