use proptest::prelude::*;
use schema::{Bytes, Fidelity, Nanos, SizeModel};

use super::lines::time_model;
use super::method::fit;
use super::validate::cross_validate;
use super::*;

const MIB: u64 = 1 << 20;

/// Sizes and ratios of a grid, with a time in milliseconds for each.
fn grid(ms: impl Fn(f64, f64) -> f64) -> Vec<Sample> {
    let sizes = [1u64, 2, 4, 8, 16, 32, 64];
    let at = |mib: u64, percent: u64| Sample {
        bytes: Bytes(mib * MIB),
        compressed: Bytes(mib * MIB * percent / 100),
        sparsity: 1.0 - percent as f64 / 100.0,
        time: Nanos((1e6 * ms(mib as f64, percent as f64 / 100.0)).round() as u64),
    };
    sizes.iter().flat_map(|mib| (10..=90).step_by(5).map(move |p| at(*mib, p))).collect()
}

#[test]
fn a_piecewise_function_of_size_and_ratio_is_found_again() {
    // 10 to 90 % in six parts: one border lies at a half.
    let truth = |mib: f64, ratio: f64| {
        if ratio < 0.5 { 0.2 + mib * (0.5 + 0.3 * ratio) } else { 0.4 + mib * (1.5 - 0.7 * ratio) }
    };
    let fitted = fit(Method::Piecewise, &grid(truth)).expect("a solution");
    for (mib, ratio) in [(1.0, 0.1), (3.0, 0.2), (64.0, 0.45), (5.0, 0.5), (200.0, 0.8)] {
        let (found, truth) = (fitted.predict(mib, ratio), truth(mib, ratio));
        assert!((found - truth).abs() < 1e-4 * truth, "{mib} {ratio}: {found} for {truth}");
    }
}

#[test]
fn a_plane_is_found_by_the_ridge_and_steps_by_the_tree() {
    let plane = |mib: f64, ratio: f64| 1.0 + mib * (0.5 + 0.25 * ratio);
    let ridge = fit(Method::BayesianRidge, &grid(plane)).expect("a solution");
    assert!((ridge.predict(20.0, 0.33) / plane(20.0, 0.33) - 1.0).abs() < 1e-4);
    let steps = |mib: f64, ratio: f64| if mib < 6.0 || ratio < 0.4 { 3.0 } else { 9.0 };
    let tree = fit(Method::Tree, &grid(steps)).expect("a solution");
    for (mib, ratio) in [(1.0, 0.9), (4.0, 0.3), (8.0, 0.3), (8.0, 0.5), (64.0, 0.9)] {
        assert!((tree.predict(mib, ratio) - steps(mib, ratio)).abs() < 1e-9, "{mib} {ratio}");
    }
}

#[test]
fn svm_follows_a_smooth_function() {
    let smooth = |mib: f64, ratio: f64| 5.0 + mib * (1.0 - ratio * ratio);
    let held_out = cross_validate(Method::Svm, &grid(smooth)).expect("a solution");
    let error = relative_absolute_error(&held_out);
    assert!(error < 0.1, "{error}");
}

#[test]
fn the_best_method_is_used_and_says_how_far_it_is_off() {
    // A step at a half, which no plane follows.
    let truth =
        |mib: f64, ratio: f64| 0.1 + mib * (if ratio < 0.5 { 0.5 } else { 1.5 } + 0.3 * ratio);
    let samples = grid(truth);
    let fit = fit_times(&samples, "made up").expect("a solution");
    let least = fit.errors.iter().filter_map(|(_, error)| *error).fold(f64::INFINITY, f64::min);
    let of_chosen = fit.errors.iter().find(|(method, _)| *method == fit.method);
    assert_eq!(of_chosen.and_then(|(_, error)| *error), Some(least));
    let methods: Vec<Method> = fit.held_out.iter().map(|(method, _)| *method).collect();
    assert_eq!(methods, Method::ALL);
    for ((_, predicted), (_, error)) in fit.held_out.iter().zip(&fit.errors) {
        assert_eq!(Some(relative_absolute_error(predicted)), *error);
        assert_eq!(predicted.len(), samples.len(), "each is held out once");
    }
    // Bands that the step runs through mix both of its sides.
    assert!(least < 0.03, "{least}");
    assert!(fit.model.spread_permille.is_some_and(|spread| spread < 50));
    assert!(fit.model.source.starts_with("made up: piecewise linear"), "{}", fit.model.source);
}

#[test]
fn bands_end_where_sub_models_do() {
    // Each sixth of the ratios has a level of its own: a band that mixes two would be off.
    let level = |ratio: f64| (((ratio - 0.1) / 0.8 * 6.0) as u32).min(5);
    let samples = grid(|mib, ratio| mib * f64::from(1 + level(ratio)));
    let fitted = fit(Method::Piecewise, &samples).expect("a solution");
    assert_eq!(fitted.borders().len(), 5);
    let model = time_model(fitted.as_ref(), &samples);
    for border in fitted.borders() {
        let permille = (1000.0 * border - 1e-6).ceil() as u32 - 1;
        assert!(model.bands.iter().any(|band| band.up_to_permille == permille), "{permille}");
    }
    for sample in &samples {
        let (predicted, time) = (model.at(sample.bytes, sample.permille()), sample.time);
        assert!(predicted.ratio(time) > 0.99 && predicted.ratio(time) < 1.01, "{sample:?}");
    }
}

#[test]
fn tensors_that_do_not_shrink_say_nothing_about_those_that_do() {
    let mut samples = grid(|mib, ratio| 0.2 + mib * (0.5 + 0.3 * ratio));
    let alone = fit_times(&samples, "made up").expect("a solution");
    let given_up = |sample: &Sample| Sample {
        compressed: Bytes(sample.bytes.0 + 64),
        time: Nanos(sample.time.0 / 9),
        ..*sample
    };
    let some: Vec<Sample> = samples.iter().step_by(7).map(given_up).collect();
    samples.extend(&some);
    let fit = fit_times(&samples, "made up").expect("a solution");
    assert_eq!((fit.method, &fit.errors), (alone.method, &alone.errors));
    assert_eq!(fit.model.bands, alone.model.bands);
    let left_out = format!("({} that hardly shrank left out)", some.len());
    assert!(fit.model.source.contains(&left_out), "{}", fit.model.source);
    // A codec that makes nothing smaller has times, too.
    let all: Vec<Sample> = samples.iter().map(given_up).collect();
    assert_eq!(fit_times(&all, "made up").expect("a solution").held_out[0].1.len(), all.len());
}

#[test]
fn the_error_is_the_papers() {
    let held_out = |time: u64, predicted: f64| HeldOut {
        sample: Sample { bytes: Bytes(1), compressed: Bytes(1), sparsity: 0.0, time: Nanos(time) },
        predicted,
    };
    // Mean 20; |10-20| + |30-20| = 20; off by 1 and 3.
    assert_eq!(relative_absolute_error(&[held_out(10, 11.0), held_out(30, 27.0)]), 0.2);
    assert_eq!(relative_absolute_error(&[]), 0.0);
}

#[test]
fn one_ratio_is_enough_for_a_codec_of_fixed_rate() {
    let samples: Vec<Sample> = (1..=20)
        .map(|mib| Sample {
            bytes: Bytes(mib * MIB),
            compressed: Bytes(mib * MIB / 4),
            sparsity: 0.5,
            time: Nanos(1000 + 500 * mib),
        })
        .collect();
    let fit = fit_times(&samples, "made up").expect("a solution");
    assert_eq!(fit.model.at(Bytes(10 * MIB), 250), Nanos(6000));
    let size = fit_size(&samples, Fidelity::FixedRate).expect("samples");
    assert_eq!(size, SizeModel::Rate { permille: 250, margin_permille: 0 });
}

#[test]
fn sizes_of_a_lossless_codec_follow_the_zeros() {
    let samples = grid(|mib, _| mib);
    let size = fit_size(&samples, Fidelity::Lossless).expect("samples");
    let SizeModel::Sparsity { overhead_permille, dense_permille, margin_permille } = size else {
        panic!("{size:?}")
    };
    assert!(overhead_permille <= 1 && (1000..=1001).contains(&dense_permille), "{size:?}");
    assert!(margin_permille <= 1, "{size:?}");
}

#[test]
fn samples_that_no_model_fits_are_refused() {
    let samples = grid(|mib, _| mib);
    let error = |samples: &[Sample]| fit_times(samples, "").expect_err("no fit").to_string();
    assert_eq!(error(&samples[..19]), "there are 19 samples, and a fit needs 20: take more");
    let one_size: Vec<Sample> =
        samples.iter().map(|s| Sample { bytes: Bytes(64 * MIB), ..*s }).collect();
    assert!(error(&one_size).contains("one size"));
    let mut none = samples.clone();
    none[3].time = Nanos(0);
    assert_eq!(
        fit(Method::Tree, &none).err().map(|error| error.to_string()).as_deref(),
        Some(
            "sample 4 has 1.049 MB, 262.144 KB compressed, 0.75 zeros, 0 ns: bytes and times must be above 0 and at most 2^50: take it away"
        )
    );
    assert!(fit_size(&[], Fidelity::Lossless).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the samples, what comes out is a well-formed document, the same each time.
    #[test]
    fn any_samples_give_a_well_formed_model(
        samples in proptest::collection::vec(
            (1u64..1 << 30, 1u64..1000, 0.0f64..=1.0, 1u64..1 << 40), 12..40),
    ) {
        let samples: Vec<Sample> = samples.iter().map(|&(bytes, permille, sparsity, time)| Sample {
            bytes: Bytes(bytes),
            compressed: Bytes((bytes * permille / 1000).max(1)),
            sparsity,
            time: Nanos(time),
        }).collect();
        let Ok(fit) = fit_times(&samples, "any") else { return Ok(()) };
        for window in fit.model.bands.windows(2) {
            prop_assert!(window[0].up_to_permille < window[1].up_to_permille);
        }
        for band in &fit.model.bands {
            prop_assert!(band.points.windows(2).all(|w| w[0].bytes < w[1].bytes && w[0].time <= w[1].time));
        }
        prop_assert_eq!(fit_times(&samples, "any").expect("again"), fit);
    }
}
