//! The parameter of CSWAP+'s lossy codec over the epochs: every rate of a codec of fixed rate, and the
//! method with the one that is due.

use planner::Problem;
use planner::methods::{Method, ParameterRange, fixed_rates, parameter_range};
use schema::{CodecModel, CodecModels, Fidelity, SizeModel};

use crate::{Error, Result};

/// `MAX` of CSWAP+: the largest parameter. The paper does not print it; ZFP's smallest block is of
/// four values, which are 128 bits, and the paper's fixed parameters are 32 and 64.
pub const MAX: u32 = 4 * BITS;

const BITS: u32 = 32;

/// The models with a codec of fixed rate at each of its rates, from 1 to [`MAX`] bits for four
/// values. Its times at a rate are those of the model whose rate is the nearest: a model's times
/// hold for any rate, by their bands.
pub fn every_rate(models: &CodecModels) -> Result<CodecModels> {
    let (fixed, mut all): (Vec<CodecModel>, Vec<CodecModel>) =
        models.models.iter().cloned().partition(|model| model.fidelity == Fidelity::FixedRate);
    if let Some(first) = fixed.first() {
        let one_codec = fixed.iter().all(|model| model.codec == first.codec);
        if !one_codec || all.len() + MAX as usize > usize::from(u8::MAX) {
            return Err(Error::SeveralRates);
        }
        all.extend((1..=MAX).map(|parameter| at_rate(&fixed, parameter)));
    }
    Ok(CodecModels { models: all, ..models.clone() })
}

/// Whether a method has a lossy codec whose parameter slides over the epochs.
pub fn slides(method: &dyn Method) -> bool {
    method.with_parameter(1).is_some()
}

/// The range over which it slides (Algorithm 1 of CSWAP+); none where it does not, or that does not
/// pay.
pub fn range_of(method: &dyn Method, problem: &Problem) -> Option<ParameterRange> {
    let several = slides(method) && fixed_rates(problem).len() > 1;
    several.then(|| parameter_range(problem)).filter(ParameterRange::pays)
}

fn at_rate(models: &[CodecModel], parameter: u32) -> CodecModel {
    let bits = f64::from(parameter) * f64::from(BITS) / f64::from(MAX);
    let distance = |model: &&CodecModel| (model.parameter.unwrap_or(f64::from(BITS)) - bits).abs();
    let nearest = models.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    CodecModel {
        parameter: Some(bits),
        size: SizeModel::Rate { permille: (parameter * 1000).div_ceil(MAX), margin_permille: 0 },
        ..nearest.expect("there is a model of fixed rate").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> CodecModels {
        scenarios::codec_models(&scenarios::machine("cswap-v100").expect("bundled"))
    }

    #[test]
    fn there_is_a_model_for_every_rate_and_others_stay() {
        let mut models = models();
        models.models.retain(|model| model.codec == "zvc" || model.codec == "zfp");
        let all = every_rate(&models).expect("one codec of fixed rate");
        assert_eq!(all.models.len(), 1 + MAX as usize);
        let last = all.models.last().expect("128 rates");
        assert_eq!((last.parameter, last.codec.as_str()), (Some(32.0), "zfp"));
        assert_eq!(all.models[32].parameter, Some(8.0), "P = 32 is 8 bits for each value");
        let size = SizeModel::Rate { permille: 250, margin_permille: 0 };
        assert_eq!(all.models[32].size, size);
        schema::Document::check(&all).expect("well formed");
    }

    #[test]
    fn two_codecs_of_fixed_rate_do_not_slide() {
        let mut models = models();
        let mut other = models.models.iter().find(|m| m.codec == "zfp").expect("bundled").clone();
        other.codec = "other".into();
        models.models.push(other);
        assert!(every_rate(&models).is_err());
    }
}
