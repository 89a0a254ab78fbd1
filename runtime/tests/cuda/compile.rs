//! Every kernel compiles for every architecture.

use codecs::kernels::Program;
use runtime::cuda::{ARCHITECTURES, CudaError, Library, compile, programs};

/// NVRTC needs no device, but it must be there.
fn is_skipped() -> bool {
    let missing = Library::Nvrtc.require().err();
    if let Some(missing) = &missing {
        eprintln!("skipped: kernels are not compiled for devices: {missing}");
    }
    missing.is_some()
}

#[test]
fn kernels_compile_for_every_architecture() {
    if is_skipped() {
        return;
    }
    for program in programs() {
        for architecture in ARCHITECTURES {
            let compiled =
                compile(&program, architecture).unwrap_or_else(|error| panic!("{error}"));
            let ptx = compiled.ptx();
            for kernel in program.kernels() {
                let entry = format!(".entry {kernel}(");
                assert!(ptx.contains(&entry), "{kernel} is not in `{}`", program.name());
            }
            let entries = ptx.matches(".entry ").count();
            assert_eq!(entries, program.kernels().len(), "`{}` lists its kernels", program.name());
        }
    }
}

#[test]
fn a_mistake_is_said() {
    if is_skipped() {
        return;
    }
    let program = Program::new("mistake", &["KERNEL nothing(float* x) { x = y; }"]);
    let error = compile(&program, "sm_80").expect_err("it does not compile");
    let CudaError::Compile { log, .. } = &error else { panic!("{error}") };
    assert!(log.contains('y') && error.to_string().contains("sm_80"), "{error}");
}
