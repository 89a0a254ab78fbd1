//! Whose libraries compute beside our own kernels, on the stream of the compute lane.

use std::collections::BTreeSet;
use std::fmt;

use codecs::kernels::Launch;
use schema::{Bytes, OpId};

use super::CudaError;
use super::dnn::Dnn;
use super::driver::{Blas, Context, Stream};
use super::launches::{BLAS, BLAS_HALVES, DNN, Halves, Means};
use crate::network::Network;

pub(super) struct Opened {
    /// Or why it is not used.
    blas: Result<Blas, String>,
    /// Or why it is not used.
    dnn: Result<Dnn, String>,
    /// Ops for which cuDNN has nothing that gives the same bits each time.
    not_dnn: BTreeSet<OpId>,
}

impl Opened {
    /// Those that are wanted and there, for a stream that outlives them; and the means that are
    /// left. What cannot be used is left away, and why is said with what computes.
    pub fn new(
        context: &Context,
        stream: &Stream,
        network: &Network,
        wanted: Means,
    ) -> Result<(Self, Means), CudaError> {
        let (dnn, not_dnn) = match usable(wanted.dnn, || Dnn::new(context, stream, network))? {
            Ok((dnn, refused)) => (Ok(dnn), refused),
            Err(why) => (Err(why), BTreeSet::new()),
        };
        let blas = usable(wanted.blas, || Blas::new(context, stream))?;
        // A device that is lost is no library's matter.
        context.synchronize()?;
        let halves = if blas.is_ok() { halves(context.capability) } else { Halves::None };
        let means = Means { blas: blas.is_ok(), halves, dnn: dnn.is_ok(), ..wanted };
        Ok((Self { blas, dnn, not_dnn }, means))
    }

    /// Ops that are not cuDNN's.
    pub fn not_dnn(&self) -> &BTreeSet<OpId> {
        &self.not_dnn
    }

    /// Carries a launch out if it is one of a library's, and says whether it is.
    pub fn carry_out(
        &self,
        (program, kernel): (&str, &str),
        arguments: &[u64],
    ) -> Result<bool, CudaError> {
        if program == BLAS.0 {
            let in_halves = (program, kernel) == BLAS_HALVES;
            self.blas.as_ref().map_err(absent)?.multiply(arguments, in_halves)?;
        } else if program == DNN {
            self.dnn.as_ref().map_err(absent)?.carry_out(kernel, arguments)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Bytes of device memory of their own.
    pub fn workspace_bytes(&self) -> u64 {
        self.blas.as_ref().map_or(0, Blas::workspace_bytes)
            + self.dnn.as_ref().map_or(0, Dnn::workspace_bytes)
    }

    pub fn libraries<'a, A: 'a>(&self, launches: impl Iterator<Item = &'a Launch<A>>) -> Libraries {
        let [mut kernels, mut blas, mut dnn] = [0; 3];
        for launch in launches {
            *match launch.program {
                program if program == BLAS.0 => &mut blas,
                program if program == DNN => &mut dnn,
                _ => &mut kernels,
            } += 1;
        }
        Libraries {
            kernels,
            blas: match &self.blas {
                Ok(own) => Ok((blas, Bytes(own.workspace_bytes()))),
                Err(why) => Err(why.clone()),
            },
            dnn: match &self.dnn {
                Ok(own) => Ok((own.version().into(), dnn, Bytes(own.workspace_bytes()))),
                Err(why) => Err(why.clone()),
            },
            not_dnn: self.not_dnn.len(),
        }
    }
}

/// A library that is wanted, or why it is not used.
///
/// # Errors
/// If there is too little memory for it: a smaller plan is better than other kernels.
fn usable<T>(
    is_wanted: bool,
    make: impl FnOnce() -> Result<T, CudaError>,
) -> Result<Result<T, String>, CudaError> {
    if !is_wanted {
        return Ok(Err("not wanted".into()));
    }
    match make() {
        Ok(made) => Ok(Ok(made)),
        Err(error @ CudaError::TooLittleMemory { .. }) => Err(error),
        Err(CudaError::NoLibrary { refused, .. }) if refused.is_empty() => {
            Ok(Err("not there".into()))
        }
        Err(CudaError::NoLibrary { refused, .. }) => {
            Ok(Err(format!("cannot be used: {}", refused.join("; "))))
        }
        Err(error) => Ok(Err(format!("cannot be used: {error}"))),
    }
}

fn absent(why: impl AsRef<str>) -> CudaError {
    CudaError::Call { what: "a call of a library", why: why.as_ref().into() }
}

/// What the units for products of 16 bits are used for. They are there from 8.0 on. Three products
/// of theirs take less time than one of floats on devices for data centres (8.0, 9.0, 10.x), by
/// their published peak rates; others have a quarter of such units, or fewer.
fn halves(capability: (i32, i32)) -> Halves {
    match capability {
        (8 | 9, 0) | (10, _) => Halves::WithWeights,
        newer if newer >= (8, 0) => Halves::Stored,
        _ => Halves::None,
    }
}

/// Who computes an iteration, by launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// Launches of our own kernels.
    pub kernels: usize,
    /// Those of cuBLAS, and its memory to work in; or why it is not used.
    pub blas: Result<(usize, Bytes), String>,
    /// cuDNN's version, its launches, and its memory to work in; or why it is not used.
    pub dnn: Result<(String, usize, Bytes), String>,
    /// Ops that cuDNN was asked for and has no algorithm for that gives the same bits each time.
    pub not_dnn: usize,
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dnn {
            Ok((version, launches, memory)) => {
                write!(f, "cuDNN {version}: {launches} launches, {memory} to work in")?;
                if self.not_dnn > 0 {
                    write!(f, " ({} ops left to other kernels)", self.not_dnn)?;
                }
            }
            Err(why) => write!(f, "cuDNN: {why}")?,
        }
        match &self.blas {
            Ok((launches, memory)) => {
                write!(f, "; cuBLAS: {launches} launches, {memory} to work in")?;
            }
            Err(why) => write!(f, "; cuBLAS: {why}")?,
        }
        write!(f, "; own kernels: {} launches", self.kernels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_for_16_bits_are_used_where_they_are_and_where_they_pay() {
        let of = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)].map(halves);
        let (none, stored, all) = (Halves::None, Halves::Stored, Halves::WithWeights);
        assert_eq!(of, [none, none, all, stored, stored, all, all, stored]);
    }
}
