//! The real libraries have every function that is called of them: by lists of what those of CUDA 12
//! and 13 have, which `runtime/checks/symbols.sh` takes from their files, and in the driver where
//! one is installed.
#![allow(unsafe_code, reason = "libraries are loaded")]

use std::collections::BTreeSet;

use libloading::Library;

/// What the stand-in has is what is called: the device runs on nothing else.
const STAND_INS: [&str; 3] =
    [include_str!("driver.h"), include_str!("graph.h"), include_str!("cudnn.h")];

/// Names of functions that begin so, and then with a capital.
fn called(prefix: &str) -> BTreeSet<&'static str> {
    let lines = STAND_INS.into_iter().flat_map(str::lines);
    let exported =
        lines.filter(|line| line.starts_with("API ") || line.starts_with("extern \"C\""));
    let names = exported.filter_map(|line| {
        line.split(" __attribute__((visibility(\"default\")))")
            .last()?
            .split_once('(')?
            .0
            .rsplit(' ')
            .next()
    });
    let begins = |name: &&str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase))
    };
    names.filter(begins).collect()
}

fn check(prefix: &str, at_least: usize, lists: &[&str]) {
    let called = called(prefix);
    assert!(called.len() >= at_least, "the stand-in has only {called:?}");
    for list in lists {
        let (about, names) = list.split_once('\n').expect("a list");
        let names: BTreeSet<&str> = names.lines().collect();
        assert!(about.starts_with("# ") && names.iter().all(|name| name.starts_with(prefix)));
        let missing: Vec<_> = called.difference(&names).collect();
        assert!(missing.is_empty(), "{about}: has no {missing:?}");
    }
}

#[test]
fn the_real_driver_has_what_is_called() {
    let called = called("cu");
    assert!(called.len() >= 40, "the stand-in has only {called:?}");
    // SAFETY: the driver is made to be loaded by anybody at any time.
    let Ok(library) = (unsafe { Library::new("libcuda.so.1") }) else {
        eprintln!("skipped: there is no driver, of which {} functions are called", called.len());
        return;
    };
    // SAFETY: nothing is called.
    let is_there =
        |name: &str| unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok();
    assert!(!is_there("tidegate"), "a name that is nobody's");
    let missing: Vec<_> = called.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "the driver has no {missing:?}");
}

#[test]
fn the_real_libraries_have_what_is_called() {
    let nvrtc = [include_str!("symbols/nvrtc-12.txt"), include_str!("symbols/nvrtc-13.txt")];
    check("nvrtc", 13, &nvrtc);
    let cublas = [include_str!("symbols/cublas-12.txt"), include_str!("symbols/cublas-13.txt")];
    check("cublas", 8, &cublas);
    let cudnn = [include_str!("symbols/cudnn-12.txt"), include_str!("symbols/cudnn-13.txt")];
    check("cudnn", 28, &cudnn);
}
