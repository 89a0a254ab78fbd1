//! A comparison as plain text.

use std::cmp::Ordering;
use std::fmt::Write as _;

use schema::{Bytes, Nanos};

use crate::comparison_advice::advice;
use crate::text::{op_times, or_dash, percent_of, tensors};
use crate::{Comparison, Copied, MethodResult, Moved, Status, columns};

/// The comparison as a table for a terminal: what was compared, one line per method from fastest
/// to slowest, those without a plan last with their reason, and a sentence on what to do. `wide`
/// adds what a plan's time is made of.
pub fn table(comparison: &Comparison, wide: bool) -> String {
    let mut methods: Vec<&MethodResult> = comparison.methods.iter().collect();
    methods.sort_by(|a, b| compare(a, b));
    let shown = Columns::of(comparison, wide);
    let mut rows = vec![shown.header()];
    rows.extend(methods.iter().filter(|m| m.status == Status::Ok).map(|m| shown.row(m)));
    // As wide as the longest name, also of those that have a sentence in place of figures.
    let names = methods.iter().map(|m| m.method.chars().count());
    let width = names.chain([rows[0][0].len()]).max().unwrap_or(0);
    rows[0][0] = format!("{:<width$}", rows[0][0]);

    let mut text = header(comparison);
    text.push('\n');
    if rows.len() > 1 {
        text += &columns(&rows);
    }
    for method in methods.iter().filter(|m| m.status != Status::Ok) {
        text += &format!("{:<width$}  {}\n", method.method, failure(method));
    }
    for (method, moved) in methods.iter().filter_map(|m| Some((m, m.moved?))) {
        text += &format!("{:<width$}  {}\n", method.method, moves(&moved));
    }
    if !comparison.methods.is_empty() {
        text.push('\n');
    }
    text + &advice(comparison) + "\n"
}

/// Plans by time, then what ran out of time, then what does not fit by how much it lacks. Equals
/// stay in the order in which they were asked for.
fn compare(a: &MethodResult, b: &MethodResult) -> Ordering {
    let class = |m: &MethodResult| match m.status {
        Status::Ok => 0,
        Status::Timeout => 1,
        Status::Infeasible => 2,
    };
    let time = |m: &MethodResult| m.iteration.unwrap_or(Nanos(u64::MAX));
    let shortfall = |m: &MethodResult| m.shortfall.unwrap_or(Bytes(u64::MAX));
    (class(a), time(a), shortfall(a)).cmp(&(class(b), time(b), shortfall(b)))
}

fn header(comparison: &Comparison) -> String {
    let Comparison { trace, machine, budget, in_core, .. } = comparison;
    let share = percent_of(*budget, in_core.peak);
    let fixed = in_core.fixed;
    // All methods decide about the same tensors, so that any of them tells how many there are.
    let planned = comparison.methods.iter().find(|method| method.kept_bytes.is_some());
    let fates = planned.map(MethodResult::fates).unwrap_or_default();
    let saved: u64 = fates.iter().filter_map(|(_, count, _)| *count).sum();
    let bytes: Bytes = fates.iter().filter_map(|(.., bytes)| *bytes).sum();
    let mut lines = vec![
        ("trace", format!("{} ({})", trace.name, trace.digest.short())),
        ("machine", format!("{} ({})", machine.name, machine.digest.short())),
        ("budget", format!("{budget}, {share} of the in-core peak")),
        (
            "in core",
            format!("{}, peak {} ({fixed} of it all the time)", in_core.iteration, in_core.peak),
        ),
    ];
    if saved > 0 {
        let text = format!("{saved} activations, {bytes}; what becomes of them is in each row");
        lines.push(("backward", format!("reads {text}")));
    }
    if let Some(bound) = comparison.bound {
        // Where a plan moves state, the bound is for such plans as well.
        let moves = comparison.methods.iter().any(|method| method.moved.is_some());
        let of = if moves { "" } else { " that keeps state on the device" };
        lines.push(("bound", format!("{bound}: no plan under this budget{of} is faster")));
    }
    lines.push(("times", format!("predicted; {}", op_times(comparison.provenance.as_ref()))));
    lines.iter().map(|(name, text)| format!("{name:<9}{text}\n")).collect()
}

/// Which of the columns that not every comparison needs are there.
#[derive(Clone, Copy)]
struct Columns {
    gap: bool,
    jitter: bool,
    compressed: bool,
    moved: bool,
    wide: bool,
}

impl Columns {
    fn of(comparison: &Comparison, wide: bool) -> Self {
        let methods = &comparison.methods;
        Self {
            gap: methods.iter().any(|m| m.gap.is_some()),
            jitter: methods.iter().any(|m| m.jitter.is_some()),
            compressed: methods.iter().any(|m| m.compressed.is_some_and(|count| count > 0)),
            moved: methods.iter().any(|m| m.moved.is_some()),
            wide,
        }
    }

    fn header(self) -> Vec<String> {
        let mut names = vec!["method", "time", "slowdown"];
        names.extend(self.gap.then_some("over bound"));
        if self.jitter {
            names.extend(["median", "90 %", "99 %", "worst"]);
        }
        names.extend(self.wide.then_some("peak"));
        names.extend(["memory", "kept", "swapped", "recomputed"]);
        names.extend(self.compressed.then_some("compressed"));
        names.extend(self.moved.then_some("state on host"));
        if self.wide {
            names.extend(["copied out", "copied in", "recomputing"]);
            names.extend(self.compressed.then_some("compressing"));
            names.push("waiting");
        }
        names.push("planned in");
        names.into_iter().map(String::from).collect()
    }

    fn row(self, m: &MethodResult) -> Vec<String> {
        let mut cells = vec![
            m.method.clone(),
            or_dash(m.iteration),
            or_dash(m.slowdown.map(|slowdown| format!("{slowdown:.3}x"))),
        ];
        if self.gap {
            cells.push(or_dash(m.gap.map(|gap| format!("{:.2} %", gap * 100.0))));
        }
        if self.jitter {
            let jitter = m.jitter.as_ref();
            cells.extend([
                or_dash(jitter.map(|jitter| jitter.median)),
                or_dash(jitter.map(|jitter| jitter.p90)),
                or_dash(jitter.map(|jitter| jitter.p99)),
                or_dash(jitter.map(|jitter| jitter.worst)),
            ]);
        }
        cells.extend(self.wide.then(|| or_dash(m.peak)));
        cells.push(or_dash(m.arena));
        let fates = m.fates().into_iter().take(if self.compressed { 4 } else { 3 });
        cells.extend(fates.map(|(_, count, bytes)| tensors(count, bytes)));
        cells.extend(self.moved.then(|| {
            let moved = m.moved.unwrap_or_default();
            tensors(Some(moved.tensors), Some(moved.bytes))
        }));
        if self.wide {
            cells.extend([or_dash(m.d2h), or_dash(m.h2d), or_dash(m.recompute)]);
            cells.extend(self.compressed.then(|| or_dash(m.codec)));
            cells.push(or_dash(m.stall));
        }
        cells.push(or_dash(m.plan_seconds.map(|seconds| format!("{seconds:.3} s"))));
        cells
    }
}

/// What goes over the link, by kind, where that is anything.
fn moves(moved: &Moved) -> String {
    let kinds = [
        ("optimizer state", moved.state),
        ("parameters", moved.parameters),
        ("gradients", moved.gradients),
        ("activations", moved.activations),
    ];
    let kinds = kinds.into_iter().filter(|(_, copied)| *copied != Copied::default());
    let kinds: Vec<String> =
        kinds.map(|(name, Copied { d2h, h2d })| format!("{name} {d2h} out, {h2d} in")).collect();
    let mut text = format!("copies in each iteration: {}; ", kinds.join("; "));
    match moved.updates {
        0 => {}
        1 => text.push_str("1 update on the host; "),
        more => write!(text, "{more} updates on the host; ").expect("writing to a string"),
    }
    text + &format!("{} of host memory", moved.host)
}

fn failure(method: &MethodResult) -> String {
    let status = match method.status {
        Status::Timeout => "out of time",
        Status::Ok | Status::Infeasible => "does not fit",
    };
    match &method.reason {
        Some(reason) => format!("{status}: {reason}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests;
