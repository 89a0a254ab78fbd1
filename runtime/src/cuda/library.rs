//! NVIDIA's libraries, which are found at run time or not.

use super::{CudaError, Nvcomp};

/// A library of NVIDIA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// The driver, which comes with the kernel module.
    Driver,
    /// The run-time compiler.
    Nvrtc,
    /// Products of matrices; nothing fails without it.
    Cublas,
    /// Convolutions, means and softmax; nothing fails without it.
    Cudnn,
    /// NVIDIA's codecs, to compare ours with; nothing fails without it.
    Nvcomp,
}

impl Library {
    /// Its file, without what says the version.
    pub fn file(self) -> &'static str {
        match self {
            Self::Driver => "libcuda.so",
            Self::Nvrtc => "libnvrtc.so",
            Self::Cublas => "libcublas.so",
            Self::Cudnn => "libcudnn.so",
            Self::Nvcomp => "libnvcomp.so",
        }
    }

    /// Where one gets it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Driver => "install NVIDIA's driver, or use `--device host`",
            Self::Nvrtc => {
                "install CUDA 12's NVRTC (`pip install nvidia-cuda-nvrtc-cu12`) and name its folder in LD_LIBRARY_PATH"
            }
            Self::Cublas => {
                "install CUDA 12's cuBLAS (`pip install nvidia-cublas-cu12`) and name its folder in LD_LIBRARY_PATH"
            }
            Self::Cudnn => {
                "install cuDNN 9 (`pip install nvidia-cudnn-cu12`) and name its folder in LD_LIBRARY_PATH"
            }
            Self::Nvcomp => {
                "install nvCOMP 6 (`pip install nvidia-libnvcomp-cu12`) and name its folder in LD_LIBRARY_PATH"
            }
        }
    }

    /// Whether it can be loaded.
    #[allow(unsafe_code, reason = "loading a library runs its initialisers")]
    pub fn is_present(self) -> bool {
        // SAFETY: these libraries are made to be loaded by anybody at any time.
        unsafe {
            match self {
                Self::Driver => cudarc::driver::sys::is_culib_present(),
                Self::Nvrtc => cudarc::nvrtc::sys::is_culib_present(),
                Self::Cublas => cudarc::cublas::sys::is_culib_present(),
                Self::Cudnn => cudarc::cudnn::sys::is_culib_present(),
                Self::Nvcomp => Nvcomp::is_present(),
            }
        }
    }

    /// Says what is missing. Called before anything else of a library, which would panic without it.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`] or [`CudaError::NoLibrary`] if it cannot be loaded.
    pub fn require(self) -> Result<(), CudaError> {
        match (self.is_present(), self) {
            (true, _) => Ok(()),
            (false, Self::Driver) => Err(CudaError::NoDriver),
            (false, library) => Err(CudaError::NoLibrary { library }),
        }
    }
}
