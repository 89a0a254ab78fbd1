//! COMET's filter that makes zeros of what might have been zeros.

/// Sets to zero what is no further from zero than the error bound.
///
/// Source: Jin et al., "COMET" (VLDB 2022), section 3.4: an error-bounded compressor that predicts
/// from *reconstructed* values, as classic SZ does, gives back a run of zeros as a run of some
/// small value within the bound, and a network trained on such activations can diverge. The filter
/// runs after decompression and costs values up to `bound` their sign and size, within the bound.
///
/// After this crate's SZ codec there is nothing to mend: dual quantisation rounds to multiples of
/// `2 eb` before it predicts, so that all of `[-eb, eb]` becomes exactly zero and what is not zero
/// is at least `2 eb` from it or stored as it was. The filter changes no value of a compressed
/// block. (The paper names this as its second solution. It prefers the filter, because predictions
/// from zeros might cost compression; with dual quantisation all predictions are from quantised
/// values anyway.) It is for the values of compressors that predict first.
pub fn rezero(values: &mut [f32], bound: f32) {
    for value in values {
        if value.abs() <= bound {
            *value = 0.0;
        }
    }
}
