//! Compressed forms that the host's processor makes of what arrives, and unmakes before it goes
//! back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use codecs::{Codec, CodecId, Layout, TensorView};
use schema::{ActionId, Direction};

use super::driver::host_call::Work;
use crate::device::forms::{Form, Forms};
use crate::device::{ActionError, Interruption};

/// What the host's processor does on the way of a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct HostWork {
    /// Out: makes the compressed form of what has arrived. In: brings the tensor back before it
    /// goes.
    pub direction: Direction,
    /// With what.
    pub codec: CodecId,
    /// What the codec takes the tensor for.
    pub layout: Layout,
    /// The compressed form's number.
    pub form: usize,
    /// Bytes into the host's arena, where the compressed form lies.
    pub small: u64,
    /// Bytes that are reserved for it.
    pub reserved: u64,
}

/// What is known of compressed forms of the host, for all streams.
pub(super) struct ByHost {
    forms: Forms,
    /// What a codec writes before it is known whether it fits.
    scratch: Mutex<Vec<u8>>,
    failed: Mutex<Option<(ActionId, ActionError)>>,
}

impl ByHost {
    /// For the works of an iteration with so many compressed forms.
    pub fn new<'w>(works: impl Iterator<Item = &'w HostWork>, forms: usize) -> Self {
        let room =
            works.filter_map(|work| Some(codecs::codec(work.codec).ok()?.worst_case(&work.layout)));
        Self {
            forms: Forms::new(forms),
            scratch: Mutex::new(vec![0; room.max().unwrap_or(0)]),
            failed: Mutex::new(None),
        }
    }

    /// What a stream lets the host do for an action, with the tensor on its way and its compressed
    /// form.
    pub fn call(
        self: &Arc<Self>,
        action: ActionId,
        work: &HostWork,
    ) -> Result<Box<Work>, codecs::Error> {
        let (own, work, codec) = (self.clone(), work.clone(), codecs::codec(work.codec)?);
        Ok(Box::new(move |raw, small| {
            let done =
                catch_unwind(AssertUnwindSafe(|| own.act(&work, codec.as_ref(), raw, small)));
            let panicked = || ActionError::Device { what: "a codec of the host panicked".into() };
            if let Err(error) = done.unwrap_or_else(|_| Err(panicked())) {
                let mut failed = own.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert((action, error));
            }
        }))
    }

    fn act(
        &self,
        work: &HostWork,
        codec: &dyn Codec,
        raw: &mut [u8],
        small: &mut [u8],
    ) -> Result<(), ActionError> {
        match work.direction {
            Direction::D2h => {
                let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
                let view = TensorView::new(&work.layout, raw)?;
                let length = codec.compress(view, &mut scratch)?;
                self.forms.keep(work.form, &scratch[..length], raw, small);
            }
            Direction::H2d => match self.forms.take(work.form) {
                Form::Small(seal) => {
                    codec.decompress(seal.open(small)?, &work.layout, raw)?;
                }
                Form::Kept(kept) => raw.copy_from_slice(&kept),
                Form::None | Form::Raw => return Err(Form::never_made(work.codec).into()),
            },
        }
        Ok(())
    }

    /// The first failure of an iteration, and how often a tensor did not become as small as was
    /// reserved.
    pub fn read_back(&self) -> Result<u64, Interruption> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some((action, error)) => Err(Interruption::Failed(action, error)),
            None => Ok(self.forms.fallbacks.swap(0, Ordering::Relaxed)),
        }
    }

    /// The most bytes that it held beside the arenas.
    pub fn held(&self) -> u64 {
        let scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        scratch + self.forms.most_kept()
    }
}
