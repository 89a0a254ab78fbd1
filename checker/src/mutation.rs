//! Plans with one thing changed, to be refused or to be as good.

mod actions;
mod buffers;
mod operands;
mod stale;

use schema::{Plan, Trace};

use crate::random::Random;

macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $apply:path;)*) => {
        /// One kind of change to a plan.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutation {
            $($(#[$doc])* $name,)*
        }

        impl Mutation {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What it does, in a few words.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            fn try_on(self, subject: &mut Subject) -> Option<()> {
                match self {
                    $(Self::$name => $apply(subject),)*
                }
            }
        }
    };
}

mutations! {
    /// An edge of `after` is gone.
    DropAfter = "drop an edge", actions::drop_after;
    /// All edges of an action are gone.
    DropAllAfter = "drop all edges of an action", actions::drop_all_after;
    /// An edge comes from an earlier action.
    RedirectAfter = "redirect an edge", actions::redirect_after;
    /// An edge more.
    AddAfter = "add an edge", actions::add_after;
    /// All pacing is gone.
    DropPacing = "drop all pacing", actions::drop_pacing;
    /// An action changes places with the next of its lane.
    SwapActions = "swap two actions of a lane", actions::swap;
    /// An action comes much earlier in its lane.
    MoveAction = "move an action up its lane", actions::move_up;
    /// An action is gone.
    DropAction = "drop an action", actions::drop_any;
    /// A copy is gone.
    DropCopy = "drop a copy", actions::drop_copy;
    /// An action is there twice.
    Duplicate = "duplicate an action", actions::duplicate;
    /// An op's run is a rerun.
    RunToRecompute = "run -> recompute", actions::run_to_recompute;
    /// A rerun is a run.
    RecomputeToRun = "recompute -> run", actions::recompute_to_run;
    /// A task is about another op or tensor.
    OtherTask = "task of another op or tensor", actions::other_task;
    /// Codecs change their lane.
    FlipCodecLane = "codecs on the other lane", actions::flip_codec_lane;
    /// A read is of another buffer of the tensor.
    OtherBuffer = "read another buffer of the tensor", operands::other_buffer;
    /// A read is of another buffer of the same size.
    OtherTensor = "read a buffer of that size", operands::other_tensor;
    /// A buffer goes from one list of an action to another.
    MoveOperand = "move an operand to another list", operands::move_operand;
    /// An operand is gone.
    DropOperand = "drop an operand", operands::drop_operand;
    /// A read or hold more.
    AddOperand = "add an operand", operands::add_operand;
    /// A hold is gone.
    DropHold = "drop a hold", operands::drop_hold;
    /// An in-place pair is gone.
    DropPair = "drop an in-place pair", operands::drop_pair;
    /// An in-place pair more, at one address.
    AddPair = "add an in-place pair", operands::add_pair;
    /// The buffers of an in-place pair lie apart.
    SeparatePair = "separate an in-place pair", operands::separate_pair;
    /// A copy or codec has another host buffer of its tensor.
    OtherHostOfTensor = "other host buffer of the tensor", operands::other_host_of_tensor;
    /// A copy or codec has another host buffer.
    OtherHost = "any other host buffer", operands::other_host;
    /// A codec has no host buffer.
    DropHost = "no host buffer", operands::drop_host;
    /// A buffer lies a little further.
    ShiftAddress = "shift an address", buffers::shift;
    /// A buffer lies where another one does.
    MoveOnto = "move onto another buffer", buffers::move_onto;
    /// Two buffers change places.
    SwapAddresses = "swap two addresses", buffers::swap_addresses;
    /// A buffer is smaller.
    Shrink = "shrink a buffer", buffers::shrink;
    /// A buffer is larger.
    Grow = "grow a buffer", buffers::grow;
    /// A workspace is smaller.
    ShrinkWorkspace = "shrink a workspace", buffers::shrink_workspace;
    /// A compressed form has another size.
    ResizeSmall = "resize a compressed form", buffers::resize_small;
    /// A host buffer lies elsewhere.
    ShiftHost = "shift a host buffer", buffers::shift_host;
    /// A host buffer is smaller.
    ShrinkHost = "shrink a host buffer", buffers::shrink_host;
    /// A buffer is of another tensor.
    OtherLabel = "a buffer of another tensor", buffers::other_label;
    /// A buffer or host buffer is of another codec, or of none.
    SwapCodec = "swap a codec", buffers::swap_codec;
    /// A codec says that it brings back something else.
    OtherFidelity = "change a fidelity", buffers::other_fidelity;
    /// All that one codec makes is made by another.
    OtherCodec = "another codec throughout", buffers::other_codec;
    /// A buffer need not, or must, be there at the end.
    FlipAtEnd = "flip at_end", buffers::flip_at_end;
    /// A buffer is, or is not, there at the start.
    FlipAtStart = "flip at_start", buffers::flip_at_start;
    /// An arena is smaller.
    ShrinkArena = "shrink an arena", buffers::shrink_arena;
    /// An arena is said to end elsewhere.
    ForgeArena = "forge predicted.arena", buffers::forge_arena;
    /// The host arena is said to end elsewhere.
    ForgeHostArena = "forge predicted.host_arena", buffers::forge_host_arena;
    /// The peak is said to be another.
    ForgePeak = "forge predicted.peak", buffers::forge_peak;
    /// An op reads a copy of a constant, from before or after a change.
    CopyOfConstant = "read a copy of a constant", stale::copy_of_constant;
    /// An op runs again, and its output is read from there.
    RunAgain = "read what a rerun makes", stale::run_again;
}

/// What is changed, and what draws are made from.
struct Subject<'a> {
    plan: &'a mut Plan,
    trace: &'a Trace,
    random: &'a mut Random,
}

impl Subject<'_> {
    /// One of the positions from 0 to before `end` that serve.
    fn one_of(&mut self, end: usize, serves: impl Fn(&Plan, usize) -> bool) -> Option<usize> {
        let from = self.random.below(end as u64) as usize;
        (0..end).map(|i| (from + i) % end).find(|i| serves(self.plan, *i))
    }
}

impl Mutation {
    /// Changes a plan; false where there is nothing of the kind to change, and the plan is of no use then.
    pub fn apply(self, plan: &mut Plan, trace: &Trace, random: &mut Random) -> bool {
        self.try_on(&mut Subject { plan, trace, random }).is_some()
    }
}
