//! A driver, a compiler and libraries that are none (see `driver.h`).

use std::path::PathBuf;

/// Libraries in a folder of their own, of `libcuda.so`, `libnvrtc.so`, `libcublas.so` and
/// `libcudnn.so`; nothing where there is no C++ compiler, which is said.
pub fn stand_in(names: &[&str]) -> Option<PathBuf> {
    let more = concat!(include_str!("driver.h"), include_str!("graph.h"), include_str!("cudnn.h"));
    let library = crate::emulator::library(&runtime::cuda::programs(), more)?;
    let folder = library.with_extension(names.join("-"));
    std::fs::create_dir_all(&folder).unwrap();
    for name in names {
        // Others may do the same at this moment.
        let own =
            folder.join(format!("{name}-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::copy(&library, &own).unwrap();
        std::fs::rename(&own, folder.join(name)).unwrap();
    }
    Some(folder)
}
