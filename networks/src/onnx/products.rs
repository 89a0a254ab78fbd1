//! Products of matrices, and attention.

use super::Import;
use super::fold::broadcast;
use super::node::Node;
use super::operators::{One, other};
use super::value::{Axis, Constant, Tensor, Value};
use crate::layer::{Compute, Like, Product, Saves, elements};

impl Import<'_> {
    /// A linear layer with the weights of the second input, turned where they lie so, and perhaps
    /// what the third adds.
    pub(super) fn linear(&mut self, n: Node<'_>, x: Tensor, turned: i64) -> One {
        let weights = self.weights(n, 1)?;
        let &[mut rows, mut columns] = weights.dims.as_slice() else {
            let x = self.products(n)?;
            return Ok(x);
        };
        if turned != 0 {
            std::mem::swap(&mut rows, &mut columns);
        }
        let inner = x.shape.last().copied().unwrap_or(1);
        if rows != inner {
            return Err(n.wrong(format!("has weights for {rows} features, but reads {inner}")));
        }
        let x = self.ordered(n, x)?;
        let flat = x.rank() < 2;
        let x = if flat { self.view(n, x, vec![1, inner])? } else { x };
        let beside = if n.has_input(2) { Some(self.weights(n, 2)?) } else { None };
        let is_bias = |beside: &Constant| beside.count() == columns;
        let (bias, beside) = match beside {
            Some(beside) if !is_bias(&beside) => (None, Some(beside)),
            bias => (bias, None),
        };
        let id = self.b.linear(n.name(), x.id, columns, bias.is_some())?;
        let bias = bias.and_then(|bias| bias.origin);
        self.own(id, &[weights.origin.as_deref(), bias.as_deref()]);
        let mut made = self.built(id, x.axis);
        if let Some(beside) = beside.filter(Constant::is_trained) {
            // Positions, or the like.
            let id = self.b.add_parameter(n.name(), made.id, beside.count())?;
            self.own(id, &[beside.origin.as_deref()]);
            made = self.built(id, made.axis);
        }
        if flat { self.view(n, made, vec![columns]) } else { Ok(made) }
    }

    pub(super) fn gemm(&mut self, n: Node<'_>) -> One {
        let turned = |import: &mut Self, index, name| -> One {
            let mut x = import.tensor(n, index)?;
            if n.integer(name, 0) != 0 && x.rank() == 2 {
                x.shape.reverse();
                x.strides.reverse();
                x.axis = x.axis.map(|axis| axis.moved(1 - axis.dimension));
            }
            Ok(x)
        };
        let a = turned(self, 0, "transA")?;
        let is_constant = |value: &Value| matches!(value, Value::Constant(_));
        let plain =
            is_constant(self.input(n, 1)?) && (!n.has_input(2) || is_constant(self.input(n, 2)?));
        if plain {
            return self.linear(n, a, n.integer("transB", 0));
        }
        let b = turned(self, 1, "transB")?;
        let product = self.product(n, a, b)?;
        if !n.has_input(2) {
            return Ok(product);
        }
        let beside = self.tensor(n, 2)?;
        let sum = other(Like::Elementwise, Saves::Nothing);
        self.like(n, sum, &[&product, &beside], &product)
    }

    pub(super) fn matmul(&mut self, n: Node<'_>) -> One {
        match self.input(n, 1)? {
            Value::Constant(Constant { dims, .. }) if dims.len() == 2 => {
                let x = self.tensor(n, 0)?;
                self.linear(n, x, 0)
            }
            _ => self.products(n),
        }
    }

    fn products(&mut self, n: Node<'_>) -> One {
        let (a, b) = (self.tensor(n, 0)?, self.tensor(n, 1)?);
        let (left, right) = (a.rank() == 1, b.rank() == 1);
        let a_shape = if left { [&[1], a.shape.as_slice()].concat() } else { a.shape.clone() };
        let b_shape = if right { [b.shape.as_slice(), &[1]].concat() } else { b.shape.clone() };
        let a = self.view(n, a, a_shape)?;
        let b = self.view(n, b, b_shape)?;
        let made = self.product(n, a, b)?;
        let mut to = made.shape.clone();
        if right {
            to.pop();
        }
        if left && !to.is_empty() {
            to.remove(to.len() - 1 - usize::from(!right));
        }
        if left || right { self.view(n, made, to) } else { Ok(made) }
    }

    /// Products of matrices in the last two dimensions.
    fn product(&mut self, n: Node<'_>, a: Tensor, b: Tensor) -> One {
        let ([first @ .., rows, inner], [second @ .., depth, columns]) =
            (a.shape.as_slice(), b.shape.as_slice())
        else {
            return Err(n.wrong("multiplies by an operand of fewer than 2 dimensions"));
        };
        if depth != inner {
            return Err(n.wrong(format!("multiplies {inner} columns by {depth} rows")));
        }
        let mut shape = broadcast(&[first, second]).ok_or_else(|| {
            n.wrong(format!("cannot multiply the shapes {:?} and {:?}", a.shape, b.shape))
        })?;
        let inner = *inner;
        shape.extend([*rows, *columns]);
        let rank = shape.len();
        let row = a.axis_of(rank).filter(|axis| axis.dimension + 1 != rank);
        let axis = row.or(b.axis_of(rank).filter(|axis| axis.dimension + 2 != rank));
        let a = self.matrices(n, a)?;
        let b = self.matrices(n, b)?;
        let compute = Compute::MatrixProduct { inner, product: Product::Plain };
        self.emit(n, compute, &[&a, &b], shape, axis)
    }

    /// The operand of a product: a copy where no library takes matrices that lie so.
    fn matrices(&mut self, n: Node<'_>, x: Tensor) -> One {
        if x.lies_in_order() {
            return Ok(x);
        }
        let rank = x.rank();
        let (rows, columns) = (x.shape[rank - 2], x.shape[rank - 1]);
        let flat = [elements(&x.shape[..rank - 2]), rows, columns];
        let taken = x.strides_in(&flat).is_some_and(|strides| strides[1..].contains(&1));
        if !taken {
            return self.ordered(n, x);
        }
        let made =
            self.emit(n, other(Like::View, Saves::Nothing), &[&x], x.shape.clone(), x.axis)?;
        Ok(Tensor { strides: x.strides, ..made })
    }

    pub(super) fn einsum(&mut self, n: Node<'_>) -> One {
        let equation: String = n.text("equation").chars().filter(|c| *c != ' ').collect();
        let (from, to) = match equation.split_once("->") {
            Some((from, to)) => (from.to_string(), to.to_string()),
            None => {
                let mut letters: Vec<char> =
                    equation.chars().filter(|c| c.is_alphabetic()).collect();
                letters.sort_unstable();
                let once = |c: &&char| equation.matches(**c).count() == 1;
                (equation.clone(), letters.iter().filter(once).collect())
            }
        };
        let terms: Vec<Vec<char>> = from.split(',').map(|term| term.chars().collect()).collect();
        let to: Vec<char> = to.chars().collect();
        if terms.len() > 2 || terms.len() != n.of.input.len() || equation.contains('.') {
            let why = format!("sums `{equation}`: write it with one or two operands and no `...`");
            return Err(n.wrong(why));
        }
        let mut extents: Vec<(char, u64, Option<Axis>)> = Vec::new();
        let mut operands = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            let x = self.tensor(n, index)?;
            if x.rank() != term.len() {
                return Err(n.wrong(format!("names {} dimensions of {:?}", term.len(), x.shape)));
            }
            for (dimension, letter) in term.iter().enumerate() {
                let grows = x.axis.filter(|axis| axis.dimension == dimension);
                extents.push((*letter, x.shape[dimension], grows));
            }
            operands.push(x);
        }
        let extent = |letter: &char| extents.iter().find(|(c, ..)| c == letter).map(|(_, e, _)| *e);
        let shape: Option<Vec<u64>> = to.iter().map(extent).collect();
        let shape = shape.ok_or_else(|| n.wrong(format!("sums `{equation}`, which is none")))?;
        let grows = |(at, letter): (usize, &char)| {
            let grows = extents.iter().find_map(|(c, _, grows)| grows.filter(|_| c == letter))?;
            Some(grows.moved(at))
        };
        let axis = to.iter().enumerate().find_map(grows);
        let summed: Vec<char> =
            (terms.iter().flatten().copied()).filter(|letter| !to.contains(letter)).collect();
        if let [x] = operands.as_slice() {
            let compute = other(Like::Reduction, Saves::Nothing);
            return self.emit(n, compute, &[x], shape, axis);
        }
        let mut each = summed;
        each.sort_unstable();
        each.dedup();
        let inner = each.iter().filter_map(extent).fold(1, u64::saturating_mul);
        let operands: Vec<&Tensor> = operands.iter().collect();
        if inner == 1 {
            return self.emit(n, other(Like::Elementwise, Saves::Inputs), &operands, shape, axis);
        }
        let compute = Compute::MatrixProduct { inner, product: Product::Plain };
        let flat = if shape.len() < 2 { vec![1, elements(&shape)] } else { shape.clone() };
        let made = self.emit(n, compute, &operands, flat, axis)?;
        self.view(n, made, shape)
    }

    /// Attention that was found in its products; it is laid out as `(batch, length, features)`.
    pub(super) fn fused_attention(&mut self, n: Node<'_>) -> One {
        let (q, mut k, v) = (self.tensor(n, 0)?, self.tensor(n, 1)?, self.tensor(n, 2)?);
        if n.integer("turned", 0) == 0 && k.rank() > 1 {
            // Keys were given as they are multiplied with.
            let rank = k.rank();
            k.shape.swap(rank - 1, rank - 2);
            k.strides.swap(rank - 1, rank - 2);
            k.axis = k.axis.map(|axis| match rank - axis.dimension {
                1 => axis.moved(rank - 2),
                2 => axis.moved(rank - 1),
                _ => axis,
            });
        }
        if ![3, 4].contains(&q.rank()) || k.rank() != q.rank() || v.rank() != q.rank() {
            let why = format!("attends with the shapes {:?} and {:?}", q.shape, k.shape);
            return Err(n.wrong(why));
        }
        self.attend(n, [q, k, v], n.integer("causal", 0) == 1)
    }

    /// Attention of `(batch, heads, length, width)`, or `(batch, length, width)` with one head.
    fn attend(&mut self, n: Node<'_>, of: [Tensor; 3], causal: bool) -> One {
        let [q, k, v] = of;
        let rank = q.rank();
        let heads = if rank == 4 { q.shape[1] } else { 1 };
        let (length, width) = (q.shape[rank - 2], q.shape[rank - 1]);
        let wide = v.shape[rank - 1];
        let (axis, batch) = (q.axis.filter(|axis| axis.dimension == 0), q.shape[0]);
        let mut rows = Vec::with_capacity(3);
        for x in [q, k, v] {
            let x = self.rows(n, x)?;
            rows.push(x);
        }
        let keys = rows[1].shape[1];
        let compute = Compute::Attention { heads, width, keys, causal };
        let to = vec![batch, length, heads.saturating_mul(wide)];
        let rows: Vec<&Tensor> = rows.iter().collect();
        let made = self.emit(n, compute, &rows, to, axis)?;
        if rank == 3 {
            return Ok(made);
        }
        // It is looked at by heads.
        let mut made = self.view(n, made, vec![batch, length, heads, wide])?;
        made.shape.swap(1, 2);
        made.strides.swap(1, 2);
        Ok(made)
    }

    /// Heads one after the other in the features of each position.
    fn rows(&mut self, n: Node<'_>, x: Tensor) -> One {
        let x = if x.is_dense() { x } else { self.ordered(n, x)? };
        if x.rank() == 3 {
            return self.ordered(n, x);
        }
        let to = vec![x.shape[0], x.shape[2], x.shape[1].saturating_mul(x.shape[3])];
        if self.b.shape(x.id) == to {
            return Ok(Tensor::new(x.id, to, x.axis));
        }
        // However its heads lie, attention takes them as they are.
        let id = self.b.view(n.name(), x.id, to)?;
        Ok(self.built(id, x.axis.filter(|axis| axis.dimension == 0)))
    }

    /// Attention as exporters write it as one node.
    pub(super) fn attention_node(&mut self, n: Node<'_>) -> One {
        if n.kind() == "Attention" && !n.of.domain.is_empty() {
            let why = "is fused by a runtime: export it with three operands, or as products";
            return Err(n.wrong(why));
        }
        let mut all = Vec::with_capacity(3);
        let heads = |name: &str, other: i64| n.integer(name, other).unsigned_abs().max(1);
        let own = heads("q_num_heads", n.integer("num_heads", 1));
        let shared = heads("kv_num_heads", own as i64);
        for (index, heads) in [own, shared, shared].into_iter().enumerate() {
            let x = self.tensor(n, index)?;
            let &[batch, length, features] = x.shape.as_slice() else {
                all.push(x);
                continue;
            };
            if features % heads != 0 {
                return Err(n.wrong(format!("has {heads} heads, which do not divide {features}")));
            }
            let mut x = self.view(n, x, vec![batch, length, heads, features / heads])?;
            x.shape.swap(1, 2);
            x.strides.swap(1, 2);
            all.push(x);
        }
        let flat = self.shape(self.input(n, 0)?).is_some_and(|shape| shape.len() == 3);
        let of: Result<[Tensor; 3], _> = all.try_into();
        let of = of.map_err(|_| n.wrong("has not three operands"))?;
        if of.iter().any(|x| x.rank() != 4) {
            return Err(n.wrong("attends with operands of other than 3 or 4 dimensions"));
        }
        let made = self.attend(n, of, n.integer("is_causal", 0) == 1)?;
        if !flat {
            return Ok(made);
        }
        let &[batch, heads, length, width] = made.shape.as_slice() else { return Ok(made) };
        let mut made = made;
        made.shape.swap(1, 2);
        made.strides.swap(1, 2);
        self.view(n, made, vec![batch, length, heads.saturating_mul(width)])
    }
}
