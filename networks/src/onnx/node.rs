//! A node of the graph, with what its attributes say.

use std::path::Path;

use super::proto::{self, Attribute};
use crate::error::NetworkError;
use crate::layer::{Window, elements};

/// More parts than anything is split into.
pub(super) const MANY_PARTS: u64 = 256;

/// A node, and what is needed to read it.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub of: &'a proto::Node,
    pub file: &'a Path,
    pub opset: i64,
}

/// What is taken of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub start: u64,
    pub count: u64,
    pub step: i64,
}

/// A window, and what is padded beyond what both ends have in common.
pub(super) struct Sliding {
    pub window: Window,
    /// Zeros before and behind, where both are not the same; the window's padding is none then.
    pub uneven: Option<Vec<[u64; 2]>>,
}

impl Node<'_> {
    pub fn wrong(&self, why: impl Into<String>) -> NetworkError {
        NetworkError::OnnxNode {
            file: self.file.to_path_buf(),
            node: self.name().to_string(),
            op: self.kind().to_string(),
            why: why.into(),
        }
    }

    pub fn kind(&self) -> &str {
        &self.of.op_type
    }

    pub fn name(&self) -> &str {
        match self.of.name.as_str() {
            "" => self.of.output.first().map_or("without a name", String::as_str),
            name => name,
        }
    }

    pub fn has_input(&self, index: usize) -> bool {
        self.of.input.get(index).is_some_and(|name| !name.is_empty())
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.of.attribute.iter().find(|attribute| attribute.name == name)
    }

    pub fn graph(&self, name: &str) -> Option<&proto::Graph> {
        self.attribute(name)?.g.as_ref()
    }

    pub fn tensor(&self, name: &str) -> Option<&proto::Tensor> {
        self.attribute(name)?.t.as_ref()
    }

    pub fn integer(&self, name: &str, otherwise: i64) -> i64 {
        self.attribute(name).and_then(|attribute| attribute.i).unwrap_or(otherwise)
    }

    pub fn float(&self, name: &str) -> Option<f64> {
        self.attribute(name)?.f.map(f64::from)
    }

    pub fn floats(&self, name: &str) -> Option<Vec<f64>> {
        let floats = &self.attribute(name)?.floats;
        Some(floats.iter().map(|figure| f64::from(*figure)).collect())
    }

    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|attribute| attribute.ints.clone())
    }

    pub fn text(&self, name: &str) -> &str {
        let text = self.attribute(name).and_then(|attribute| attribute.s.as_deref());
        text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("")
    }

    /// A dimension of so many, counted from the end where it is negative.
    pub fn axis(&self, name: &str, otherwise: i64, rank: usize) -> Option<usize> {
        dimension(self.integer(name, otherwise), rank)
    }

    /// The dimensions of an attribute or an operand.
    pub fn axes(&self, operand: Option<Vec<i64>>, rank: usize) -> Option<Option<Vec<usize>>> {
        let Some(axes) = self.ints("axes").or(operand) else { return Some(None) };
        axes.iter().map(|axis| dimension(*axis, rank)).collect::<Option<Vec<_>>>().map(Some)
    }

    /// The order that a transposition asks for.
    pub fn order(&self, rank: usize) -> Option<Vec<usize>> {
        let order = match self.ints("perm") {
            Some(order) => {
                order.iter().map(|axis| dimension(*axis, rank)).collect::<Option<_>>()?
            }
            None => (0..rank).rev().collect::<Vec<usize>>(),
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        (sorted == (0..rank).collect::<Vec<_>>()).then_some(order)
    }

    /// The shape that a reshape makes.
    pub fn reshaped(&self, from: &[u64], to: &[i64]) -> Option<Vec<u64>> {
        let keeps = self.integer("allowzero", 0) == 0;
        let mut shape = Vec::new();
        for (index, extent) in to.iter().enumerate() {
            shape.push(match (extent, from.get(index)) {
                (0, Some(same)) if keeps => *same,
                (-1, _) => 1,
                (extent, _) => u64::try_from(*extent).ok()?,
            });
        }
        if let Some(open) = to.iter().position(|extent| *extent == -1) {
            shape[open] = elements(from).checked_div(elements(&shape))?;
        }
        Some(shape)
    }

    /// The shape that a flattening, a squeeze or its opposite makes.
    pub fn viewed(&self, from: &[u64], operand: Option<Vec<i64>>) -> Option<Vec<u64>> {
        if self.kind() == "Flatten" {
            let axis = match usize::try_from(self.integer("axis", 1)) {
                Ok(axis) => Some(axis).filter(|axis| *axis <= from.len())?,
                Err(_) => self.axis("axis", 1, from.len())?,
            };
            let (rows, columns) = from.split_at(axis);
            return Some(vec![elements(rows), elements(columns)]);
        }
        if self.kind() == "Squeeze" {
            let axes = self.axes(operand, from.len())?;
            let goes = |index: usize| match &axes {
                Some(axes) => axes.contains(&index),
                None => from[index] == 1,
            };
            if (0..from.len()).any(|index| goes(index) && from[index] != 1) {
                return None;
            }
            return Some((0..from.len()).filter(|i| !goes(*i)).map(|i| from[i]).collect());
        }
        let count = self.ints("axes").or(operand.clone())?.len();
        let axes = self.axes(operand, from.len() + count)??;
        let mut rest = from.iter().copied();
        let rank = from.len() + count;
        (0..rank).map(|i| if axes.contains(&i) { Some(1) } else { rest.next() }).collect()
    }

    /// What a slice takes of each dimension; operands are starts, ends, axes and steps.
    pub fn slices(&self, from: &[u64], operands: &[Option<Vec<i64>>]) -> Option<Vec<Slice>> {
        let given = |index: usize, name: &str| {
            operands.get(index).cloned().flatten().or_else(|| self.ints(name))
        };
        let (starts, ends) = (given(0, "starts")?, given(1, "ends")?);
        let axes = given(2, "axes").unwrap_or_else(|| (0..starts.len() as i64).collect());
        let mut all: Vec<Slice> =
            from.iter().map(|extent| Slice { start: 0, count: *extent, step: 1 }).collect();
        let steps = given(3, "steps").unwrap_or_else(|| vec![1; starts.len()]);
        for (index, axis) in axes.iter().enumerate() {
            let axis = dimension(*axis, from.len())?;
            let (start, end, step) = (*starts.get(index)?, *ends.get(index)?, *steps.get(index)?);
            let extent = i64::try_from(from[axis]).ok()?;
            let (least, most) = if step < 0 { (-1, extent - 1) } else { (0, extent) };
            let within = |at: i64| {
                let at = if at < 0 { at.saturating_add(extent) } else { at };
                at.clamp(least, most.max(least))
            };
            let (start, end) = (within(start), within(end));
            let way = if step < 0 { start - end } else { end - start };
            let count = way.max(0).unsigned_abs().div_ceil(step.unsigned_abs().max(1));
            all[axis] = Slice { start: u64::try_from(start).unwrap_or(0), count, step };
        }
        Some(all)
    }

    /// The parts that a split makes of an extent.
    pub fn parts(&self, extent: u64, operand: Option<Vec<i64>>) -> Option<Vec<u64>> {
        if let Some(parts) = self.ints("split").or(operand) {
            let parts: Option<Vec<u64>> =
                parts.iter().map(|part| u64::try_from(*part).ok()).collect();
            let whole = |parts: &Vec<u64>| {
                parts.iter().fold(0, |all: u64, part| all.saturating_add(*part)) == extent
            };
            return parts.filter(whole).filter(|parts| parts.len() >= self.of.output.len());
        }
        let count = u64::try_from(self.integer("num_outputs", self.of.output.len() as i64)).ok()?;
        if count > MANY_PARTS {
            return None;
        }
        let most = extent.div_ceil(count.max(1)).max(1);
        let parts = (0..count.min(extent)).map(|n| most.min(extent.saturating_sub(n * most)));
        Some(parts.collect())
    }

    fn extents(&self, name: &str, count: usize, otherwise: u64) -> Result<Vec<u64>, NetworkError> {
        let Some(ints) = self.ints(name).filter(|ints| !ints.is_empty()) else {
            return Ok(vec![otherwise; count]);
        };
        let extents: Result<Vec<u64>, _> = ints.iter().map(|int| u64::try_from(*int)).collect();
        let extents = extents.ok().filter(|extents| extents.len() == count);
        extents.ok_or_else(|| self.wrong(format!("has bad `{name}`: give {count} of 0 or more")))
    }

    /// The window that slides over the last dimensions of `from`; a convolution's kernel is that
    /// of its weights.
    pub fn sliding(&self, from: &[u64], kernel: Option<&[u64]>) -> Result<Sliding, NetworkError> {
        let kernel = match (self.ints("kernel_shape"), kernel) {
            (_, Some(kernel)) => kernel.to_vec(),
            (Some(ints), None) => self.extents("kernel_shape", ints.len(), 1)?,
            (None, None) => return Err(self.wrong("has no `kernel_shape`: give one")),
        };
        let count = kernel.len();
        if from.len() != count + 2 {
            let why = format!("slides over {count} dimensions of an input of shape {from:?}");
            return Err(self.wrong(why));
        }
        let stride = self.extents("strides", count, 1)?;
        let dilation = self.extents("dilations", count, 1)?;
        let pads = match self.text("auto_pad") {
            "SAME_UPPER" | "SAME_LOWER" => {
                let missing = (0..count).map(|index| {
                    let reach = kernel[index].saturating_sub(1).saturating_mul(dilation[index]);
                    let windows = from[index + 2].div_ceil(stride[index].max(1));
                    let last = windows.saturating_sub(1).saturating_mul(stride[index]);
                    last.saturating_add(reach.saturating_add(1)).saturating_sub(from[index + 2])
                });
                missing.map(|missing| [missing / 2, missing - missing / 2]).collect()
            }
            _ => {
                let pads = self.extents("pads", 2 * count, 0)?;
                (0..count).map(|index| [pads[index], pads[count + index]]).collect::<Vec<_>>()
            }
        };
        let uneven = pads.iter().any(|[before, behind]| before != behind);
        let padding = pads.iter().map(|[before, _]| if uneven { 0 } else { *before }).collect();
        let ceil = self.integer("ceil_mode", 0) == 1;
        let window = Window { kernel, stride, padding, dilation, ceil };
        Ok(Sliding { window, uneven: uneven.then_some(pads) })
    }
}

/// A dimension of so many, counted from the end where it is negative.
pub(super) fn dimension(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}
