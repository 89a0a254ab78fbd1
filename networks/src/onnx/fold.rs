//! The evaluator of shape arithmetic: ops on constants of few elements.

use super::node::Node;
use super::value::{Constant, in_order};
use crate::layer::elements;

/// What a node makes of constants; nothing where it is no op on shapes, or what it takes is not known.
pub(super) fn fold(node: &Node<'_>, inputs: &[Option<&Constant>]) -> Option<Vec<Constant>> {
    let one = |constant: Constant| Some(vec![constant]);
    let input = |index: usize| inputs.get(index).copied().flatten();
    let data = |index: usize| input(index).and_then(|constant| constant.data.as_deref());
    let x = input(0)?;
    let unary = |function: fn(f64) -> f64| {
        let data = x.data.as_ref()?.iter().map(|figure| function(*figure)).collect();
        one(Constant::of(x.dims.clone(), data, x.float))
    };
    let truth = |truth: bool| f64::from(u8::from(truth));
    let binary = |function: &dyn Fn(f64, f64) -> f64, float: Option<bool>| {
        let mut all = x.clone();
        for other in inputs.iter().skip(1) {
            all = together(&all, (*other)?, function)?;
        }
        all.float = float.unwrap_or(all.float);
        one(Constant { origin: None, ..all })
    };
    let whole = !x.float;
    match node.kind() {
        "Identity" | "Dropout" => one(x.clone()),
        "Cast" => {
            let float = matches!(node.integer("to", 1), 1 | 10 | 11 | 16);
            let cast = |figure: &f64| match node.integer("to", 1) {
                9 => truth(*figure != 0.0),
                _ if float => *figure,
                _ => figure.trunc(),
            };
            let data = x.data.as_ref()?.iter().map(cast).collect();
            one(Constant { origin: None, ..Constant::of(x.dims.clone(), data, float) })
        }
        "Neg" => unary(|a| -a),
        "Abs" => unary(f64::abs),
        "Floor" => unary(f64::floor),
        "Ceil" => unary(f64::ceil),
        "Round" => unary(f64::round_ties_even),
        "Sqrt" => unary(f64::sqrt),
        "Reciprocal" => unary(|a| 1.0 / a),
        "Exp" => unary(f64::exp),
        "Log" => unary(f64::ln),
        "Not" => unary(|a| if a == 0.0 { 1.0 } else { 0.0 }),
        "Add" | "Sum" => binary(&|a, b| a + b, None),
        "Sub" => binary(&|a, b| a - b, None),
        "Mul" => binary(&|a, b| a * b, None),
        "Div" if whole => binary(&|a, b| if b == 0.0 { 0.0 } else { (a / b).trunc() }, None),
        "Div" => binary(&|a, b| a / b, None),
        "Mod" => binary(&|a, b| if b == 0.0 { 0.0 } else { a - b * (a / b).floor() }, None),
        "Pow" => binary(&f64::powf, None),
        "Max" => binary(&f64::max, None),
        "Min" => binary(&f64::min, None),
        "Equal" => binary(&|a, b| truth(a == b), Some(false)),
        "Less" => binary(&|a, b| truth(a < b), Some(false)),
        "LessOrEqual" => binary(&|a, b| truth(a <= b), Some(false)),
        "Greater" => binary(&|a, b| truth(a > b), Some(false)),
        "GreaterOrEqual" => binary(&|a, b| truth(a >= b), Some(false)),
        "And" => binary(&|a, b| truth(a != 0.0 && b != 0.0), Some(false)),
        "Or" => binary(&|a, b| truth(a != 0.0 || b != 0.0), Some(false)),
        "Where" => {
            // One after the other: each where the condition holds, and the other where it does not.
            let (yes, no) = (input(1)?, input(2)?);
            let left = together(x, yes, &|a, b| if a != 0.0 { b } else { f64::NAN })?;
            let mut all = together(&left, no, &|a, b| if a.is_nan() { b } else { a })?;
            all.float = yes.float;
            one(all)
        }
        "Range" => {
            let [start, limit, step] = [0, 1, 2].map(|index| data(index)?.first().copied());
            let (start, limit, step) = (start?, limit?, step?);
            let count = ((limit - start) / step).ceil().max(0.0);
            if !count.is_finite() || !Constant::is_few(count as u64) {
                return None;
            }
            let data = (0..count as u64).map(|index| start + index as f64 * step).collect();
            one(Constant::of(vec![count as u64], data, x.float))
        }
        "ConstantOfShape" => {
            let dims = extents(x)?;
            if !Constant::is_few(elements(&dims)) {
                return None;
            }
            let value = match node.tensor("value") {
                Some(value) => Constant::read(value, None).ok()?,
                None => Constant::of(vec![1], vec![0.0], true),
            };
            let figure = *value.data?.first()?;
            let data = vec![figure; elements(&dims) as usize];
            one(Constant::of(dims, data, value.float))
        }
        "Reshape" => {
            let dims = node.reshaped(&x.dims, &input(1)?.integers()?)?;
            let dims = Some(dims).filter(|dims| elements(dims) == x.count())?;
            one(Constant { dims, ..x.clone() })
        }
        "Flatten" | "Squeeze" | "Unsqueeze" => {
            let dims = node.viewed(&x.dims, input(1).and_then(Constant::integers))?;
            let dims = Some(dims).filter(|dims| elements(dims) == x.count())?;
            one(Constant { dims, ..x.clone() })
        }
        "Expand" => {
            let to = broadcast(&[&x.dims, &extents(input(1)?)?])?;
            let whole = Constant { dims: to.clone(), ..Constant::default() };
            let data = x.data.as_ref()?;
            let data = spread(x, &whole)?.into_iter().map(|index| data[index]).collect();
            one(Constant::of(to, data, x.float))
        }
        "Transpose" => {
            let order = node.order(x.dims.len())?;
            let dims: Vec<u64> = order.iter().map(|from| x.dims[*from]).collect();
            let strides = in_order(&x.dims);
            let strides: Vec<u64> = order.iter().map(|from| strides[*from]).collect();
            let data = pick(x.data.as_ref()?, &dims, &strides, 0)?;
            one(Constant::of(dims, data, x.float))
        }
        "Concat" => {
            let all: Option<Vec<&Constant>> = inputs.iter().copied().collect();
            let all = all?;
            let axis = node.axis("axis", 0, x.dims.len())?;
            if axis != 0 && x.dims[..axis].iter().any(|extent| *extent != 1) {
                return None;
            }
            let mut dims = x.dims.clone();
            dims[axis] = 0;
            let mut data = Vec::new();
            for part in all {
                dims[axis] = u64::saturating_add(dims[axis], *part.dims.get(axis)?);
                data.extend(part.data.as_ref()?);
            }
            (Constant::is_few(data.len() as u64) && elements(&dims) == data.len() as u64)
                .then(|| vec![Constant::of(dims, data, x.float)])
        }
        "Gather" => {
            let axis = node.axis("axis", 0, x.dims.len())?;
            let indices = input(1)?;
            let extent = *x.dims.get(axis)?;
            let strides = in_order(&x.dims);
            let inner = strides[axis] as usize;
            let outer = elements(&x.dims[..axis]) as usize;
            let mut data = Vec::new();
            let from = x.data.as_ref()?;
            let count = elements(&[outer as u64, inner as u64, indices.count()]);
            if ![count, extent, outer as u64].into_iter().all(Constant::is_few) {
                return None;
            }
            for row in 0..outer {
                for index in indices.integers()? {
                    let index = if index < 0 { index + extent as i64 } else { index };
                    let first = (row * extent as usize + usize::try_from(index).ok()?) * inner;
                    data.extend(from.get(first..first + inner)?);
                }
            }
            let dims = [&x.dims[..axis], &indices.dims, &x.dims[axis + 1..]].concat();
            one(Constant::of(dims, data, x.float))
        }
        "Slice" => {
            let rest: Vec<Option<Vec<i64>>> =
                (1..5).map(|index| input(index).and_then(Constant::integers)).collect();
            let slices = node.slices(&x.dims, &rest)?;
            let strides = in_order(&x.dims);
            let first = (slices.iter().zip(&strides))
                .map(|(slice, stride)| slice.start.saturating_mul(*stride))
                .fold(0, u64::saturating_add);
            let dims: Vec<u64> = slices.iter().map(|slice| slice.count).collect();
            // A step back is one ahead that goes round: the sums wrap.
            let strides: Vec<u64> = (slices.iter().zip(strides))
                .map(|(slice, stride)| stride.wrapping_mul(slice.step.cast_unsigned()))
                .collect();
            let data = pick(x.data.as_ref()?, &dims, &strides, first)?;
            one(Constant::of(dims, data, x.float))
        }
        "Split" if x.dims.len() == 1 => {
            let parts = node.parts(x.dims[0], input(1).and_then(Constant::integers))?;
            let mut rest = x.data.as_ref()?.as_slice();
            let mut all = Vec::new();
            for part in parts {
                let (first, others) = rest.split_at_checked(part as usize)?;
                all.push(Constant::of(vec![part], first.to_vec(), x.float));
                rest = others;
            }
            Some(all)
        }
        "ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin" if x.dims.len() <= 1 => {
            let data = x.data.as_ref()?.iter().copied();
            let reduced = match node.kind() {
                "ReduceProd" => data.product(),
                "ReduceSum" => data.sum(),
                "ReduceMax" => data.fold(f64::MIN, f64::max),
                _ => data.fold(f64::MAX, f64::min),
            };
            let dims = vec![1; if node.integer("keepdims", 1) == 1 { x.dims.len() } else { 0 }];
            one(Constant::of(dims, vec![reduced], x.float))
        }
        "Tile" if x.dims.len() == 1 => {
            let times = *input(1)?.integers()?.first()?;
            let data = x.data.as_ref()?.repeat(usize::try_from(times).ok().filter(|n| *n < 64)?);
            one(Constant::of(vec![data.len() as u64], data, x.float))
        }
        "NonZero" if x.dims.len() == 1 => {
            let set = x.data.as_ref()?.iter().enumerate().filter(|(_, figure)| **figure != 0.0);
            let data: Vec<f64> = set.map(|(index, _)| index as f64).collect();
            one(Constant::of(vec![1, data.len() as u64], data, false))
        }
        _ => None,
    }
}

/// A constant's elements as extents.
pub(super) fn extents(constant: &Constant) -> Option<Vec<u64>> {
    let extents = constant.integers()?;
    extents.iter().map(|extent| u64::try_from(*extent).ok()).collect()
}

/// The shape of what is computed element by element of these.
pub(super) fn broadcast(shapes: &[&[u64]]) -> Option<Vec<u64>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut to = vec![1; rank];
    for shape in shapes {
        for (extent, other) in to[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*extent, *other) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *extent = b,
                _ => return None,
            }
        }
    }
    Some(to)
}

/// For each element of the whole, where it is in a constant that is repeated.
fn spread(of: &Constant, whole: &Constant) -> Option<Vec<usize>> {
    let rank = whole.dims.len();
    let own = in_order(&of.dims);
    let mut strides = vec![0; rank - of.dims.len()];
    strides.extend(own.iter().zip(&of.dims).map(|(stride, extent)| match extent {
        1 => 0,
        _ => *stride,
    }));
    let count = elements(&whole.dims);
    if !Constant::is_few(count) {
        return None;
    }
    let all: Vec<f64> = (0..of.count()).map(|index| index as f64).collect();
    let places = pick(&all, &whole.dims, &strides, 0)?;
    Some(places.into_iter().map(|place| place as usize).collect())
}

/// The elements at these strides.
fn pick(from: &[f64], dims: &[u64], strides: &[u64], first: u64) -> Option<Vec<f64>> {
    let count = elements(dims);
    if !Constant::is_few(count) {
        return None;
    }
    let places = in_order(dims);
    (0..count)
        .map(|index| {
            let mut at = first;
            for (dimension, place) in places.iter().enumerate() {
                let step = (index / place % dims[dimension]).wrapping_mul(strides[dimension]);
                at = at.wrapping_add(step);
            }
            from.get(at as usize).copied()
        })
        .collect()
}

fn together(a: &Constant, b: &Constant, function: &dyn Fn(f64, f64) -> f64) -> Option<Constant> {
    let dims = broadcast(&[&a.dims, &b.dims])?;
    let whole = Constant { dims: dims.clone(), ..Constant::default() };
    let (left, right) = (a.data.as_ref()?, b.data.as_ref()?);
    let places = spread(a, &whole)?.into_iter().zip(spread(b, &whole)?);
    let data = places.map(|(a, b)| function(left[a], right[b])).collect();
    Some(Constant::of(dims, data, a.float))
}
