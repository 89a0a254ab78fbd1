//! Indices into the lists of a document. Each is a type of its own, so that an op is never
//! looked up in the list of tensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in its list.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the entry at `index`. Documents hold fewer than 2^32 entries.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("a document holds fewer than 2^32 entries"))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, " {}"), self.0)
            }
        }
    };
}

id!(
    /// Position of an op in [`Trace::ops`](crate::Trace::ops).
    OpId,
    "op"
);
id!(
    /// Position of a tensor in [`Trace::tensors`](crate::Trace::tensors).
    TensorId,
    "tensor"
);
id!(
    /// Position of an action in [`Plan::actions`](crate::Plan::actions).
    ActionId,
    "action"
);
id!(
    /// Position of a device buffer in [`Plan::buffers`](crate::Plan::buffers).
    BufferId,
    "buffer"
);
id!(
    /// Position of a host buffer in [`Plan::host_buffers`](crate::Plan::host_buffers).
    HostBufferId,
    "host buffer"
);
id!(
    /// Position of a codec in [`Plan::codecs`](crate::Plan::codecs).
    CodecId,
    "codec"
);
