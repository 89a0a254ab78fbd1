//! Names of codecs.

use codecs::{CodecId, Dims, Error, ErrorBound, Layout, Rate};
use proptest::prelude::*;
use schema::Dtype;

#[test]
fn names_are_printed_as_they_are_parsed() {
    let names = "zvc rle csr lz4 zstd ibp ibp:8 zfp:8 zfp:2.25 zfp:0.5625:2d zfp:16:3d zfp:32 \
                 sz:1e-3 sz:2.5e-4:2d sz:1e0:3d sz-1.4:1e-3 jpeg-act-l jpeg-act-h";
    for name in names.split(' ') {
        assert_eq!(name.parse::<CodecId>().unwrap().to_string(), name);
    }
    assert_eq!("sz:0.001:1d".parse::<CodecId>().unwrap().to_string(), "sz:1e-3");
}

#[test]
fn what_is_no_name_says_why() {
    let names = " zip zvc:1 zfp zfp: zfp:nan zfp:0 zfp:33 zfp:-1 zfp:2 zfp:8.3 zfp:8.125 zfp:8:4d \
                 zfp:8:2d:x sz sz:0 sz:-1e-3 sz:inf sz:1e-3:0d sz-1.4 sz-1.4:0 sz-1.4:1e-3:2d jpeg-act jpeg-act-h:1";
    let errors = names.split(' ').map(|name| name.parse::<CodecId>().unwrap_err().to_string());
    let errors: Vec<_> = errors.collect();
    insta::assert_snapshot!(errors.join("\n"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(zfp|sz|zvc|)(:[-0-9.e]{0,5}){0,3}.{0,3}") {
        if let Ok(id) = text.parse::<CodecId>() {
            prop_assert_eq!(id.to_string().parse::<CodecId>(), Ok(id));
        }
    }
}

#[test]
fn p_of_cswap_plus_is_four_times_the_rate() {
    // P of MAX = 128 bits for the 4 values of a 1-D block: CSWAP+ compares P = 32 and P = 64.
    for (p, name) in [(9u32, "zfp:2.25"), (32, "zfp:8"), (64, "zfp:16"), (128, "zfp:32")] {
        let rate = Rate::from_bits(f64::from(p) / 4.0).unwrap();
        assert_eq!(rate.block_bits(Dims::One), Some(p));
        assert_eq!(CodecId::zfp(rate, Dims::One).unwrap().to_string(), name);
    }
}

#[test]
fn bounds_are_finite_and_above_zero() {
    assert_eq!(ErrorBound::new(1e-3).map(ErrorBound::get), Some(1e-3));
    assert!([0.0, -1.0, f64::NAN, f64::INFINITY].map(ErrorBound::new).iter().all(Option::is_none));
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let refused =
        |shape: &[usize]| matches!(Layout::new(Dtype::F32, shape), Err(Error::BadShape { .. }));
    assert!(refused(&[1; 9]));
    assert!(refused(&[usize::MAX, 2]));
    assert!(refused(&[usize::MAX / 4, 1, 2]));
    assert!(refused(&[0, usize::MAX, usize::MAX]), "a zero hides nothing");
    assert_eq!(Layout::new(Dtype::F32, &[]).unwrap().bytes(), 4);
    assert_eq!(Layout::new(Dtype::F32, &[3, 0]).unwrap().bytes(), 0);
}

#[test]
fn leading_dimensions_are_merged() {
    let folded = |shape: &[usize], rank| Layout::new(Dtype::F32, shape).unwrap().folded(rank);
    assert_eq!(folded(&[2, 3, 5, 7], 1), [210]);
    assert_eq!(folded(&[2, 3, 5, 7], 2), [30, 7]);
    assert_eq!(folded(&[2, 3, 5, 7], 3), [6, 5, 7]);
    assert_eq!(folded(&[5, 7], 3), [5, 7]);
    assert_eq!(folded(&[], 3), [1]);
}
