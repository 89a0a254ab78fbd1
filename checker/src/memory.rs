//! Memory whose cells say whose they are.

use crate::layout::Layout;

/// The value that a buffer holds, without its bits: what they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) tensor: u32,
    /// How often the tensor had changed in place when this was made of it.
    pub(crate) version: u32,
    pub(crate) form: Form,
    /// A codec changed it that does not bring back the same bits.
    pub(crate) is_lossy: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Raw,
    /// What a codec made of it, with what may be needed for that.
    Small {
        codec: u32,
        bytes: u64,
    },
    /// On the device: nothing, because the data did worse than was reserved for; the tensor itself
    /// is in a host buffer. On the host: the tensor itself, in the compressed form's stead.
    FellBack {
        codec: u32,
    },
    /// On the host: what its processor made of the tensor, and makes the tensor of again.
    Packed {
        codec: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// None that means anything.
    Nothing,
    /// An op that changes it in place is running.
    Changing(Value),
    Whole(Value),
}

/// One arena while a plan runs.
#[derive(Debug)]
pub(crate) struct Memory {
    layout: Layout,
    /// The buffer that began last in each cell.
    owner: Vec<u32>,
    content: Vec<Content>,
}

const NOBODY: u32 = u32::MAX;

impl Memory {
    /// Nothing in it yet. Buffers are given as address and size.
    pub(crate) fn of(buffers: &[(u64, u64)]) -> Self {
        let layout = Layout::of(buffers);
        let owner = vec![NOBODY; layout.cell_count()];
        Self { layout, owner, content: vec![Content::Nothing; buffers.len()] }
    }

    pub(crate) fn clear(&mut self) {
        self.owner.fill(NOBODY);
        self.content.fill(Content::Nothing);
    }

    /// A buffer comes to be: whatever was there is gone.
    pub(crate) fn begin(&mut self, buffer: usize) {
        self.owner[self.layout.cells(buffer)].fill(buffer as u32);
        self.content[buffer] = Content::Nothing;
    }

    pub(crate) fn set(&mut self, buffer: usize, content: Content) {
        self.content[buffer] = content;
    }

    pub(crate) fn content(&self, buffer: usize) -> Content {
        self.content[buffer]
    }

    /// Whether no other buffer began in any of its cells since it did.
    pub(crate) fn is_intact(&self, buffer: usize) -> bool {
        self.owner[self.layout.cells(buffer)].iter().all(|owner| *owner == buffer as u32)
    }

    /// Whether its cells are its own or were taken over by one other buffer alone.
    pub(crate) fn is_taken_by(&self, buffer: usize, other: usize) -> bool {
        let mine = [buffer as u32, other as u32];
        self.owner[self.layout.cells(buffer)].iter().all(|owner| mine.contains(owner))
    }
}
