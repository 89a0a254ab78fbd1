//! The file: fields that are present, in range, and refer to what is there.

use std::collections::HashMap;
use std::path::Path;

use schema::{Nanos, OpKind, Phase};
use serde_json::{Map, Value};

use crate::import::error::{ImportError, OpgraphProblem, Place, quoted, quoted_value};
use crate::import::op_kind::op_kind;

/// No single figure of a real iteration exceeds it, nor do sums.
const LARGEST: u64 = 1 << 60;

pub(super) struct Graph {
    pub network: String,
    pub batch: Option<u32>,
    pub device: Option<String>,
    pub framework: Option<String>,
    pub source: Option<String>,
    /// Time of all ops, as the file states it.
    total: Option<Nanos>,
    /// In execution order, at least one.
    pub ops: Vec<Record>,
}

pub(super) struct Record {
    pub id: u64,
    pub name: String,
    pub kind: OpKind,
    pub phase: Phase,
    pub duration: Nanos,
    /// Where it differs from `duration`.
    pub recompute: Option<Nanos>,
    pub output: u64,
    /// Bytes that it needs beside inputs and output; negative where it does with less.
    pub workspace: i64,
    /// Positions of the ops whose outputs it reads, all before its own.
    pub inputs: Vec<usize>,
    /// Bytes that are resident beside all that.
    pub fixed: u64,
}

impl Graph {
    /// A remark where the file's total is not what its ops add up to, both rounded.
    pub fn note_on_total(&self) -> Option<String> {
        let stated = self.total?;
        let sum: Nanos = self.ops.iter().map(|op| op.duration).sum();
        // The total is stated to 1e-3 ms, the ops' times to 1e-6 ms.
        let rounding = 1000 + self.ops.len() as u64;
        (stated.0.abs_diff(sum.0) > rounding).then(|| {
            format!("the file states {} ns in total, its ops add up to {} ns", stated.0, sum.0)
        })
    }
}

pub(super) fn read(text: &str, file: &Path) -> Result<Graph, ImportError> {
    let json: Value = serde_json::from_str(text).map_err(ImportError::json(file))?;
    graph(&json).map_err(|(place, problem)| {
        ImportError::Opgraph(file.into(), place.to_string(), problem.to_string())
    })
}

type Located<T> = Result<T, (Place, OpgraphProblem)>;

fn graph(json: &Value) -> Located<Graph> {
    let at = |problem| (Place::Graph, problem);
    let fields = Fields::of(json, "the file", "an object").map_err(at)?;
    let format = fields.text("format").map_err(at)?;
    if format != "opgraph/1" {
        return Err(at(wrong("format", format!("`{}`", quoted(format)), "`opgraph/1`")));
    }
    let ops = fields.list("ops").map_err(at)?;
    if ops.is_empty() {
        return Err(at(wrong("ops", "empty".into(), "a list of at least one op")));
    }
    let text = |field| fields.optional(field, Fields::text).map_err(at);
    Ok(Graph {
        network: fields.text("network").map_err(at)?.to_string(),
        batch: fields.optional("batch", Fields::batch).map_err(at)?,
        device: text("device")?.map(str::to_string),
        framework: text("framework")?.map(str::to_string),
        source: text("source")?.map(str::to_string),
        total: fields.optional("total_ms", Fields::milliseconds).map_err(at)?,
        ops: records(ops)?,
    })
}

fn records(ops: &[Value]) -> Located<Vec<Record>> {
    let mut positions = HashMap::new();
    let mut objects = Vec::with_capacity(ops.len());
    for (index, op) in ops.iter().enumerate() {
        let at = |problem| (Place::Position(index), problem);
        let fields = Fields::of(op, "the op", "an object").map_err(at)?;
        let id = fields.whole("id").map_err(at)?;
        if let Some(first) = positions.insert(id, index) {
            return Err(at(OpgraphProblem::DuplicateId { first }));
        }
        objects.push((id, fields));
    }
    let mut records = Vec::with_capacity(ops.len());
    let mut sums = Sums::default();
    for (id, fields) in objects {
        let record = record(id, &fields, &positions, &records);
        let record = record.and_then(|record| sums.add(&record).map(|()| record));
        records.push(record.map_err(|problem| (Place::Op(id), problem))?);
    }
    Ok(records)
}

/// Reads the op that comes after `before`.
fn record(
    id: u64,
    fields: &Fields<'_>,
    positions: &HashMap<u64, usize>,
    before: &[Record],
) -> Result<Record, OpgraphProblem> {
    let earlier = |field, id| match positions.get(&id) {
        None => Err(OpgraphProblem::UnknownOp { field, id }),
        Some(position) if *position >= before.len() => Err(OpgraphProblem::NotYetRun { field, id }),
        Some(position) => Ok(*position),
    };
    let name = fields.text("name")?;
    let (phase, is_loss) = match fields.text("phase")? {
        "forward" => (Phase::Forward, false),
        "loss" => (Phase::Forward, true),
        "backward" => (Phase::Backward, false),
        other => {
            let found = format!("`{}`", quoted(other));
            return Err(wrong("phase", found, "forward, loss or backward"));
        }
    };
    let forward_op = fields.optional("forward_op", Fields::whole)?;
    let forward = forward_op.map(|id| earlier("forward_op", id)).transpose()?;
    let duration = fields.milliseconds("time_ms")?;
    let recompute = fields.milliseconds("recompute_ms")?;
    let inputs = fields.list("inputs")?.iter().map(|input| {
        let id = input.as_u64();
        id.ok_or_else(|| wrong("inputs", quoted_value(input), "a list of op ids"))
            .and_then(|id| earlier("inputs", id))
    });
    Ok(Record {
        id,
        name: name.to_string(),
        kind: match forward {
            Some(forward) => before[forward].kind,
            None if is_loss => OpKind::Loss,
            None => op_kind(name),
        },
        phase,
        duration,
        recompute: (recompute != duration).then_some(recompute),
        output: fields.whole("output_bytes")?,
        workspace: fields.signed("workspace_bytes")?,
        inputs: inputs.collect::<Result<_, _>>()?,
        fixed: fields.whole("fixed_bytes")?,
    })
}

/// Sums over the ops so far, which no real iteration makes overflow.
#[derive(Default)]
struct Sums {
    time: u64,
    bytes: u64,
    fixed: u64,
}

impl Sums {
    fn add(&mut self, op: &Record) -> Result<(), OpgraphProblem> {
        let recompute = op.recompute.unwrap_or(Nanos::ZERO);
        self.time += op.duration.0 + recompute.0;
        if self.time > LARGEST {
            return Err(OpgraphProblem::TooLarge { field: "time_ms", what: "time" });
        }
        for (term, field) in [
            (op.output, "output_bytes"),
            (op.workspace.max(0).unsigned_abs(), "workspace_bytes"),
            (op.fixed.saturating_sub(self.fixed), "fixed_bytes"),
        ] {
            self.bytes += term;
            if self.bytes > LARGEST {
                return Err(OpgraphProblem::TooLarge { field, what: "memory" });
            }
        }
        self.fixed = op.fixed;
        Ok(())
    }
}

struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn of(
        value: &'a Value,
        what: &'static str,
        expected: &'static str,
    ) -> Result<Self, OpgraphProblem> {
        let object = value.as_object().map(Self);
        object.ok_or_else(|| wrong(what, quoted_value(value), expected))
    }

    /// The field's value as `convert` takes it.
    fn get<T>(
        &self,
        field: &'static str,
        expected: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, OpgraphProblem> {
        let value = self.0.get(field);
        let found = || value.map_or_else(|| "missing".into(), quoted_value);
        value.and_then(convert).ok_or_else(|| wrong(field, found(), expected))
    }

    /// `read` of a field that may be absent or null.
    fn optional<T>(
        &self,
        field: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, OpgraphProblem>,
    ) -> Result<Option<T>, OpgraphProblem> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => read(self, field).map(Some),
        }
    }

    fn text(&self, field: &'static str) -> Result<&'a str, OpgraphProblem> {
        self.get(field, "a text", Value::as_str)
    }

    fn list(&self, field: &'static str) -> Result<&'a [Value], OpgraphProblem> {
        self.get(field, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    fn whole(&self, field: &'static str) -> Result<u64, OpgraphProblem> {
        let convert = |value: &Value| value.as_u64().filter(|number| *number <= LARGEST);
        self.get(field, "a whole number from 0 to 2^60", convert)
    }

    fn signed(&self, field: &'static str) -> Result<i64, OpgraphProblem> {
        let in_range = |number: &i64| number.unsigned_abs() <= LARGEST;
        let convert = |value: &Value| value.as_i64().filter(in_range);
        self.get(field, "a whole number from -2^60 to 2^60", convert)
    }

    fn batch(&self, field: &'static str) -> Result<u32, OpgraphProblem> {
        let convert = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        self.get(field, "a whole number below 2^32", convert)
    }

    /// A time in milliseconds with up to six decimals, exactly: a double is within 2^-53 of the
    /// text, so is the product of itself, and with fewer than 2^50 nanoseconds both errors together
    /// are under half a nanosecond.
    fn milliseconds(&self, field: &'static str) -> Result<Nanos, OpgraphProblem> {
        const LONGEST: f64 = (1u64 << 50) as f64;
        let convert = |value: &Value| {
            let nanos = value.as_f64()? * 1e6;
            (0.0..LONGEST).contains(&nanos).then(|| Nanos(nanos.round() as u64))
        };
        self.get(field, "a time from 0 ms to 1e9 ms", convert)
    }
}

fn wrong(field: &'static str, found: String, expected: &'static str) -> OpgraphProblem {
    OpgraphProblem::Field { field, found, expected }
}
