//! What became of tensors that codecs make smaller: control data beside the arenas.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use codecs::CodecId;
use codecs::Seal;

#[derive(Debug, Default)]
pub(crate) enum Form {
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
    /// Puts a compressed form where it belongs. The seal is of what the codec wrote, so that damage
    /// from then on is seen.
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

    /// Why there is nothing to decompress. The proof sees to it that this does not happen.
    pub fn never_made(codec: CodecId) -> codecs::Error {
        codecs::Error::Corrupt { codec, block: 0, reason: "nothing was made" }
    }
}

pub(crate) struct Forms {
    forms: Vec<Mutex<Form>>,
    /// How often the data did worse than was reserved for.
    pub fallbacks: AtomicU64,
    /// Bytes of tensors that the host's processor could not make as small, now and at most.
    kept: [AtomicU64; 2],
}

impl Forms {
    pub fn new(count: usize) -> Self {
        let forms = (0..count).map(|_| Mutex::default()).collect();
        Self { forms, fallbacks: AtomicU64::new(0), kept: Default::default() }
    }

    /// The order of actions sees to it that nobody waits for another.
    pub fn get(&self, form: usize) -> MutexGuard<'_, Form> {
        self.forms[form].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what an iteration left.
    pub fn clear(&mut self) {
        for form in &mut self.forms {
            *form.get_mut().unwrap_or_else(PoisonError::into_inner) = Form::None;
        }
    }

    /// Keeps what the host's processor made of a tensor where the room that is reserved for it
    /// suffices, which is returned, and else the tensor itself.
    pub fn keep(&self, form: usize, small: &[u8], tensor: &[u8], room: &mut [u8]) -> bool {
        let to = room.get_mut(..small.len());
        let fits = to.is_some();
        *self.get(form) = match to {
            Some(to) => Form::small(small, to),
            None => {
                self.fallbacks.fetch_add(1, Ordering::Relaxed);
                let bytes = tensor.len() as u64;
                let now = self.kept[0].fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.kept[1].fetch_max(now, Ordering::Relaxed);
                Form::Kept(tensor.to_vec())
            }
        };
        fits
    }

    /// Takes a form out, which is not kept any more.
    pub fn take(&self, form: usize) -> Form {
        let form = std::mem::take(&mut *self.get(form));
        if let Form::Kept(tensor) = &form {
            self.kept[0].fetch_sub(tensor.len() as u64, Ordering::Relaxed);
        }
        form
    }

    /// The most bytes of tensors that were kept at once.
    pub fn most_kept(&self) -> u64 {
        self.kept[1].load(Ordering::Relaxed)
    }
}
