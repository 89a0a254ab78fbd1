//! Op logs of the DTR prototype.
//!
//! The log is a sequence of instructions: constants, calls, in-place writes (`MUTATE`), further
//! references (`COPY`, `COPY_FROM`) and `RELEASE`s. Replaying the references tells how long each
//! storage lives. The semantics are those of the prototype's simulator (`simrd`): an in-place write
//! makes a new storage of the argument's size beside the old one, and the name goes over to it.

mod line;
mod replay;

use std::path::Path;

use schema::{Origin, Provenance, Trace};

use self::line::{Instruction, Lines};
use self::replay::{Replay, Replayed};
use super::error::{DtrProblem, ImportError};
use super::recording::{ImportOptions, file_name};

/// Imports a log; the caller checks the trace.
pub(super) fn import(
    text: &str,
    file: &Path,
    options: &ImportOptions,
) -> Result<Trace, ImportError> {
    let mut lines = Lines::from_start_of_iteration(text);
    let replayed = replay(&mut lines, options)
        .map_err(|problem| ImportError::Dtr(file.into(), lines.number(), problem.to_string()))?;
    Ok(Trace {
        network: options.network.clone().unwrap_or_else(|| network_of(file)),
        batch: None,
        provenance: Provenance {
            framework: Some("PyTorch (DTR prototype)".into()),
            notes: replayed.notes,
            ..Provenance::new(
                Origin::Imported,
                "an unstated device",
                format!("op log of the DTR prototype, {}", file_name(file)),
            )
        },
        tensors: replayed.tensors,
        ops: replayed.ops,
    })
}

fn replay(lines: &mut Lines<'_>, options: &ImportOptions) -> Result<Replayed, DtrProblem> {
    let mut replay = Replay::new(options.in_place);
    while let Some(instruction) = lines.next()? {
        match instruction {
            Instruction::Constant { name } => {
                let bytes = lines.memory_of(&name)?;
                replay.constant(name, bytes)?;
            }
            Instruction::Call { name, args, result, time } => {
                let call = replay.begin_op(name, &args, time.whole("TIME")?)?;
                let results = result.len();
                for name in result {
                    let memory = lines.memory_line_of(&name)?;
                    let line = lines.number();
                    match lines.alias_of(&name)? {
                        None => {
                            let bytes = memory.whole("MEMORY");
                            let bytes = bytes.inspect_err(|_| lines.blame(line))?;
                            replay.new_result(call, name, bytes)?;
                        }
                        Some(arg) => replay.shared_result(name, arg, &args)?,
                    }
                }
                replay.end_call(call, results);
            }
            Instruction::Mutate { name, args, mutate, time } => {
                let op = replay.begin_op(name, &args, time.whole("TIME")?)?;
                replay.mutate(op, &args, &mutate)?;
            }
            Instruction::Copy { dst, src } => replay.copy(dst, &src)?,
            Instruction::CopyFrom { dst, src } => replay.copy_from(dst, &src)?,
            Instruction::Release { name } => replay.release(&name),
            Instruction::Annotate { annotation } => replay.annotate(&annotation),
            Instruction::Memory { name, .. } => return Err(stray("MEMORY", &name)),
            Instruction::Alias { name, .. } => return Err(stray("ALIAS", &name)),
        }
    }
    replay.finish()
}

/// A line that belongs to another one, without that.
fn stray(instruction: &str, name: &str) -> DtrProblem {
    let name = super::error::quoted(name);
    DtrProblem::Syntax {
        why: format!("{instruction} of `{name}` follows no CONSTANT or CALL that defines it"),
    }
}

/// `resnet32` for `logs/resnet32.dtr.jsonl`.
fn network_of(file: &Path) -> String {
    let name = file_name(file);
    let stem = name.split_once(".dtr").map_or_else(
        || name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem),
        |(stem, _)| stem,
    );
    if stem.is_empty() { name } else { stem.to_string() }
}
