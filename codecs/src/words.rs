//! Elements as words of bits, so that zero means "all bits zero" and -0.0 survives.

use std::marker::PhantomData;

use schema::Dtype;

use crate::layout::width;
use crate::payload::{self, BlockCodec};
use crate::{Codec, CodecId, Error, Fidelity, Layout, TensorView};

/// A word of 2 or 4 bytes.
pub(crate) trait Word: Copy + Default + PartialEq + Send + Sync + 'static {
    const WIDTH: usize;
    /// From its little-endian bytes, of which there are `WIDTH`.
    fn read(bytes: &[u8]) -> Self;
    /// To its little-endian bytes, of which there are `WIDTH`.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! word {
    ($type:ty) => {
        impl Word for $type {
            const WIDTH: usize = size_of::<Self>();

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<Self>()];
                word.copy_from_slice(bytes);
                Self::from_le_bytes(word)
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

word!(u16);
word!(u32);

/// A lossless codec of blocks of words: the part that differs between ZVC, RLE and CSR.
pub(crate) trait WordCodec: Send + Sync {
    const ID: CodecId;
    const BLOCK: usize;

    fn compress<W: Word>(block: &[u8], out: &mut [u8]) -> usize;

    fn decompress<W: Word>(block: &[u8], out: &mut [u8]) -> Result<(), &'static str>;
}

impl<C: WordCodec> Codec for C {
    fn id(&self) -> CodecId {
        C::ID
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Lossless
    }

    fn supports(&self, dtype: Dtype) -> bool {
        matches!(width(dtype), 2 | 4)
    }

    fn worst_case(&self, layout: &Layout) -> usize {
        payload::worst_case(layout.bytes(), C::BLOCK * width(layout.dtype()))
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        self.check_compress(input, out)?;
        Ok(match width(input.layout().dtype()) {
            2 => payload::compress(&Blocks::<C, u16>(PhantomData), input.bytes(), out),
            _ => payload::compress(&Blocks::<C, u32>(PhantomData), input.bytes(), out),
        })
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        self.check_decompress(layout, out)?;
        match width(layout.dtype()) {
            2 => payload::decompress(&Blocks::<C, u16>(PhantomData), payload, out),
            _ => payload::decompress(&Blocks::<C, u32>(PhantomData), payload, out),
        }
    }
}

/// A codec on words of one width.
struct Blocks<C, W>(PhantomData<(C, W)>);

impl<C: WordCodec, W: Word> BlockCodec for Blocks<C, W> {
    fn id(&self) -> CodecId {
        C::ID
    }

    fn block_bytes(&self) -> usize {
        C::BLOCK * W::WIDTH
    }

    fn compress_block(&self, block: &[u8], out: &mut [u8]) -> usize {
        C::compress::<W>(block, out)
    }

    fn decompress_block(&self, block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        C::decompress::<W>(block, out)
    }
}
