//! The real libraries have every function that is called of them: where they are installed, which is said.
#![allow(unsafe_code, reason = "libraries are loaded")]

use std::collections::BTreeSet;

use libloading::Library;

/// What the stand-in has is what is called: the device runs on nothing else.
const STAND_INS: [&str; 3] =
    [include_str!("driver.h"), include_str!("graph.h"), include_str!("cudnn.h")];

/// Names of functions that begin so, and then with a capital.
fn called(prefix: &str) -> BTreeSet<&'static str> {
    let lines = STAND_INS.into_iter().flat_map(str::lines);
    let names =
        lines.filter_map(|line| line.split_once("API ")?.1.split_once('(').map(|two| two.0));
    let begins = |name: &&str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase))
    };
    names.filter(begins).collect()
}

fn check(prefix: &str, at_least: usize, files: &[&str]) {
    let called = called(prefix);
    assert!(called.len() >= at_least, "the stand-in has only {called:?}");
    // SAFETY: these libraries are made to be loaded by anybody at any time.
    let library = files.iter().find_map(|file| unsafe { Library::new(*file) }.ok());
    let Some(library) = library else {
        eprintln!(
            "skipped: {} is not here, of which {} functions are called",
            files[0],
            called.len()
        );
        return;
    };
    // SAFETY: nothing is called.
    let is_there =
        |name: &str| unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok();
    assert!(!is_there("tidegate"), "a name that is nobody's");
    let missing: Vec<_> = called.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "{} has no {missing:?}", files[0]);
}

#[test]
fn the_real_driver_has_what_is_called() {
    check("cu", 40, &["libcuda.so", "libcuda.so.1"]);
}

#[test]
fn the_real_compiler_has_what_is_called() {
    check("nvrtc", 7, &["libnvrtc.so", "libnvrtc.so.12"]);
}

#[test]
fn the_real_cublas_has_what_is_called() {
    check("cublas", 6, &["libcublas.so", "libcublas.so.12"]);
}

#[test]
fn the_real_cudnn_has_what_is_called() {
    check("cudnn", 25, &["libcudnn.so", "libcudnn.so.9"]);
}
