//! What became of tensors that codecs make smaller: control data beside the arenas.

use std::sync::{Mutex, MutexGuard, PoisonError};

use codecs::Seal;

/// A tensor that a codec was to make smaller.
#[derive(Debug, Default)]
pub(crate) enum Form {
    /// Nothing was made yet.
    #[default]
    None,
    /// The compressed form, and what it is known by.
    Small(Seal),
    /// The data did worse than was reserved for: the tensor itself is in its host buffer.
    Raw,
    /// The same where the host's processor was to make it smaller, whose buffer has no room for the
    /// tensor.
    Kept(Vec<u8>),
}

impl Form {
    /// Keeps what the host's processor made of a tensor where the room that is reserved for it
    /// suffices, and else the tensor itself.
    pub fn by_host(small: &[u8], tensor: &[u8], room: &mut [u8]) -> Self {
        match room.get_mut(..small.len()) {
            Some(to) => Self::small(small, to),
            None => Self::Kept(tensor.to_vec()),
        }
    }

    /// Puts a compressed form where it belongs. The seal is of what the codec wrote, so that damage from
    /// then on is seen.
    pub fn small(small: &[u8], to: &mut [u8]) -> Self {
        to.copy_from_slice(small);
        Self::Small(Seal::of(small))
    }

    /// What a copy of it moves, where `reserved` is what the plan copies.
    pub fn copied_bytes(&self, reserved: usize) -> usize {
        match self {
            Self::None => reserved,
            Self::Small(seal) => seal.bytes(),
            Self::Raw | Self::Kept(_) => 0,
        }
    }
}

/// The forms of an iteration, by number.
pub(crate) struct Forms(Vec<Mutex<Form>>);

impl Forms {
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| Mutex::default()).collect())
    }

    /// The order of actions sees to it that nobody waits for another.
    pub fn get(&self, form: usize) -> MutexGuard<'_, Form> {
        self.0[form].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what an iteration left.
    pub fn clear(&mut self) {
        for form in &mut self.0 {
            *form.get_mut().unwrap_or_else(PoisonError::into_inner) = Form::None;
        }
    }
}
