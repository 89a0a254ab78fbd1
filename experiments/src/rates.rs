//! The parameter of CSWAP+'s lossy codec over the epochs: every rate of a codec of fixed rate, and the
//! method with the one that is due.

use std::sync::LazyLock;

use codecs::{CodecId, Dims, Rate};
use planner::Problem;
use planner::methods::{Method, ParameterRange, fixed_rates, parameter_range};
use schema::{
    Bytes, CodecModel, CodecModels, Fidelity, Nanos, RatioBand, SizeModel, TimeModel, TimePoint,
};

use crate::{Error, Result};

/// `MAX` of CSWAP+: the largest parameter. The paper does not print it; ZFP's smallest block is of
/// four values, which are 128 bits, and the paper's fixed parameters are 32 and 64.
pub const MAX: u32 = 4 * BITS;

const BITS: u32 = 32;

/// The smallest parameter for which the codec has a block: `P` runs from here to [`MAX`], where the paper
/// has it from 1.
pub static LEAST: LazyLock<u32> = LazyLock::new(|| {
    let is_there = |bits: &u32| {
        let rate = Rate::from_bits(bits_per_value(*bits));
        rate.is_some_and(|rate| CodecId::zfp(rate, Dims::One).is_ok())
    };
    (1..=MAX).find(is_there).unwrap_or(MAX)
});

/// The models with a codec of fixed rate at each of its rates, from [`LEAST`] to [`MAX`] bits for four
/// values: `Time_model(t, P)`. Its times are linear in the rate between those of the models, and beyond
/// them, as in section 5.4 of CSWAP+; with one model alone they are the same at every rate.
pub fn every_rate(models: &CodecModels) -> Result<CodecModels> {
    let (mut fixed, mut all): (Vec<CodecModel>, Vec<CodecModel>) =
        models.models.iter().cloned().partition(|model| model.fidelity == Fidelity::FixedRate);
    if let Some(first) = fixed.first() {
        let one_codec = fixed.iter().all(|model| model.codec == first.codec);
        if !one_codec || all.len() + MAX as usize > usize::from(u8::MAX) {
            return Err(Error::SeveralRates);
        }
        fixed.sort_by(|a, b| bits_of(a).total_cmp(&bits_of(b)));
        all.extend((*LEAST..=MAX).map(|parameter| at_rate(&fixed, parameter)));
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

fn bits_per_value(parameter: u32) -> f64 {
    f64::from(parameter) * f64::from(BITS) / f64::from(MAX)
}

fn bits_of(model: &CodecModel) -> f64 {
    model.parameter.unwrap_or(f64::from(BITS))
}

fn at_rate(models: &[CodecModel], parameter: u32) -> CodecModel {
    let bits = bits_per_value(parameter);
    // The two models around the rate, or the nearest two.
    let above = models.partition_point(|model| bits_of(model) < bits);
    let above = above.clamp(models.len().min(2) - 1, models.len() - 1);
    let (low, high) = (&models[above.saturating_sub(1)], &models[above]);
    let span = bits_of(high) - bits_of(low);
    let way = if span > 0.0 { (bits - bits_of(low)) / span } else { 0.0 };
    let permille = (parameter * 1000).div_ceil(MAX);
    CodecModel {
        parameter: Some(bits),
        size: SizeModel::Rate { permille, margin_permille: 0 },
        compress: between(&low.compress, &high.compress, way, permille),
        decompress: between(&low.decompress, &high.decompress, way, permille),
        ..low.clone()
    }
}

/// Times for one ratio that are a share of the way from one model's to another's; less than none and
/// more than all of it lead beyond them, but never below a tenth of the first.
fn between(low: &TimeModel, high: &TimeModel, way: f64, permille: u32) -> TimeModel {
    let point = |bytes: Bytes| {
        let (from, to) = (low.at(bytes, permille).0 as f64, high.at(bytes, permille).0 as f64);
        let time = Nanos((from + way * (to - from)).max(from / 10.0).round() as u64);
        TimePoint { bytes, time }
    };
    let points = low.band(permille).points.iter().map(|at| point(at.bytes)).collect();
    TimeModel { bands: vec![RatioBand { up_to_permille: 1000, points }], ..low.clone() }
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
        assert_eq!(*LEAST, 9, "a block of ZFP begins with nine bits");
        assert_eq!(all.models.len(), 1 + (MAX - *LEAST + 1) as usize);
        let last = all.models.last().expect("120 rates");
        assert_eq!((last.parameter, last.codec.as_str()), (Some(32.0), "zfp"));
        let at = |parameter: u32| &all.models[(1 + parameter - *LEAST) as usize];
        assert_eq!(at(32).parameter, Some(8.0), "P = 32 is 8 bits for each value");
        assert_eq!(at(32).size, SizeModel::Rate { permille: 250, margin_permille: 0 });
        // Its times are those of the models at their rates, and on a line between and beyond.
        let time = |parameter: u32| at(parameter).compress.at(Bytes(100 << 20), 500).0;
        let of_model = |bits: f64| {
            let is_it = |m: &&CodecModel| m.codec == "zfp" && m.parameter == Some(bits);
            models.models.iter().find(is_it).expect("bundled").compress.at(Bytes(100 << 20), 500).0
        };
        assert_eq!([time(32), time(64)], [of_model(8.0), of_model(16.0)]);
        let steps: Vec<u64> = (*LEAST..MAX).map(|p| time(p + 1) - time(p)).collect();
        assert!(steps.iter().all(|step| step.abs_diff(steps[0]) <= 2), "{steps:?}");
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
