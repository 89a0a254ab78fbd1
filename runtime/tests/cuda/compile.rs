//! Every kernel compiles for every architecture.

use std::collections::BTreeSet;

use codecs::kernels::Program;
use runtime::cuda::{Compiled, CudaError, Library, architectures, compile, programs};

/// Volta, Turing, Ampere, Hopper, Blackwell: what kernels must compile for where the compiler knows it.
const ARCHITECTURES: [u32; 6] = [70, 75, 80, 90, 100, 120];

/// NVRTC needs no device, but it must be there.
fn nvrtc() -> Option<()> {
    let found = Library::Nvrtc.found();
    let missing = found.map_err(|missing| {
        eprintln!("skipped: kernels are not compiled for devices: {missing}");
    });
    missing.map(|(file, version)| eprintln!("NVRTC {version}, {}", file.display())).ok()
}

/// Kernels in machine code: each has a section for its arguments.
fn kernels_of(code: &[u8]) -> BTreeSet<String> {
    assert!(code.starts_with(b"\x7fELF"), "this is no machine code");
    let texts = code.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    texts.filter_map(|text| text.strip_prefix(".nv.constant0.").map(str::to_owned)).collect()
}

#[test]
fn kernels_compile_for_every_architecture() {
    let Some(()) = nvrtc() else { return };
    let known = architectures().unwrap();
    let architectures = ARCHITECTURES.into_iter().filter(|number| known.contains(number));
    let architectures: Vec<_> = architectures.collect();
    assert!(architectures.len() >= 4, "{known:?}");
    for program in programs() {
        for number in &architectures {
            let architecture = format!("sm_{number}");
            let compiled =
                compile(&program, &architecture).unwrap_or_else(|error| panic!("{error}"));
            let Compiled::Machine(code) = compiled else { panic!("{architecture}: no code") };
            let kernels: BTreeSet<_> = program.kernels().into_iter().collect();
            assert_eq!(kernels_of(&code), kernels, "`{}` for {architecture}", program.name());
        }
    }
}

/// For devices that are newer than the compiler.
#[test]
fn kernels_compile_to_what_a_driver_makes_code_of() {
    let Some(()) = nvrtc() else { return };
    let newest = architectures().unwrap().pop().unwrap();
    for program in programs() {
        let compiled = compile(&program, &format!("compute_{newest}"));
        let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
        let Compiled::Virtual(text) = compiled else { panic!("no text") };
        for kernel in program.kernels() {
            let entry = format!(".entry {kernel}(");
            assert!(text.contains(&entry), "{kernel} is not in `{}`", program.name());
        }
        let entries = text.matches(".entry ").count();
        assert_eq!(entries, program.kernels().len(), "`{}` lists its kernels", program.name());
    }
}

#[test]
fn a_mistake_is_said() {
    let Some(()) = nvrtc() else { return };
    let program = Program::new("mistake", &["KERNEL nothing(float* x) { x = y; }"]);
    let error = compile(&program, "sm_80").expect_err("it does not compile");
    let CudaError::Compile { log, .. } = &error else { panic!("{error}") };
    assert!(log.contains('y') && error.to_string().contains("sm_80"), "{error}");
}
