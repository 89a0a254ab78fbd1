//! nvCOMP's C interface, as the headers `nvcomp/shared_types.h`, `lz4.h`, `ans.h` and `bitcomp.h` of 5.0.0.6,
//! 5.1.0.21, 5.2.0.13, 5.3.0.16 and 6.0.0.12 have it. All that is used is the same in them, but for the
//! functions that say how much memory to work in is needed, whose name and arguments 6.0 changed. 4.x
//! passes other options, and is not spoken to.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use cudarc::driver::sys::CUstream;
use libloading::Library;

use super::Format;
use crate::cuda::CudaError;

/// Any of the structures of options, all of 64 bytes, which are passed by value. What is not named must be
/// zero, says each header, and all that is left zero here is the header's own default or equal to it.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// The backend or algorithm: 0 is the default of each.
    pub first: u32,
    /// The element type, if the format asks for one there.
    pub element: u32,
    reserved: [u32; 14],
}

impl Options {
    /// An element type: 0 is `NVCOMP_TYPE_CHAR`.
    pub fn of_element(element: u32) -> Self {
        Self { element, ..Self::default() }
    }
}

/// `nvcompAlignmentRequirements_t`
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alignments {
    pub input: usize,
    pub output: usize,
    pub temp: usize,
}

/// `nvcompProperties_t`
#[repr(C)]
#[derive(Default)]
struct Properties {
    version: u32,
    cudart_version: u32,
}

/// `nvcompStatus_t`
pub type Status = c_int;

type GetProperties = unsafe extern "C" fn(*mut Properties) -> Status;
pub type GetAlignments = unsafe extern "C" fn(Options, *mut Alignments) -> Status;
pub type GetMaxOutput = unsafe extern "C" fn(usize, Options, *mut usize) -> Status;
type GetTemp5 = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize) -> Status;
type GetTemp6 = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, CUstream) -> Status;
/// Of chunks: where they are, their sizes, the largest, their number, memory to work in, its size, where
/// they go, what comes of their sizes, options, statuses, stream.
pub type Compress = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    *mut usize,
    Options,
    *mut Status,
    CUstream,
) -> Status;
/// Of chunks: where they are, their sizes, the room for each, what comes of it, their number, memory to
/// work in, its size, where they go, options, statuses, stream.
pub type Decompress = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    *const usize,
    *mut usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    Options,
    *mut Status,
    CUstream,
) -> Status;

/// How the memory to work in is asked for.
#[derive(Clone, Copy)]
enum GetTemp {
    Five(GetTemp5),
    Six(GetTemp6),
}

/// The functions of one format and direction, and that which does it.
pub struct Way<F> {
    pub alignments: GetAlignments,
    temp: GetTemp,
    pub run: F,
}

impl<F> Way<F> {
    /// Memory to work in for so many chunks of at most so many bytes, of so many in all; or a status.
    pub fn temp_bytes(
        &self,
        [chunks, chunk, all]: [usize; 3],
        options: Options,
        stream: CUstream,
    ) -> Result<usize, Status> {
        let mut bytes = 0;
        // SAFETY: the function is of the version that these arguments are of; it writes one number.
        let status = unsafe {
            match self.temp {
                GetTemp::Five(ask) => ask(chunks, chunk, options, &mut bytes, all),
                GetTemp::Six(ask) => ask(chunks, chunk, options, &mut bytes, all, stream),
            }
        };
        if status == 0 { Ok(bytes) } else { Err(status) }
    }
}

/// A format's functions.
pub struct Functions {
    pub compress: Way<Compress>,
    pub decompress: Way<Decompress>,
    pub max_output: GetMaxOutput,
}

/// The library's version, such as 5300 for 5.3.0, and that of CUDA, such as 12090 for 12.9.
pub fn versions(library: &Library) -> Result<(u32, u32), CudaError> {
    let mut properties = Properties::default();
    // SAFETY: the function has had this type in every version since there are batches.
    let status = unsafe {
        let get: GetProperties = symbol(library, "nvcompGetProperties")?;
        get(&mut properties)
    };
    super::done("asking nvCOMP for its version", status)?;
    Ok((properties.version, properties.cudart_version))
}

/// The functions of a format, of a version that is known.
pub fn functions(library: &Library, version: u32, format: Format) -> Result<Functions, CudaError> {
    let name = |rest: &str| format!("nvcompBatched{}{rest}", format.symbol());
    // SAFETY: these are the types that the headers of this version have.
    unsafe {
        let temp = |way: &str| -> Result<GetTemp, CudaError> {
            Ok(match version < 6000 {
                true => GetTemp::Five(symbol(library, &name(&format!("{way}GetTempSizeAsync")))?),
                false => GetTemp::Six(symbol(library, &name(&format!("{way}GetTempSize")))?),
            })
        };
        Ok(Functions {
            compress: Way {
                alignments: symbol(library, &name("CompressGetRequiredAlignments"))?,
                temp: temp("Compress")?,
                run: symbol(library, &name("CompressAsync"))?,
            },
            decompress: Way {
                alignments: symbol(library, &name("DecompressGetRequiredAlignments"))?,
                temp: temp("Decompress")?,
                run: symbol(library, &name("DecompressAsync"))?,
            },
            max_output: symbol(library, &name("CompressGetMaxOutputChunkSize"))?,
        })
    }
}

/// A function by its name.
///
/// # Safety
///
/// It must have this type, and not be called when the library is closed.
unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, CudaError> {
    // SAFETY: as the caller has it.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found
        .map(|function| *function)
        .map_err(|_| CudaError::Call { what: "loading nvCOMP", why: format!("it has no `{name}`") })
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    /// What a C compiler says of the structures in the headers of 5.0.0.6, 5.1.0.21, 5.2.0.13, 5.3.0.16
    /// and 6.0.0.12: `nvcompBatched{LZ4,ANS,Bitcomp}{Compress,Decompress}Opts_t` have 64 bytes each, of
    /// which the second word is the compressor's `data_type`.
    #[test]
    fn structures_are_laid_out_as_in_the_headers() {
        assert_eq!((size_of::<Options>(), align_of::<Options>()), (64, 8));
        assert_eq!(offset_of!(Options, element), 4);
        assert_eq!(size_of::<Alignments>(), 24);
        assert_eq!([offset_of!(Alignments, output), offset_of!(Alignments, temp)], [8, 16]);
        assert_eq!(size_of::<Properties>(), 8);
    }
}
