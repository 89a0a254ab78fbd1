//! Concatenation.

/// Writes the inputs one after another, `outer` times: as often as there are places before the
/// dimension that they are joined along. An input's part in each is its length over `outer`.
pub fn concat<'a>(
    outer: usize,
    inputs: impl Iterator<Item = &'a [f32]> + Clone,
    output: &mut [f32],
) {
    let width = output.len() / outer;
    let mut start = 0;
    for input in inputs {
        let part = input.len() / outer;
        for (from, to) in input.chunks_exact(part).zip(output.chunks_exact_mut(width)) {
            to[start..start + part].copy_from_slice(from);
        }
        start += part;
    }
    assert_eq!(start, width, "the inputs fill the output");
}

/// Takes what [`concat()`] joined apart: the gradients of its inputs from that of its output.
pub fn split(outer: usize, input: &[f32], outputs: &mut [&mut [f32]]) {
    let width = input.len() / outer;
    let mut start = 0;
    for output in outputs {
        let part = output.len() / outer;
        for (to, from) in output.chunks_exact_mut(part).zip(input.chunks_exact(width)) {
            to.copy_from_slice(&from[start..start + part]);
        }
        start += part;
    }
    assert_eq!(start, width, "the outputs take all of the input");
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::random;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splitting_undoes_joining(
            outer in 1usize..5, parts in proptest::collection::vec(1usize..5, 1..5), seed: u64,
        ) {
            let inputs: Vec<_> =
                parts.iter().zip(0..).map(|(part, i)| random(seed ^ i, outer * part)).collect();
            let width: usize = parts.iter().sum();
            let mut joined = vec![f32::NAN; outer * width];
            concat(outer, inputs.iter().map(Vec::as_slice), &mut joined);
            prop_assert_eq!(joined[0], inputs[0][0]);
            prop_assert_eq!(joined.last(), inputs.last().unwrap().last());
            let mut again: Vec<_> = inputs.iter().map(|i| vec![f32::NAN; i.len()]).collect();
            let mut slices: Vec<_> = again.iter_mut().map(Vec::as_mut_slice).collect();
            split(outer, &joined, &mut slices);
            prop_assert_eq!(again, inputs);
        }
    }

    #[test]
    fn channels_of_two_samples() {
        let mut joined = [0.0; 6];
        let inputs: [&[f32]; 2] = [&[1.0, 2.0, 5.0, 6.0], &[3.0, 7.0]];
        concat(2, inputs.into_iter(), &mut joined);
        assert_eq!(joined, [1.0, 2.0, 3.0, 5.0, 6.0, 7.0]);
    }
}
