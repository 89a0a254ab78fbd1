//! A compressed tensor that says what it is.
//!
//! A frame is a header of 128 bytes and the codec's payload. All numbers are little-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `TGCF` |
//! | 4 | 2 | version: 1 |
//! | 6 | 1 | codec: 1 zvc, 2 rle, 3 csr, 4 lz4, 5 zstd, 6 zfp, 7 sz, 8 ibp |
//! | 7 | 1 | dimensions that the codec looks at (zfp, sz: 1 to 3; others: 0) |
//! | 8 | 8 | parameter: zfp: rate in 1/64 bits per value; sz: error bound, an f64; ibp: bytes of a chunk; others: 0 |
//! | 16 | 1 | element type: 0 f32, 1 f16, 2 bf16, 3 f64, 4 i64, 5 i32, 6 u8 |
//! | 17 | 1 | number of dimensions, at most 8 |
//! | 18 | 6 | 0 |
//! | 24 | 64 | the dimensions, outermost first, 8 bytes each; 0 behind the last |
//! | 88 | 8 | bytes of the tensor |
//! | 96 | 8 | bytes of the payload |
//! | 104 | 8 | XXH3-64 of the payload, seed 0 |
//! | 112 | 8 | 0 |
//! | 120 | 8 | XXH3-64 of bytes 0 to 119, seed 0 |
//! | 128 | | payload |
//!
//! The payload begins at a multiple of 16 bytes, and each codec lays out its payload so that what a
//! GPU reads as words lies at multiples of their size.

use schema::Dtype;
use xxhash_rust::xxh3::xxh3_64;

use crate::layout::MAX_RANK;
use crate::{Codec, CodecId, Error, Layout, TensorView};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
const MAGIC: [u8; 4] = *b"TGCF";
const VERSION: u16 = 1;
/// Element types by the number that stands for them.
pub(crate) const DTYPES: [Dtype; 7] =
    [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::F64, Dtype::I64, Dtype::I32, Dtype::U8];

/// What a frame's header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What the payload was compressed with.
    pub codec: CodecId,
    /// What the payload was compressed from.
    pub layout: Layout,
    /// What the payload is known by.
    pub seal: Seal,
}

/// What a payload is known by: its length and its checksum. Whoever keeps payloads in memory of
/// their own, without a header before each, keeps the seal elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    bytes: usize,
    hash: u64,
}

impl Seal {
    /// The seal of a payload.
    pub fn of(payload: &[u8]) -> Self {
        Self { bytes: payload.len(), hash: xxh3_64(payload) }
    }

    /// Bytes of the payload.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The payload that lies at the front of `memory`.
    ///
    /// # Errors
    /// [`Error::BadFrame`] where it is damaged or cut off.
    pub fn open<'a>(&self, memory: &'a [u8]) -> Result<&'a [u8], Error> {
        let payload = memory.get(..self.bytes);
        let payload = payload.ok_or(Error::BadFrame { reason: "the payload is cut off" })?;
        match xxh3_64(payload) == self.hash {
            true => Ok(payload),
            false => Err(Error::BadFrame { reason: "the payload is damaged" }),
        }
    }
}

/// Compresses a tensor into a frame.
///
/// # Errors
/// Those of [`Codec::compress`].
pub fn encode(codec: &dyn Codec, input: TensorView<'_>) -> Result<Vec<u8>, Error> {
    let layout = input.layout();
    let mut frame = vec![0; HEADER_BYTES + codec.worst_case(layout)];
    let payload_bytes = codec.compress(input, &mut frame[HEADER_BYTES..])?;
    frame.truncate(HEADER_BYTES + payload_bytes);
    frame.shrink_to_fit();
    let (header, payload) = frame.split_at_mut(HEADER_BYTES);
    let fields = Header { codec: codec.id(), layout: layout.clone(), seal: Seal::of(payload) };
    header.copy_from_slice(&fields.write());
    Ok(frame)
}

/// Decompresses a frame of a tensor of at most `limit` bytes. Nothing is allocated before the frame
/// has proved whole, and then the tensor and what its codec needs besides.
///
/// # Errors
/// [`Error::OverLimit`], [`Error::NoMemory`], those of [`Header::read`], and those of [`Codec::decompress`].
pub fn decode(frame: &[u8], limit: u64) -> Result<(Layout, Vec<u8>), Error> {
    let header = Header::read(frame)?;
    let declared = header.layout.bytes() as u64;
    if declared > limit {
        return Err(Error::OverLimit { declared, limit });
    }
    let payload = header.payload(frame)?;
    let codec = crate::codec(header.codec)?;
    codec.check_dtype(header.layout.dtype())?;
    if payload.len() > codec.worst_case(&header.layout) {
        return Err(Error::BadFrame { reason: "the payload is larger than its codec makes it" });
    }
    let raw_bytes = header.layout.bytes();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(raw_bytes).map_err(|_| Error::NoMemory { bytes: raw_bytes })?;
    bytes.resize(raw_bytes, 0);
    codec.decompress(payload, &header.layout, &mut bytes)?;
    Ok((header.layout, bytes))
}

impl Header {
    /// Reads a frame's header and checks that the frame is as long as it says. The payload itself
    /// is not looked at.
    ///
    /// # Errors
    /// [`Error::BadFrame`], [`Error::WrongFrameLength`], [`Error::UnknownVersion`],
    /// [`Error::BadShape`].
    pub fn read(frame: &[u8]) -> Result<Self, Error> {
        let bad = |reason| Error::BadFrame { reason };
        let actual = frame.len() as u64;
        let Some((header, payload)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Error::WrongFrameLength { expected: HEADER_BYTES as u64, actual });
        };
        if header[..4] != MAGIC {
            return Err(bad("it does not begin with TGCF"));
        }
        if xxh3_64(&header[..120]) != word(header, 120) {
            return Err(bad("the header is damaged: its checksum does not fit"));
        }
        // A whole header of another version: only now is the number worth believing.
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(Error::UnknownVersion { found: version, known: VERSION });
        }
        let codec = CodecId::from_wire(header[6], header[7], word(header, 8))
            .ok_or(bad("no codec has this number and parameter"))?;
        let dtype =
            *DTYPES.get(usize::from(header[16])).ok_or(bad("no element type has this number"))?;
        let rank = usize::from(header[17]);
        if rank > MAX_RANK {
            return Err(bad("it has more than 8 dimensions"));
        }
        let dim = |index: usize| word(header, 24 + 8 * index);
        let unused = (rank..MAX_RANK).all(|index| dim(index) == 0);
        if header[18..24] != [0; 6] || !unused || word(header, 112) != 0 {
            return Err(bad("bytes that are not in use are not 0"));
        }
        let shape: Result<Vec<usize>, _> = (0..rank).map(|i| usize::try_from(dim(i))).collect();
        let shape = shape.map_err(|_| bad("a dimension is larger than can be addressed"))?;
        let layout = Layout::new(dtype, &shape)?;
        if word(header, 88) != layout.bytes() as u64 {
            return Err(bad("size and shape do not agree"));
        }
        let declared = word(header, 96);
        if declared != payload.len() as u64 {
            let expected = declared.saturating_add(HEADER_BYTES as u64);
            return Err(Error::WrongFrameLength { expected, actual });
        }
        let seal = Seal { bytes: payload.len(), hash: word(header, 104) };
        Ok(Self { codec, layout, seal })
    }

    /// The payload of the frame that this is the header of.
    ///
    /// # Errors
    /// [`Error::BadFrame`] where it is damaged, [`Error::WrongFrameLength`] with another frame.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], Error> {
        let (expected, actual) = ((HEADER_BYTES + self.seal.bytes) as u64, frame.len() as u64);
        if expected != actual {
            return Err(Error::WrongFrameLength { expected, actual });
        }
        self.seal.open(&frame[HEADER_BYTES..])
    }

    fn write(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let (codec, dims, parameter) = self.codec.to_wire();
        let shape = self.layout.shape();
        let dtype = DTYPES.iter().position(|dtype| *dtype == self.layout.dtype());
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&VERSION.to_le_bytes());
        header[6] = codec;
        header[7] = dims;
        header[16] = dtype.map_or(u8::MAX, |index| index as u8);
        header[17] = shape.len() as u8;
        let mut put = |at: usize, value: u64| {
            header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(8, parameter);
        for (index, dim) in shape.iter().enumerate() {
            put(24 + 8 * index, *dim as u64);
        }
        put(88, self.layout.bytes() as u64);
        put(96, self.seal.bytes as u64);
        put(104, self.seal.hash);
        let hash = xxh3_64(&header[..120]);
        header[120..].copy_from_slice(&hash.to_le_bytes());
        header
    }
}

/// The 8 bytes at a fixed place of a header.
fn word(header: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}
