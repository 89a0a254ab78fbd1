//! How values lie, as codecs see them.

use schema::Texture;

/// The texture of values, neighbours being those that follow each other.
pub fn texture(values: &[f32]) -> Texture {
    let is_zero = |value: &f32| *value == 0.0;
    let begins = |pair: &[f32]| !is_zero(&pair[0]) && is_zero(&pair[1]);
    let runs = usize::from(values.first().is_some_and(is_zero))
        + values.windows(2).filter(|pair| begins(pair)).count();
    Texture {
        value: geometric_mean(values.iter().copied()),
        step: geometric_mean(values.windows(2).map(|pair| pair[1] - pair[0])),
        runs: runs as f64 / values.len().max(1) as f64,
    }
}

/// Of the magnitudes of what is neither zero nor without end; 0 where there is nothing.
fn geometric_mean(values: impl Iterator<Item = f32>) -> f64 {
    let (mut logarithms, mut count) = (0.0, 0u64);
    for value in values.filter(|value| *value != 0.0 && value.is_finite()) {
        logarithms += f64::from(value.abs()).log2();
        count += 1;
    }
    if count == 0 { 0.0 } else { (logarithms / count as f64).exp2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_steps_and_runs_are_told() {
        let texture = texture(&[0.0, 0.0, 1.0, -4.0, 0.0, 2.0, 2.0]);
        // 1, 4, 2, 2; steps 1, 5, 4, 2.
        assert_eq!((texture.value, texture.runs), (2.0, 2.0 / 7.0));
        assert!((texture.step - 40f64.powf(0.25)).abs() < 1e-12, "{texture:?}");
        assert_eq!(super::texture(&[]), Texture { value: 0.0, step: 0.0, runs: 0.0 });
    }
}
