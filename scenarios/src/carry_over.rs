//! A trace's compute times on another machine than the one they were measured on.

use std::fmt;

use schema::{
    Compute, Document, Dtype, Machine, Malformed, Nanos, Op, OpKind, Origin, TensorId, Trace,
};

/// What was done to a trace's compute times. Its `Display` says it in a sentence for the user.
#[derive(Debug, Clone, PartialEq)]
pub struct CarryOver {
    /// The device of the machine that the trace was measured on, or what the trace says of it.
    pub from: String,
    /// The device that the times are carried to.
    pub to: String,
    /// Ops whose times follow the ratio of the two devices' rooflines.
    pub by_roofline: Share,
    /// Ops whose times are divided by the stated factor.
    pub by_factor: Share,
    /// The factor, where one is stated: 2 says that the device is twice as fast.
    pub factor: Option<f64>,
    /// Ops whose times are left as they are.
    pub unchanged: Share,
    /// Time of all ops afterwards.
    pub after: Nanos,
}

/// A part of a trace's ops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// How many ops.
    pub ops: usize,
    /// Their time in the trace as it was given.
    pub time: Nanos,
}

/// Why a trace cannot be carried over.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CarryOverError {
    #[error("the factor {0} is none: state how many times as fast the device is, such as 2 or 0.5")]
    Factor(f64),
    #[error("the machine `{name}` cannot be")]
    Machine { name: String, source: Malformed },
    #[error("the trace of `{network}` has no times on `{machine}`")]
    Trace { network: String, machine: String, source: Malformed },
}

/// Carries the compute times of `trace`, measured on the machine `from`, to the machine `to`.
///
/// An op of which FLOPs and bytes moved are known, where `from` is known, takes its time times the
/// ratio of the two rooflines, `max(flops / F, bytes / B)` (Williams et al., "Roofline", 2009): so
/// it keeps the share of the peak that it reached. `F` is that of the matrix units for
/// convolutions, matrix products and attention in 16 bits, and of 32-bit floats for all else.
/// Every other op takes its time divided by `factor`, where one is stated (2: the device is twice
/// as fast), and else the time that it had. Between two machines with one device, which differ in
/// their links or hosts, no roofline enters.
///
/// A trace of which any op was carried over says so in its provenance; one of which none was is
/// returned as it is.
pub fn carry_over(
    trace: &Trace,
    from: Option<&Machine>,
    to: &Machine,
    factor: Option<f64>,
) -> Result<(Trace, CarryOver), CarryOverError> {
    if let Some(factor) = factor.filter(|factor| !(1e-6..=1e6).contains(factor)) {
        return Err(CarryOverError::Factor(factor));
    }
    for machine in from.into_iter().chain([to]) {
        if let Err(source) = machine.check() {
            return Err(CarryOverError::Machine { name: machine.name.clone(), source });
        }
    }
    let well_formed = |trace: &Trace| {
        let (network, machine) = (trace.network.clone(), to.name.clone());
        trace.check().map_err(|source| CarryOverError::Trace { network, machine, source })
    };
    well_formed(trace)?;

    let device = |machine: &Machine| (machine.device.name.clone(), machine.device.compute.clone());
    let other = from.filter(|from| device(from) != device(to));
    let mut carried = trace.clone();
    let mut report = CarryOver {
        from: from.map_or(&trace.provenance.device, |from| &from.device.name).clone(),
        to: to.device.name.clone(),
        by_roofline: Share::default(),
        by_factor: Share::default(),
        factor,
        unchanged: Share::default(),
        after: Nanos::ZERO,
    };
    for op in &mut carried.ops {
        let ratio = other.and_then(|from| {
            let roofline = |machine: &Machine| roofline_secs(trace, op, &machine.device.compute);
            Some(roofline(to)? / roofline(from)?)
        });
        let (share, ratio) = match (ratio, factor) {
            (Some(ratio), _) => (&mut report.by_roofline, ratio),
            // A faster device has no faster network.
            (None, Some(factor)) if !op.kind.is_collective() => {
                (&mut report.by_factor, 1.0 / factor)
            }
            (None, _) => (&mut report.unchanged, 1.0),
        };
        share.ops += 1;
        share.time += op.duration;
        op.duration = scaled(op.duration, ratio);
        op.recompute = op.recompute.map(|time| scaled(time, ratio));
    }
    // A ratio may make times longer than a trace may be.
    well_formed(&carried)?;
    report.after = carried.total_time();
    if report.unchanged.ops < trace.ops.len() {
        carried.provenance.origin = Origin::Scaled;
        carried.provenance.device = report.to.clone();
        carried.provenance.notes.push(report.to_string());
    }
    Ok((carried, report))
}

/// The least time that the op could take, in seconds, where its FLOPs and bytes are known and not
/// both zero.
pub(crate) fn roofline_secs(trace: &Trace, op: &Op, compute: &Compute) -> Option<f64> {
    let (flops, bytes) = (op.flops?, op.bytes_moved?);
    let peak = if uses_matrix_units(trace, op) { compute.f16_flops } else { compute.f32_flops };
    let arithmetic = flops as f64 / peak as f64;
    let movement = bytes.0 as f64 / compute.memory_bandwidth.0 as f64;
    Some(arithmetic.max(movement)).filter(|secs| *secs > 0.0)
}

/// Whether the op multiplies matrices of 16-bit floats: its kind does, and the first tensor that
/// it writes (or, where that is not known, reads) is of 16 bits.
fn uses_matrix_units(trace: &Trace, op: &Op) -> bool {
    let multiplies =
        matches!(op.kind, OpKind::Convolution | OpKind::MatrixProduct | OpKind::Attention);
    let dtype = |tensor: &TensorId| trace.tensors.get(tensor.index())?.dtype;
    let first = op.writes.iter().chain(&op.reads).find_map(dtype);
    multiplies && matches!(first, Some(Dtype::F16 | Dtype::Bf16))
}

/// To the nearest nanosecond. A product beyond the range of `u64` becomes its end, which no trace
/// may hold.
fn scaled(time: Nanos, ratio: f64) -> Nanos {
    if ratio == 1.0 { time } else { Nanos((time.0 as f64 * ratio).round() as u64) }
}

impl CarryOver {
    fn before(&self) -> Nanos {
        self.by_roofline.time + self.by_factor.time + self.unchanged.time
    }
}

impl fmt::Display for CarryOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, by_roofline, by_factor, factor, unchanged, after } = self;
        let before = self.before();
        let ops = by_roofline.ops + by_factor.ops + unchanged.ops;
        if unchanged.ops == ops {
            write!(f, "compute times are those of {from}")?;
            return if from == to { Ok(()) } else { f.write_str("; state --speed to scale them") };
        }
        let part = |share: &Share| {
            let percent = 100.0 * share.time.0 as f64 / before.0.max(1) as f64;
            format!("{} of {ops} ops ({percent:.1} % of the time)", share.ops)
        };
        let mut ways = Vec::new();
        if by_roofline.ops > 0 {
            ways.push(format!("{} by the ratio of the rooflines", part(by_roofline)));
        }
        if let (1.., Some(factor)) = (by_factor.ops, factor) {
            ways.push(format!("{} divided by {factor}", part(by_factor)));
        }
        if unchanged.ops > 0 {
            let unknown = "whose FLOPs and bytes are not known";
            let remedy = "left as they were: state --speed to scale them";
            ways.push(format!("{}, {unknown}, {remedy}", part(unchanged)));
        }
        let ways = ways.join("; ");
        write!(f, "compute times are carried from {from} to {to}: {ways}; {before} became {after}")
    }
}

#[cfg(test)]
#[path = "carry_over_tests.rs"]
mod tests;
