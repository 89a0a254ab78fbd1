//! Plans with one thing changed, to be refused or to be as good.

mod actions;
mod buffers;
mod operands;
mod stale;
mod subject;

use schema::{Plan, Trace};

use crate::random::Random;
use subject::Subject;

/// One kind of change to a plan, by its place in the table of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mutation(usize);

/// Makes a change; none where there is nothing of the kind to change.
type Change = fn(&mut Subject) -> Option<()>;

/// All kinds: what each does, in a few words.
const KINDS: &[(&str, Change)] = &[
    ("drop an edge", actions::drop_after),
    ("redirect an edge", actions::redirect_after),
    ("add an edge", actions::add_after),
    ("drop all pacing", actions::drop_pacing),
    ("move an action up its lane", actions::move_up),
    ("drop an action", actions::drop_any),
    ("duplicate an action", actions::duplicate),
    ("run -> recompute", actions::run_to_recompute),
    ("recompute -> run", actions::recompute_to_run),
    ("task of another op or tensor", actions::other_task),
    ("codecs on the other lane", actions::flip_codec_lane),
    ("an op on another processor", actions::other_processor),
    ("read another buffer of the tensor", operands::other_buffer),
    ("read a buffer of that size", operands::other_tensor),
    ("move an operand to another list", operands::move_operand),
    ("drop an operand", operands::drop_operand),
    ("add an operand", operands::add_operand),
    ("drop a hold", operands::drop_hold),
    ("drop an in-place pair", operands::drop_pair),
    ("add an in-place pair", operands::add_pair),
    ("separate an in-place pair", operands::separate_pair),
    ("other host buffer of the tensor", |s| operands::replace_host(s, true)),
    ("any other host buffer", |s| operands::replace_host(s, false)),
    ("no host buffer", operands::drop_host),
    ("shift an address", buffers::shift),
    ("move onto another buffer", buffers::move_onto),
    ("swap two addresses", buffers::swap_addresses),
    ("shrink a buffer", buffers::shrink),
    ("grow a buffer", buffers::grow),
    ("shift a host buffer", buffers::shift_host),
    ("shrink a host buffer", buffers::shrink_host),
    ("a buffer of another tensor", buffers::other_label),
    ("swap a codec", buffers::swap_codec),
    ("change a fidelity", buffers::other_fidelity),
    ("another codec throughout", buffers::other_codec),
    ("flip at_end", buffers::flip_at_end),
    ("flip at_start", buffers::flip_at_start),
    ("shrink an arena", buffers::shrink_arena),
    ("forge predicted.arena", |s| buffers::forge(s, |predicted| &mut predicted.arena)),
    ("forge predicted.host_arena", |s| buffers::forge(s, |predicted| &mut predicted.host_arena)),
    ("forge predicted.peak", |s| buffers::forge(s, |predicted| &mut predicted.peak)),
    ("read a copy of a constant", stale::copy_of_constant),
    ("read what a rerun makes", stale::run_again),
];

impl Mutation {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        (0..KINDS.len()).map(Self)
    }

    /// What it does, in a few words.
    pub fn name(self) -> &'static str {
        KINDS[self.0].0
    }

    /// Whether it changes what a plan says of itself, and nothing else.
    pub fn forges(self) -> bool {
        self.name().starts_with("forge")
    }

    /// Changes a plan; false where there is nothing of the kind to change, and the plan is of no
    /// use then.
    pub fn apply(self, plan: &mut Plan, trace: &Trace, random: &mut Random) -> bool {
        KINDS[self.0].1(&mut Subject { plan, trace, random }).is_some()
    }
}
