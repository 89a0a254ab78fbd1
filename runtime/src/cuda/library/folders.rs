//! Where libraries are looked for, without running anything: where the linker does, then toolkits,
//! conda, and what pip installs for the Pythons that are there.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The environment's variable that names folders in the stead of all others.
pub const VARIABLE: &str = "TIDEGATE_CUDA_LIBRARIES";

static GIVEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Looks for libraries in these folders, and nowhere else, from now on. What was found already
/// stays.
pub fn look_in(folders: &[PathBuf]) {
    let mut given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *given = folders.to_vec();
}

/// Folders that are looked in, and in no other.
fn given() -> Option<Vec<PathBuf>> {
    let given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    if !given.is_empty() {
        return Some(given);
    }
    let variable = env::var_os(VARIABLE).filter(|folders| !folders.is_empty())?;
    Some(env::split_paths(&variable).collect())
}

/// Files of these names: for the linker to find, and in folders. In each place, the first name is
/// tried first.
pub fn candidates(names: &[String]) -> Vec<PathBuf> {
    let linkers = names.iter().map(PathBuf::from).filter(|_| given().is_none());
    let in_folders = folders().into_iter().flat_map(|folder| {
        let paths = names.iter().map(move |name| folder.join(name));
        paths.filter(|path| path.is_file()).collect::<Vec<_>>()
    });
    linkers.chain(in_folders).collect()
}

/// The same places, for people.
pub fn places() -> Vec<String> {
    let linker = given().is_none().then(|| "where the linker does".to_owned());
    let folders = folders().into_iter().map(|folder| folder.display().to_string());
    linker.into_iter().chain(folders).collect()
}

fn folders() -> Vec<PathBuf> {
    let all = match given() {
        Some(given) => given.iter().flat_map(|folder| below(folder)).collect(),
        None => usual(),
    };
    let mut seen = BTreeSet::new();
    let is_new = |folder: &PathBuf| {
        fs::canonicalize(folder).is_ok_and(|real| real.is_dir() && seen.insert(real))
    };
    all.into_iter().filter(is_new).collect()
}

/// A folder that somebody names: itself, or that of a toolkit, or of Python's packages.
fn below(folder: &Path) -> Vec<PathBuf> {
    [vec![folder.to_path_buf()], toolkit(folder), packages(folder)].concat()
}

fn usual() -> Vec<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut all = Vec::new();
    for home in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable) {
        all.extend(toolkit(&home));
    }
    for home in children(Path::new("/usr/local"), "cuda") {
        all.extend(toolkit(&home));
    }
    all.push(format!("/usr/lib/{}-linux-gnu", env::consts::ARCH).into());
    all.push("/usr/lib64".into());
    let conda = variable("CONDA_PREFIX");
    for prefix in conda.iter() {
        all.extend(toolkit(prefix));
    }
    let prefixes = variable("VIRTUAL_ENV").into_iter().chain(conda).chain(pythons());
    let own = variable("HOME").map(|home| home.join(".local"));
    for prefix in prefixes.chain(own) {
        all.extend(packages_of(&prefix));
    }
    all
}

/// Folders of libraries in a toolkit, or in an environment of conda's.
fn toolkit(home: &Path) -> Vec<PathBuf> {
    let targets = format!("targets/{}-linux/lib", env::consts::ARCH);
    ["lib64", "lib", targets.as_str()].map(|folder| home.join(folder)).to_vec()
}

/// What the Pythons on the path were installed into; where one is a link, as in a virtual
/// environment, also what it leads to.
fn pythons() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut all = Vec::new();
    for python in folders.iter().flat_map(|folder| ["python3", "python"].map(|n| folder.join(n))) {
        let Ok(real) = fs::canonicalize(&python) else { continue };
        for file in [python, real] {
            all.extend(file.parent().and_then(Path::parent).map(Path::to_path_buf));
        }
    }
    all
}

/// Folders of libraries among the packages of a Python that was installed there.
fn packages_of(prefix: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for lib in ["lib", "lib64", "local/lib"].map(|lib| prefix.join(lib)) {
        for python in children(&lib, "python3") {
            for kind in ["site-packages", "dist-packages"] {
                all.extend(packages(&python.join(kind)));
            }
        }
    }
    all
}

/// Folders of libraries among Python's packages: NVIDIA's, the newest CUDA first, and those that
/// come with PyTorch.
fn packages(site: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for package in children(&site.join("nvidia"), "") {
        all.extend(["lib", "lib64"].map(|lib| package.join(lib)));
    }
    all.push(site.join("torch/lib"));
    all
}

/// What is in a folder with names that begin so, from the last name to the first, by the numbers in
/// it; but first the one that has nothing else in its name, by which somebody chose.
fn children(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let rest = name.strip_prefix(prefix)?.to_owned();
        let numbers = rest.split(|c: char| !c.is_ascii_digit());
        let numbers: Vec<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
        Some(((rest.is_empty(), numbers, rest), entry.path()))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named.into_iter().rev().map(|(_, path)| path).collect()
}

/// The file that was loaded for a name that the linker found.
pub fn path_of(file: &Path) -> Option<PathBuf> {
    if file.parent() != Some(Path::new("")) {
        return Some(file.to_path_buf());
    }
    loaded(file.to_str()?)
}

/// A file of this process's memory whose name begins so.
pub fn loaded(name: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_named = |file: &&Path| {
        let own = file.file_name().and_then(|own| own.to_str());
        let rest = own.and_then(|own| own.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    files.into_iter().find(is_named).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    #[test]
    fn what_pip_installs_is_found_the_newest_first() {
        let root = tree(&[
            "lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "lib/python3.12/site-packages/nvidia/libother/lib64/libother.so.6",
            "lib/python3.12/site-packages/torch/lib/libtorch.so",
            "lib/python3.9/dist-packages/nvidia/cudnn/lib/libcudnn.so.9",
        ]);
        let there: Vec<_> =
            packages_of(root.path()).into_iter().filter(|folder| folder.is_dir()).collect();
        let expected = [
            "lib/python3.12/site-packages/nvidia/cu13/lib",
            "lib/python3.12/site-packages/nvidia/libother/lib64",
            "lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib",
            "lib/python3.12/site-packages/torch/lib",
            "lib/python3.9/dist-packages/nvidia/cudnn/lib",
        ];
        assert_eq!(there, expected.map(|folder| root.path().join(folder)));
        // Where the packages are, is enough to say.
        let site = root.path().join("lib/python3.12/site-packages");
        assert!(below(&site).contains(&site.join("nvidia/cu13/lib")));
    }

    #[test]
    fn toolkits_are_tried_from_the_newest_after_the_chosen_one() {
        let root = tree(&["cuda-12.9/x", "cuda-13.0/x", "cuda-12.10/x", "cuda/x", "other/x"]);
        let names: Vec<_> = children(root.path(), "cuda")
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["cuda", "cuda-13.0", "cuda-12.10", "cuda-12.9"]);
    }
}
