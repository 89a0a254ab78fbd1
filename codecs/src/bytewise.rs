//! Lossless codecs of bytes, whatever elements they are: the part that all have in common.

use std::marker::PhantomData;

use schema::Dtype;

use crate::payload::{self, BlockCodec};
use crate::{Codec, CodecId, Error, Fidelity, Layout, TensorView};

pub(crate) trait ByteCodec: Send + Sync {
    const ID: CodecId;
    const BLOCK_BYTES: usize;
    /// Why a block cannot be decompressed.
    const DAMAGED: &'static str;

    /// Compresses a block into the front of `out` and returns its length, or nothing where there is
    /// no room.
    fn compress(block: &[u8], out: &mut [u8]) -> Option<usize>;

    /// Decompresses a block into the front of `out` and returns its length, or nothing where it is
    /// [damaged](Self::DAMAGED).
    fn decompress(block: &[u8], out: &mut [u8]) -> Option<usize>;
}

/// Such a codec at work on the blocks of a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytewise<C>(PhantomData<C>);

impl<C> Bytewise<C> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<C: ByteCodec> Codec for Bytewise<C> {
    fn id(&self) -> CodecId {
        C::ID
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Lossless
    }

    fn supports(&self, _: Dtype) -> bool {
        true
    }

    fn worst_case(&self, layout: &Layout) -> usize {
        payload::worst_case(layout.bytes(), C::BLOCK_BYTES)
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        self.check_compress(input, out)?;
        Ok(payload::compress(self, input.bytes(), out))
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        self.check_decompress(layout, out)?;
        payload::decompress(self, payload, out)
    }
}

impl<C: ByteCodec> BlockCodec for Bytewise<C> {
    fn id(&self) -> CodecId {
        C::ID
    }

    fn block_bytes(&self) -> usize {
        C::BLOCK_BYTES
    }

    fn compress_block(&self, block: &[u8], out: &mut [u8]) -> usize {
        C::compress(block, out).unwrap_or(usize::MAX)
    }

    fn decompress_block(&self, block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        match C::decompress(block, out) {
            Some(len) if len == out.len() => Ok(()),
            Some(_) => Err("it holds less than a block"),
            None => Err(C::DAMAGED),
        }
    }
}
