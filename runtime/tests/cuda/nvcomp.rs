//! nvCOMP, which ours are compared with, on a library that is none (see `nvcomp.h`).

use codecs::synthetic::Recipe;
use codecs::{Layout, TensorView};
use runtime::cuda::{CudaCodecs, CudaError, NVCOMP_CHUNK_BYTES, Nvcomp, NvcompFormat};
use schema::Dtype;

use crate::device::is_inside_with;

fn is_inside(test: &str, settings: &[(&str, &str)]) -> bool {
    is_inside_with(&format!("nvcomp::{test}"), &["libnvcomp.so"], settings)
}

/// Two chunks and something, in a format's way and back.
fn timed(format: NvcompFormat, dtype: Dtype, runs: u32) -> Result<(usize, usize), CudaError> {
    let nvcomp = Nvcomp::open()?;
    let mut device = CudaCodecs::open(0, &[], 100)?;
    let layout = Layout::new(dtype, &[NVCOMP_CHUNK_BYTES + 33]).unwrap();
    let bytes = Recipe { layout: layout.clone(), sparsity: 0.7, smoothness: 0.0, seed: 3 };
    let bytes = bytes.bytes().unwrap();
    let tensor = TensorView::new(&layout, &bytes).unwrap();
    let times = device.time_nvcomp(&nvcomp, format, tensor, runs)?;
    let lists = [times.compress.as_deref().unwrap_or_default(), &times.decompress];
    assert!(lists.iter().all(|times| times.len() == runs as usize), "{times:?}");
    Ok((times.length, bytes.len()))
}

fn every_format_brings_every_byte_back() {
    for format in NvcompFormat::ALL {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let (small, whole) = timed(format, dtype, 2).unwrap_or_else(|error| panic!("{error}"));
            assert!(small < whole, "{small} of {whole}: zeros shrink");
        }
    }
}

#[test]
fn every_format_brings_every_byte_back_as_6_is_called() {
    if is_inside("every_format_brings_every_byte_back_as_6_is_called", &[]) {
        every_format_brings_every_byte_back();
        assert_eq!(Nvcomp::open().unwrap().version(), "6.0.0");
    }
}

#[test]
fn every_format_brings_every_byte_back_as_5_is_called() {
    let test = "every_format_brings_every_byte_back_as_5_is_called";
    if is_inside(test, &[("TIDEGATE_NVCOMP_VERSION", "5101")]) {
        every_format_brings_every_byte_back();
        assert_eq!(Nvcomp::open().unwrap().version(), "5.1.1");
    }
}

#[test]
fn versions_that_are_not_known_are_refused_by_name() {
    let test = "versions_that_are_not_known_are_refused_by_name";
    if !is_inside(test, &[("TIDEGATE_NVCOMP_VERSION", "4200")]) {
        return;
    }
    let error = Nvcomp::open().err().expect("it is too old").to_string();
    assert!(error.contains("libnvcomp.so is version 4.2.0"), "{error}");
    assert!(error.contains("5.3, 6.0): ") && error.contains("pip install"), "{error}");
}

#[test]
fn newer_versions_are_refused_until_their_headers_are_read() {
    let test = "newer_versions_are_refused_until_their_headers_are_read";
    if is_inside(test, &[("TIDEGATE_NVCOMP_VERSION", "6100")]) {
        let error = Nvcomp::open().err().expect("it is too new").to_string();
        assert!(error.contains("is version 6.1.0"), "{error}");
    }
}

#[test]
fn another_byte_that_comes_back_is_noticed() {
    let test = "another_byte_that_comes_back_is_noticed";
    if is_inside(test, &[("TIDEGATE_NVCOMP_WRONG", "1")]) {
        let error = timed(NvcompFormat::Lz4, Dtype::F32, 1).expect_err("a byte is wrong");
        let at = NVCOMP_CHUNK_BYTES / 2;
        assert!(error.to_string().contains(&format!("from byte {at} on")), "{error}");
    }
}

#[test]
fn a_chunk_that_was_not_done_is_noticed() {
    if is_inside("a_chunk_that_was_not_done_is_noticed", &[("TIDEGATE_NVCOMP_WRONG", "2")]) {
        let error = timed(NvcompFormat::Ans, Dtype::Bf16, 0).expect_err("it is not done");
        assert!(error.to_string().contains("cannot decompress"), "{error}");
    }
}
