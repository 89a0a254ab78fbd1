//! The values of a study file, each from its text.

use std::fmt::Display;

use schema::{Bytes, BytesPerSec, Dtype, Framework};

use super::error::StudyProblem;
use super::points::{Allow, Find, LinkChoice};
use crate::{Budget, ScenarioError, links};
use networks::suggest::closest;
use networks::{Activation, Optimizer};

type Checked<T> = Result<T, StudyProblem>;

/// Whether a name is that of a file, which nobody reads here.
pub(super) fn is_file(name: &str) -> bool {
    name.contains(['/', '\\', '.'])
}

pub(super) fn trace(name: &str) -> Checked<()> {
    if is_file(name) || crate::traces().any(|known| known == name) {
        return Ok(());
    }
    Err(no_such("traces", name, crate::traces()))
}

pub(super) fn machine(field: &'static str, name: &str) -> Checked<()> {
    if is_file(name) {
        return Ok(());
    }
    let scenario = |source: ScenarioError| StudyProblem::Scenario { field, source };
    crate::machine(name).map(|_| ()).map_err(scenario)
}

pub(super) fn method(name: &str, methods: &[&str]) -> Checked<()> {
    if methods.contains(&name) {
        return Ok(());
    }
    Err(no_such("methods", name, methods.iter().copied()))
}

pub(super) fn link(name: &str) -> Checked<LinkChoice> {
    if name == "own" {
        return Ok(LinkChoice::Own);
    }
    if links().any(|(known, _)| known == name) {
        return Ok(LinkChoice::Named(name.to_string()));
    }
    if name.ends_with("/s") {
        return match name.parse::<BytesPerSec>() {
            Ok(bandwidth) if (1..=1_000_000_000_000_000).contains(&bandwidth.0) => {
                Ok(LinkChoice::Bandwidth(bandwidth))
            }
            Ok(_) => Err(bad("links", name, "a link has from 1 byte/s to 1e15 bytes/s")),
            Err(error) => Err(bad("links", name, error)),
        };
    }
    let known = ["own"].into_iter().chain(links().map(|(name, _)| name));
    Err(no_such("links", name, known))
}

pub(super) fn batch(batch: i64) -> Checked<u32> {
    match u32::try_from(batch) {
        Ok(batch @ 1..) => Ok(batch),
        _ => Err(bad("batches", batch, "train on at least 1 sample")),
    }
}

pub(super) fn evaluations(count: i64) -> Checked<u64> {
    match u64::try_from(count) {
        Ok(count @ 1..) => Ok(count),
        _ => Err(bad("evaluations", count, "a search makes at least 1")),
    }
}

pub(super) fn bytes(text: &str) -> Checked<Bytes> {
    text.parse().map_err(|error| bad("host_memory", text, error))
}

pub(super) fn budget(text: &str) -> Checked<Budget> {
    text.parse().map_err(|error| bad("budgets", text, error))
}

pub(super) fn allow(name: &str) -> Checked<Allow> {
    let why = "write `swap`, `recompute` or `swap+recompute`";
    Allow::from_name(name).ok_or_else(|| bad("allow", name, why))
}

pub(super) fn find(name: &str) -> Checked<Find> {
    let why = "write `largest-batch` or `smallest-budget`";
    name.parse().map_err(|_| bad("find", name, why))
}

/// What runs here has times of its own: studies model them.
pub(super) fn framework(name: &str) -> Checked<Framework> {
    let of = name.parse().ok().filter(|of| *of != Framework::Tidegate);
    of.ok_or_else(|| bad("framework", name, "write `pytorch`, `caffe` or `chainer`"))
}

pub(super) fn activation(name: &str) -> Checked<Activation> {
    let why = "write relu, leaky-relu, elu, relu6, gelu, silu, sigmoid or tanh";
    name.parse().map_err(|_| bad("activation", name, why))
}

pub(super) fn dtype(name: &str) -> Checked<Dtype> {
    Dtype::float_from_name(name).ok_or_else(|| bad("dtype", name, "write f32, f16 or bf16"))
}

pub(super) fn optimizer(name: &str) -> Checked<Optimizer> {
    let remedy = "write none, sgd, momentum, adam, adamw or adam-8bit";
    name.parse().map_err(|_| bad("optimizer", name, remedy))
}

pub(super) fn share(text: &str) -> Checked<f64> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| bad("sparsity", text, "write a share from 0% to 100%"))
}

pub(super) fn speed(factor: f64) -> Checked<f64> {
    match factor {
        0.001..=1000.0 => Ok(factor),
        _ => Err(bad("speed", factor, "write a factor from 0.001 to 1000")),
    }
}

pub(super) fn codec_speed(text: &str) -> Checked<f64> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0);
    let share = share.filter(|share| (0.001..=1000.0).contains(share));
    share.ok_or_else(|| bad("codec_speed", text, "write a share such as 20%"))
}

pub(super) fn codec_size(text: &str) -> Checked<u32> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let permille =
        number.map(|percent| (10.0 * percent).round()).filter(|p| (1.0..=1000.0).contains(p));
    let why = "write a share such as 12.8%, from 0.1% to 100%";
    permille.map(|permille| permille as u32).ok_or_else(|| bad("codec_size", text, why))
}

pub(super) fn epochs(count: u32) -> Checked<u32> {
    match count {
        1..=10_000 => Ok(count),
        _ => Err(bad("epochs", count, "a training has 1 to 10000")),
    }
}

pub(super) fn ranks(count: u32) -> Checked<u32> {
    match count {
        1..=65_536 => Ok(count),
        _ => Err(bad("ranks", count, "a training has 1 to 65536")),
    }
}

pub(super) fn epoch(epoch: u32, epochs: Option<u32>) -> Checked<u32> {
    match epochs {
        Some(count) if epoch < count => Ok(epoch),
        _ => Err(bad("at_epochs", epoch, "write epochs from 0 to below `epochs`")),
    }
}

fn bad(field: &'static str, value: impl Display, why: impl Display) -> StudyProblem {
    StudyProblem::Value { field, value: value.to_string(), why: why.to_string() }
}

pub(super) fn no_such<'a>(
    field: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> StudyProblem {
    let known: Vec<String> = known.map(str::to_string).collect();
    StudyProblem::NoSuch { field, name: name.to_string(), closest: closest(name, &known), known }
}
