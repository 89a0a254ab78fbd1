//! NVIDIA's libraries by their names, files and packages.

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
}

/// The majors of CUDA whose libraries are known here, the newest first.
const MAJORS: [u32; 2] = [13, 12];

impl Library {
    /// Those that are looked for, after the driver.
    pub const ALL: [Self; 3] = [Self::Nvrtc, Self::Cublas, Self::Cudnn];

    /// What one calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Nvrtc => "NVRTC",
            Self::Cublas => "cuBLAS",
            Self::Cudnn => "cuDNN",
        }
    }

    /// Its file, without what says the version.
    pub fn file(self) -> &'static str {
        match self {
            Self::Driver => "libcuda.so",
            Self::Nvrtc => "libnvrtc.so",
            Self::Cublas => "libcublas.so",
            Self::Cudnn => "libcudnn.so",
        }
    }

    /// Names of its files that may do for a driver of this major of CUDA, the best first.
    pub(super) fn files(self, driver: Option<u32>) -> Vec<String> {
        let versions = match self {
            Self::Driver => vec![1],
            Self::Nvrtc | Self::Cublas => {
                let runs = |major: &u32| driver.is_none_or(|driver| *major <= driver);
                MAJORS.into_iter().filter(runs).collect()
            }
            Self::Cudnn => vec![9],
        };
        let file = self.file();
        let named = versions.into_iter().map(|version| format!("{file}.{version}"));
        named.chain([file.to_owned()]).collect()
    }

    /// Where one gets it, for a driver of this major of CUDA.
    pub fn remedy(self, driver: Option<u32>) -> String {
        let [newest, oldest] = MAJORS;
        let major = driver.unwrap_or(newest).clamp(oldest, newest);
        let (what, package) = match (self, major == oldest) {
            (Self::Driver, _) => return "install NVIDIA's driver, or use `--device host`".into(),
            (Self::Nvrtc, true) => ("CUDA 12's NVRTC", "nvidia-cuda-nvrtc-cu12"),
            (Self::Nvrtc, false) => ("CUDA 13's NVRTC", "nvidia-cuda-nvrtc==13.*"),
            (Self::Cublas, true) => ("CUDA 12's cuBLAS", "nvidia-cublas-cu12"),
            (Self::Cublas, false) => ("CUDA 13's cuBLAS", "nvidia-cublas==13.*"),
            (Self::Cudnn, true) => ("cuDNN 9 for CUDA 12", "nvidia-cudnn-cu12"),
            (Self::Cudnn, false) => ("cuDNN 9 for CUDA 13", "nvidia-cudnn-cu13"),
        };
        format!(
            "install {what} (`pip install {package}`), or name its folder with `--cuda-libraries`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_that_the_driver_can_do() {
        let of = |driver| Library::Nvrtc.files(driver).join(" ");
        assert_eq!(of(Some(13)), "libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so");
        assert_eq!(of(None), of(Some(14)));
        assert_eq!(of(Some(12)), "libnvrtc.so.12 libnvrtc.so");
    }

    #[test]
    fn remedies_are_for_the_driver_that_is_there() {
        let of = |driver| Library::Cublas.remedy(Some(driver));
        assert!(of(12).contains("pip install nvidia-cublas-cu12`"), "{}", of(12));
        assert!(of(13).contains("pip install nvidia-cublas==13.*`"), "{}", of(13));
        assert_eq!(of(13), of(14));
    }
}
