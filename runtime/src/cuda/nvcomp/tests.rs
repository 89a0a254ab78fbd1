//! The library itself, where it is installed: it says what it needs without a device.

use std::ptr::null_mut;

use super::*;

/// `cargo test` finds it where the device does.
#[test]
fn the_real_library_has_what_is_called_and_takes_options_as_they_are_passed() {
    let nvcomp = match Nvcomp::open() {
        Ok(nvcomp) => nvcomp,
        Err(error @ CudaError::NoLibrary { .. }) => {
            eprintln!("skipped: nvCOMP is not asked what it needs: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    eprintln!("nvCOMP {}", nvcomp.version());
    for format in Format::ALL {
        for (dtype, bytes) in [(Dtype::F32, 1 << 20), (Dtype::Bf16, (1 << 20) + 6)] {
            let needs = nvcomp.needs(format, dtype, bytes, null_mut());
            let needs = needs.unwrap_or_else(|error| panic!("{format}: {error}"));
            assert_eq!(needs.chunks, bytes.div_ceil(CHUNK_BYTES));
            assert!(needs.room >= CHUNK_BYTES && needs.room < 2 * CHUNK_BYTES, "{needs:?}");
            for alignment in
                [needs.alignments.input, needs.alignments.output, needs.alignments.temp]
            {
                assert!(alignment.is_power_of_two() && alignment <= 256, "{needs:?}");
            }
            assert!(needs.temp.into_iter().all(|bytes| bytes < 1 << 30), "{needs:?}");
        }
    }
    // Options arrive: elements must be aligned to their width, and there is no element type 99.
    let functions = nvcomp.functions(Format::Bitcomp);
    let input = |element: u32| {
        let mut alignments = Alignments::default();
        // SAFETY: it writes one value.
        let said = unsafe {
            (functions.compress.alignments)(Options::of_element(element), &mut alignments)
        };
        (said, alignments.input)
    };
    let of = |dtype| input(Format::Bitcomp.options(dtype).element);
    assert_eq!([of(Dtype::F32), of(Dtype::Bf16)], [(0, 4), (0, 2)]);
    assert_ne!(input(99).0, 0);
}

#[test]
fn versions_and_statuses_are_said() {
    assert_eq!(text(5300), "5.3.0");
    assert!(refused("x", 17).to_string().contains("alignment (status 17 of nvCOMP)"));
}
