//! Which op each kernel and each allocation belongs to.
//!
//! Spans nest on their thread. The ops of a trace are the outermost that the dispatcher ran
//! (`aten::conv2d`, not the `aten::convolution` in it); nodes of autograd, steps and marks of the
//! user's are around them. What a kernel has only such a mark around is an op by that name.

use std::collections::HashMap;

use super::file::{File, Span, Work};

/// An op that ran something on the device.
#[derive(Clone)]
pub(in crate::import) struct KernelOp {
    /// The span that it is; absent for kernels that no op launched.
    pub span: Option<usize>,
    /// The kernel that names it where it is no span.
    pub kernel: Option<u32>,
    /// The node of autograd around it.
    pub node: Option<usize>,
    pub thread: u32,
    pub start: i64,
    pub end: i64,
    pub duration: u64,
    pub host_copies: u64,
}

pub(in crate::import) struct Nesting {
    parent: Vec<Option<usize>>,
    /// The outermost op of the dispatcher around each span, or itself.
    outermost: Vec<Option<usize>>,
    /// The node of autograd around each span, or itself.
    pub node: Vec<Option<usize>>,
    by_thread: HashMap<u32, Vec<usize>>,
}

/// Whether the dispatcher ran it: such ops have a name space.
fn is_dispatched(file: &File, span: &Span) -> bool {
    let name = file.name(span.name);
    !span.annotation
        && name.contains("::")
        && !name.starts_with("torch::autograd::")
        && !name.starts_with("autograd::")
}

fn is_node(file: &File, span: &Span) -> bool {
    let name = file.name(span.name);
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    !name.starts_with("autograd::engine")
        && (name.starts_with("torch::autograd::")
            || (stem.ends_with("Backward") && !name.contains("::")))
}

impl Nesting {
    pub fn new(file: &File) -> Self {
        let spans = &file.spans;
        let mut by_thread: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, span) in spans.iter().enumerate() {
            by_thread.entry(span.thread).or_default().push(index);
        }
        let mut nesting = Self {
            parent: vec![None; spans.len()],
            outermost: vec![None; spans.len()],
            node: vec![None; spans.len()],
            by_thread: HashMap::new(),
        };
        for list in by_thread.values_mut() {
            // Of those that begin together, the longer is around the other.
            list.sort_by_key(|index| {
                let span = &spans[*index];
                (span.start, std::cmp::Reverse(span.end), span.external, *index)
            });
            let mut open: Vec<usize> = Vec::new();
            for &index in list.iter() {
                let span = &spans[index];
                open.pop_until(|top| {
                    spans[*top].end > span.start || spans[*top].start == span.start
                });
                let parent = open.last().copied();
                nesting.parent[index] = parent;
                nesting.node[index] = match is_node(file, span) {
                    true => Some(index),
                    false => parent.and_then(|parent| nesting.node[parent]),
                };
                let around = parent.and_then(|parent| nesting.outermost[parent]);
                nesting.outermost[index] = around.or(is_dispatched(file, span).then_some(index));
                open.push(index);
            }
        }
        nesting.by_thread = by_thread;
        nesting
    }

    /// The innermost span of a thread at a time.
    pub fn at(&self, file: &File, thread: u32, time: i64) -> Option<usize> {
        let list = self.by_thread.get(&thread)?;
        let after = list.partition_point(|index| file.spans[*index].start <= time);
        let mut candidate = after.checked_sub(1).map(|last| list[last]);
        while let Some(index) = candidate.filter(|index| file.spans[*index].end < time) {
            candidate = self.parent[index];
        }
        candidate
    }

    /// The op that a span belongs to: the outermost of the dispatcher's, or the span itself.
    pub fn op_of(&self, span: usize) -> usize {
        self.outermost[span].unwrap_or(span)
    }

    /// The innermost span around one.
    pub fn parent(&self, span: usize) -> Option<usize> {
        self.parent[span]
    }

    /// Spans that the dispatcher ran and that no other such is around.
    pub fn outermost_ops(&self) -> impl Iterator<Item = usize> {
        (0..self.outermost.len()).filter(|index| self.outermost[*index] == Some(*index))
    }
}

trait PopUntil<T> {
    fn pop_until(&mut self, keep: impl Fn(&T) -> bool);
}

impl<T> PopUntil<T> for Vec<T> {
    /// Takes from the end what is not to be kept.
    fn pop_until(&mut self, keep: impl Fn(&T) -> bool) {
        while self.pop_if(|top| !keep(top)).is_some() {}
    }
}

/// The ops with kernels, by when they were called; and what could not be linked.
#[derive(Default)]
pub(in crate::import) struct Linked {
    pub ops: Vec<KernelOp>,
    pub kernels: u64,
    /// Kernels whose op is not in the file.
    pub unlinked: u64,
    pub host_copy_time: u64,
    pub fill_time: u64,
    pub streams: usize,
}

pub(in crate::import) fn link(file: &File, nesting: &Nesting) -> Linked {
    let mut externals: HashMap<u64, usize> = HashMap::new();
    for (index, span) in file.spans.iter().enumerate() {
        if let Some(external) = span.external {
            externals.entry(external).or_insert(index);
        }
    }
    let mut linked = Linked::default();
    let mut of_span: HashMap<usize, usize> = HashMap::new();
    let mut streams = Vec::new();
    for kernel in &file.kernels {
        let launch = kernel.correlation.and_then(|number| file.launches.get(&number));
        // By where it was launched: some versions write the launch's number for the op's.
        let by_launch = launch.and_then(|(thread, time)| nesting.at(file, *thread, *time));
        let by_number = || {
            let span = kernel.external.and_then(|number| externals.get(&number)).copied();
            span.filter(|span| file.spans[*span].start <= kernel.start)
        };
        let span = by_launch.or_else(by_number).map(|span| nesting.op_of(span));
        let op = match span {
            Some(span) => *of_span.entry(span).or_insert_with(|| {
                linked.ops.push(KernelOp::of_span(file, nesting, span));
                linked.ops.len() - 1
            }),
            None => {
                let (thread, start) = launch.copied().unwrap_or((u32::MAX, kernel.start));
                linked.ops.push(KernelOp {
                    span: None,
                    kernel: Some(kernel.name),
                    node: None,
                    thread,
                    start,
                    end: start,
                    duration: 0,
                    host_copies: 0,
                });
                linked.ops.len() - 1
            }
        };
        let op = &mut linked.ops[op];
        match kernel.work {
            Work::Kernel | Work::DeviceCopy => {
                op.duration = op.duration.saturating_add(kernel.duration)
            }
            Work::HostCopy => {
                op.host_copies += 1;
                linked.host_copy_time = linked.host_copy_time.saturating_add(kernel.duration);
            }
            Work::Fill => linked.fill_time = linked.fill_time.saturating_add(kernel.duration),
        }
        if kernel.work == Work::Kernel {
            linked.kernels += 1;
            linked.unlinked += u64::from(span.is_none());
            if !streams.contains(&kernel.stream) && streams.len() < 64 {
                streams.push(kernel.stream);
            }
        }
    }
    if file.kernels.is_empty() {
        linked.ops =
            nesting.outermost_ops().map(|span| KernelOp::on_host(file, nesting, span)).collect();
    }
    linked.streams = streams.len();
    linked.ops.sort_by_key(|op| (op.start, op.span, op.kernel));
    linked
}

impl KernelOp {
    fn of_span(file: &File, nesting: &Nesting, index: usize) -> Self {
        let Span { thread, start, end, .. } = file.spans[index];
        let node = nesting.node[index];
        Self {
            span: Some(index),
            kernel: None,
            node,
            thread,
            start,
            end,
            duration: 0,
            host_copies: 0,
        }
    }

    /// Where nothing ran on a device, an op takes what it took on the host.
    fn on_host(file: &File, nesting: &Nesting, index: usize) -> Self {
        let op = Self::of_span(file, nesting, index);
        Self { duration: op.end.saturating_sub(op.start).unsigned_abs(), ..op }
    }

    pub fn name<'a>(&self, file: &'a File) -> &'a str {
        match (self.span, self.kernel) {
            (Some(span), _) => file.name(file.spans[span].name),
            (None, Some(kernel)) => file.name(kernel),
            (None, None) => "",
        }
    }
}
