//! NVIDIA's libraries, which are found at run time or not.

mod folders;
mod functions;
pub(super) mod kinds;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::CudaError;
use super::version;
pub use folders::{VARIABLE, look_in};
pub(super) use functions::{Cublas, Cudnn, Nvrtc};
pub use kinds::Library;

impl Library {
    /// Whether it can be used.
    pub fn is_present(self) -> bool {
        self.require().is_ok()
    }

    /// Says what is missing. Called before anything else of the driver, which would panic without
    /// it.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`] or [`CudaError::NoLibrary`] if it cannot be used.
    pub fn require(self) -> Result<(), CudaError> {
        self.found().map(|_| ())
    }

    /// The file that is used, and its version.
    ///
    /// # Errors
    /// As [`Self::require`].
    #[allow(unsafe_code, reason = "loading a library runs its initialisers")]
    pub fn found(self) -> Result<(PathBuf, String), CudaError> {
        match self {
            Self::Driver => {
                // SAFETY: the driver is made to be loaded by anybody at any time.
                if !unsafe { cudarc::driver::sys::is_culib_present() } {
                    return Err(CudaError::NoDriver);
                }
                let (major, minor) = version::driver_version()?;
                let own = version::kernel_module_version().map(|own| format!("{own}, "));
                let version = format!("{}for CUDA {major}.{minor}", own.unwrap_or_default());
                Ok((folders::loaded(self.file()).unwrap_or(self.file().into()), version))
            }
            Self::Nvrtc => nvrtc().map(Loaded::said),
            Self::Cublas => cublas().map(Loaded::said),
            Self::Cudnn => cudnn().map(Loaded::said),
        }
    }

    /// Where it is looked for: names that the linker is given, and folders that are there.
    pub fn places() -> Vec<String> {
        folders::places()
    }
}

pub(super) struct Loaded<F> {
    pub functions: F,
    pub file: PathBuf,
    pub version: String,
    /// After the functions, which are none without it.
    _library: libloading::Library,
}

impl<F> Loaded<F> {
    pub fn said(&self) -> (PathBuf, String) {
        (self.file.clone(), self.version.clone())
    }

    /// A function that only a test calls.
    ///
    /// # Safety
    ///
    /// It must have this type.
    #[cfg(test)]
    #[allow(unsafe_code)]
    pub unsafe fn more<T: Copy>(&self, name: &str) -> T {
        // SAFETY: as the caller has it.
        *unsafe { self._library.get(name.as_bytes()) }.unwrap()
    }
}

pub(super) struct About<F> {
    pub functions: F,
    pub version: String,
    /// The major of CUDA that it was built for.
    pub cuda: u32,
}

/// The first file of a library that can be loaded, has what is called, and is not newer than the
/// driver.
///
/// It is loaded by its own path, since libraries find their parts by the folder that they are in.
#[allow(unsafe_code, reason = "loading a library runs its initialisers")]
pub(super) fn open<F>(
    library: Library,
    about: impl Fn(&libloading::Library) -> Result<About<F>, String>,
) -> Result<Loaded<F>, CudaError> {
    let driver = driver_major();
    let mut refused = Vec::new();
    for file in folders::candidates(&library.files(driver)) {
        if library == Library::Nvrtc {
            load_builtins(&file);
        }
        // SAFETY: these libraries are made to be loaded by anybody at any time.
        let loaded = match unsafe { libloading::Library::new(&file) } {
            Ok(loaded) => loaded,
            // The linker does not know the name, which says nothing.
            Err(_) if file.parent() == Some(Path::new("")) => continue,
            Err(error) => {
                refused.push(format!("{}: {error}", file.display()));
                continue;
            }
        };
        let file = folders::path_of(&file).unwrap_or(file);
        match about(&loaded) {
            Ok(About { cuda, .. }) if driver.is_some_and(|driver| cuda > driver) => {
                let driver = driver.unwrap_or(cuda);
                refused.push(format!(
                    "{} is of CUDA {cuda}, the driver of CUDA {driver}",
                    file.display()
                ));
            }
            Ok(About { functions, version, .. }) => {
                return Ok(Loaded { functions, file, version, _library: loaded });
            }
            Err(why) => refused.push(format!("{} {why}", file.display())),
        }
    }
    Err(CudaError::NoLibrary { library, driver, refused })
}

/// NVRTC asks the linker for the library of its builtins by name, and some builds of it do not say
/// that this lies beside them. What is loaded already has the name.
#[allow(unsafe_code, reason = "loading a library runs its initialisers")]
fn load_builtins(nvrtc: &Path) {
    let named = nvrtc.file_name().and_then(|name| name.to_str());
    let (Some(folder), Some(version)) = (nvrtc.parent(), named) else { return };
    let version = version.strip_prefix(Library::Nvrtc.file()).unwrap_or_default();
    let prefix = format!("libnvrtc-builtins.so{version}");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        // SAFETY: as for NVRTC itself, which looks for it whenever it compiles.
        if let Ok(builtins) = unsafe { libloading::Library::new(entry.path()) } {
            std::mem::forget(builtins);
        }
    }
}

/// The major of CUDA that the driver is for; none without a driver.
fn driver_major() -> Option<u32> {
    Library::Driver.found().ok()?;
    version::driver_version().ok().map(|(major, _)| major)
}

type Once<F> = LazyLock<Result<Loaded<F>, CudaError>>;

pub(super) fn nvrtc() -> Result<&'static Loaded<Nvrtc>, CudaError> {
    static FOUND: Once<Nvrtc> = LazyLock::new(|| open(Library::Nvrtc, Nvrtc::about));
    FOUND.as_ref().map_err(Clone::clone)
}

pub(super) fn cublas() -> Result<&'static Loaded<Cublas>, CudaError> {
    static FOUND: Once<Cublas> = LazyLock::new(|| open(Library::Cublas, Cublas::about));
    FOUND.as_ref().map_err(Clone::clone)
}

pub(super) fn cudnn() -> Result<&'static Loaded<Cudnn>, CudaError> {
    static FOUND: Once<Cudnn> = LazyLock::new(|| {
        // It looks for both by their names, and finds what is there already.
        let _ = (nvrtc(), cublas());
        open(Library::Cudnn, Cudnn::about)
    });
    FOUND.as_ref().map_err(Clone::clone)
}
