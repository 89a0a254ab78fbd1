//! A driver, a compiler and libraries that are none (see `driver.h`).

use std::path::PathBuf;
use std::process::Command;

use runtime::cuda::LIBRARIES_VARIABLE;

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

/// cuBLAS and cuDNN.
pub const BOTH: [&str; 2] = ["libcublas.so", "libcudnn.so"];

/// Whether this is the process in which the calling test finds a driver, a compiler and these libraries.
/// Otherwise runs the test there, with settings for the driver.
pub fn inside(libraries: &[&str], settings: &[(&str, &str)]) -> Option<()> {
    inside_alone(&[&["libcuda.so", "libnvrtc.so"], libraries].concat(), settings)
}

/// The same with these libraries and no others.
pub fn inside_alone(names: &[&str], settings: &[(&str, &str)]) -> Option<()> {
    if std::env::var_os("TIDEGATE_STAND_IN").is_some() {
        return Some(());
    }
    let folder = stand_in(names)?;
    // Each test has a thread of its name.
    let test = std::thread::current().name().expect("a test").to_owned();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&test, "--exact", "--nocapture"]);
    command.env("LD_LIBRARY_PATH", &folder).env(LIBRARIES_VARIABLE, &folder);
    command.env("TIDEGATE_STAND_IN", "1").envs(settings.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    None
}
