//! Products of matrices by cuBLAS, where a product can be said in its words.
//!
//! cuBLAS has columns where we have rows: what it takes for a matrix of `m` rows in columns is ours
//! of `m` columns in rows. So our output `y = a b` is its `yT = bT aT`: its first operand is our
//! right one.

use super::arguments::{Argument, args};
use super::product::{Matrices, Strides};

/// What a call is named in a list of launches: the program, and its one kernel.
pub const BLAS: (&str, &str) = ("cublas", "sgemm");

/// The same where both operands are stored in 16 bits, and the output in 32: it has the same
/// arguments.
pub const BLAS_HALVES: (&str, &str) = ("cublas", "gemm_ex");

/// The arguments of `cublasSgemmStridedBatched` after its handle: whether each operand is
/// transposed, m, n, k, alpha, for either operand its address, leading dimension and the distance
/// to the next, beta, the same three of the output, and how many there are.
pub const BLAS_ARGUMENTS: usize = 17;

/// An operand as cuBLAS has it: whether it is transposed, and its leading dimension.
struct StoredAs {
    transposed: bool,
    leading: u64,
}

/// The first operand: `m` rows and `k` columns, in columns.
fn first(of: Strides, m: u64, k: u64) -> Option<StoredAs> {
    match of {
        Strides { side: 1, inner, .. } if inner >= m => {
            Some(StoredAs { transposed: false, leading: inner })
        }
        Strides { side, inner: 1, .. } if side >= k => {
            Some(StoredAs { transposed: true, leading: side })
        }
        _ => None,
    }
}

/// The second: `k` rows and `n` columns.
fn second(of: Strides, n: u64, k: u64) -> Option<StoredAs> {
    match of {
        Strides { side, inner: 1, .. } if side >= k => {
            Some(StoredAs { transposed: false, leading: side })
        }
        Strides { side: 1, inner, .. } if inner >= n => {
            Some(StoredAs { transposed: true, leading: inner })
        }
        _ => None,
    }
}

/// The calls for a product of which the inner dimension is in one part, each the arguments of one,
/// of operands whose elements have so many bytes; none where it cannot be said. Nothing is hidden.
pub(super) fn calls<A: Copy>(of: &Matrices<A>, bytes: u64) -> Option<Vec<Vec<Argument<A>>>> {
    let [start, sample, head, row, column] = of.places;
    // Either the output's rows lie behind one another, or its columns do.
    let (left, right, m, n, leading) = match (row, column) {
        (row, 1) => (of.b, of.a, of.columns as u64, of.rows as u64, row),
        (1, column) => (of.a, of.b, of.rows as u64, of.columns as u64, column),
        _ => return None,
    };
    let k = of.inner as u64;
    let (a, b) = (first(left.1, m, k)?, second(right.1, n, k)?);
    let fits = |number: u64| i32::try_from(number).is_ok();
    let batch = of.samples.max(of.heads) as u64;
    if leading < m || ![m, n, k, a.leading, b.leading, leading, batch].into_iter().all(fits) {
        return None;
    }
    // One call for all samples of a head, or for all heads of a sample, where these lie at one
    // distance and are more.
    let together = left.1.divide == 1 && right.1.divide == 1;
    let over_heads = together && of.heads > of.samples;
    let (count, batch) = if over_heads { (of.samples, of.heads) } else { (of.heads, of.samples) };
    let apart = |sample: u64, head: u64| if over_heads { head } else { sample };
    let call = |index: u64| {
        let (of_sample, of_head) = if over_heads { (index, 0) } else { (0, index) };
        let place = |(at, strides): (Argument<A>, Strides)| {
            let head = of_head / strides.divide * strides.head;
            at.behind(bytes * (strides.start + of_sample * strides.sample + head))
        };
        let y = of.y.behind(4 * (start + of_sample * sample + of_head * head));
        let beta = if of.accumulate { 1.0f32 } else { 0.0 };
        args![
            a.transposed,
            b.transposed,
            m,
            n,
            k,
            of.scale,
            place(left),
            a.leading,
            apart(left.1.sample, left.1.head),
            place(right),
            b.leading,
            apart(right.1.sample, right.1.head),
            beta,
            y,
            leading,
            apart(sample, head),
            batch,
        ]
    };
    Some((0..count as u64).map(call).collect())
}
