//! Tests in processes of their own, which find a driver that is none.

use std::process::Command;

use runtime::cuda::LIBRARIES_VARIABLE;

use crate::stand_in::stand_in;

/// cuBLAS and cuDNN.
pub const BOTH: [&str; 2] = ["libcublas.so", "libcudnn.so"];

/// Whether this is the process in which the calling test finds a driver, a compiler and these
/// libraries. Otherwise runs the test there, with settings for the driver.
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
