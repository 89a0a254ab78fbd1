//! What a plan claims of codecs, held against the codecs that are here.

use std::collections::BTreeSet;
use std::fmt;

use schema::{BufferId, Bytes, CodecRef, Dtype, Plan, TensorId, Trace};

use crate::{Codec, Error, Fidelity, Layout, codec};

/// What a plan's compressed forms rest on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claims {
    /// The codecs whose output's size depends on the data, which nobody knows before it is there.
    /// What turns out larger than is reserved for it goes to a host buffer instead.
    pub varying: Vec<CodecRef>,
    /// Host buffers that such data falls back on, and all their bytes.
    pub fallbacks: (usize, Bytes),
    /// The codecs that are not here, so that their sizes are taken as the plan states them.
    pub unknown: Vec<CodecRef>,
}

/// What nobody can know of compressed sizes before the data is there, and what makes it safe.
impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |codecs: &[CodecRef]| {
            codecs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        if !self.varying.is_empty() {
            let (codecs, (count, bytes)) = (names(&self.varying), self.fallbacks);
            writeln!(
                f,
                "sizes by {codecs} depend on the data: what outgrows its buffer goes to the host instead \
                 ({count} of its buffers, {bytes})"
            )?;
        }
        if !self.unknown.is_empty() {
            writeln!(f, "sizes by {} are taken as stated", names(&self.unknown))?;
        }
        Ok(())
    }
}

/// A plan that claims of a codec what is not so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ClaimError {
    #[error("the plan says that {codec} is {stated:?}, and it is {found:?}: plan again")]
    Fidelity { codec: CodecRef, stated: schema::Fidelity, found: schema::Fidelity },
    #[error(
        "{codec} makes {} B of {tensor}, and {buffer} reserves {} B for it: plan again",
        .needed.0, .reserved.0
    )]
    Reserved { codec: CodecRef, tensor: TensorId, buffer: BufferId, needed: Bytes, reserved: Bytes },
}

/// The codec that documents name.
///
/// # Errors
/// Where no codec of this build has that name and parameter.
pub fn codec_of(named: &CodecRef) -> Result<Box<dyn Codec>, Error> {
    let name = match named.parameter {
        Some(parameter) => format!("{}:{parameter}", named.codec),
        None => named.codec.clone(),
    };
    name.parse().and_then(codec)
}

/// Holds what a plan of a trace says of the codecs that it uses against those codecs: what comes
/// back, and what those of fixed rate make of its tensors. Elements of unknown type are taken for
/// 32-bit floats, as planning does.
///
/// # Errors
/// The first claim that is not so.
pub fn check_claims(plan: &Plan, trace: &Trace) -> Result<Claims, ClaimError> {
    let on_device = plan.buffers.iter().filter_map(|b| b.compressed);
    let used: BTreeSet<_> =
        on_device.chain(plan.host_buffers.iter().filter_map(|b| b.compressed)).collect();
    let mut claims = Claims::default();
    for id in used {
        let stated = &plan.codecs[id.index()];
        if stated.fidelity.size_varies() {
            claims.varying.push(stated.clone());
        }
        let Ok(codec) = codec_of(stated) else {
            claims.unknown.push(stated.clone());
            continue;
        };
        let found = match codec.fidelity() {
            Fidelity::Lossless => schema::Fidelity::Lossless,
            Fidelity::Bounded { .. } | Fidelity::Relative { .. } => schema::Fidelity::ErrorBounded,
            Fidelity::FixedRate { .. } => schema::Fidelity::FixedRate,
        };
        if found != stated.fidelity {
            let (codec, stated) = (stated.clone(), stated.fidelity);
            return Err(ClaimError::Fidelity { codec, stated, found });
        }
        for (index, buffer) in plan.buffers.iter().enumerate() {
            let Some(tensor) = buffer.tensor.filter(|_| buffer.compressed == Some(id)) else {
                continue;
            };
            let of = &trace.tensors[tensor.index()];
            let dtype = of.dtype.unwrap_or(Dtype::F32);
            let elements = of.bytes.0.div_ceil(dtype.bytes()) as usize;
            let layout = Layout::new(dtype, &[elements]);
            let Some(layout) = layout.ok().filter(|_| !found.size_varies()) else { continue };
            let needed = Bytes(codec.worst_case(&layout) as u64);
            if needed > buffer.bytes {
                let (codec, reserved) = (stated.clone(), buffer.bytes);
                let buffer = BufferId::from_index(index);
                return Err(ClaimError::Reserved { codec, tensor, buffer, needed, reserved });
            }
        }
    }
    let varies = |id: schema::CodecId| plan.codecs[id.index()].fidelity.size_varies();
    let fallbacks = plan.host_buffers.iter().filter(|b| b.compressed.is_some_and(varies));
    claims.fallbacks = (fallbacks.clone().count(), fallbacks.map(|b| b.bytes).sum());
    Ok(claims)
}
