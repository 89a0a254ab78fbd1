//! Layers of sizes at which kernels cut their work into parts, against the host's layers.

use runtime::cuda::launches::Means;
use runtime::layers::Window;
use runtime::network::{Builder, Initial, Network};
use schema::Bytes;

use crate::layers::{KERNELS, check_and_say, check_within, launches_of};

/// A norm of so many images, channels and cells of a plane, a convolution with a bias, and a loss
/// of each element.
fn images(shape: &[usize; 4]) -> Network {
    let mut net = Builder::new("images", shape[0]);
    let x = net.input("input", shape, Initial::normalised());
    let x = net.batch_norm("norm", &x).unwrap();
    let window = (Window::square(1, 1, 0), 1);
    let x = net.convolution("bias", &x, 2, window, true).unwrap();
    net.segment(&x, None)
}

#[test]
fn channels_in_parts() {
    // Odd planes of few images and of many; planes of fours; one image; one plane of a part.
    for shape in [[2, 2, 67, 65], [70, 1, 9, 7], [3, 1, 48, 46], [1, 3, 91, 92], [1, 1, 64, 64]] {
        let network = images(&shape);
        check_and_say(&network);
        check_and_say(&network.in_bf16());
    }
}

/// A linear layer with a bias, and a loss of each row.
fn rows(rows: usize, inputs: usize, classes: usize) -> Network {
    let mut net = Builder::new("rows", rows);
    let x = net.input("input", &[rows, inputs], Initial::normalised());
    let x = net.row_norm("norm", &x, true);
    let x = net.linear("bias", &x, classes, true).unwrap();
    net.classify(&x, None)
}

#[test]
fn rows_in_parts_and_rows_of_blocks() {
    // Many rows, long rows, many classes, one class, all at once in little.
    for [count, inputs, classes] in
        [[4200, 5, 3], [3, 1100, 1], [5, 3, 1500], [1, 2, 1], [67, 33, 65]]
    {
        let network = rows(count, inputs, classes);
        check_and_say(&network);
        check_and_say(&network.in_bf16());
    }
}

#[test]
fn softmax_of_long_rows() {
    let mut net = Builder::new("softmax", 3);
    let x = net.input("input", &[3, 7], Initial::normalised());
    let x = net.linear("linear", &x, 1030, false).unwrap();
    let x = net.softmax("softmax", &x);
    check_and_say(&net.classify(&x, None));
}

/// More positions of a token than a block lists at once, and so many that an angle grows large.
#[test]
fn many_positions_of_a_token() {
    let mut net = Builder::new("positions", 1);
    let tokens = net.input("tokens", &[1, 2600], Initial::Classes(2));
    let (x, _) = net.embedding("embedding", &tokens, 3, 6);
    let x = net.rotary("rotary", &x, 6).unwrap();
    check_and_say(&net.segment(&x, None));
}

/// Attention of three samples of 6 heads.
fn attention(lengths: [usize; 2], key_heads: usize, causal: bool) -> Network {
    let (batch, heads, width, [queries, keys]) = (3, 6, 4, lengths);
    let mut net = Builder::new("attention", batch);
    let x = net.input("x", &[batch, queries, 5], Initial::normalised());
    let other = net.input("other", &[batch, keys, 5], Initial::normalised());
    let q = net.linear("q", &x, heads * width, false).unwrap();
    let k = net.linear("k", &other, key_heads * width, false).unwrap();
    let v = net.linear("v", &other, key_heads * width, false).unwrap();
    let x = net.attention("attention", [&q, &k, &v], heads, causal).unwrap();
    net.segment(&x, None)
}

/// Few launches, however many samples and heads there are, and none of them waits for another's
/// head.
#[test]
fn attention_is_a_handful_of_launches() {
    let network = attention([5, 5], 2, true);
    let launches = |op: &str, means| {
        let all = launches_of(&network, means).into_iter();
        all.filter(|(name, _)| name == op).map(|(_, all)| all.launches.len()).sum::<usize>()
    };
    assert_eq!(launches("attention", KERNELS), 3);
    assert_eq!(launches("attention.backward", KERNELS), 7);
    // cuBLAS has one distance between matrices: a call for each of 6 heads, or of those that share
    // keys.
    let with_blas = Means { blas: true, ..KERNELS };
    assert_eq!(launches("attention", with_blas), 2 * 6 + 1);
    assert_eq!(launches("attention.backward", with_blas), 5 * 6 + 2);
}

/// One head, three heads, one sample, two samples or everything at a time: scores fit twice in the
/// room, which is what the backward pass takes.
#[test]
fn attention_in_chunks() {
    for (lengths, key_heads, causal) in [
        ([7, 7], 2, true),
        ([5, 9], 6, false),
        ([6, 6], 6, true),
        ([4, 3], 1, true),
        ([3, 8], 3, true),
    ] {
        let network = attention(lengths, key_heads, causal);
        let square = (2 * 4 * lengths[0] * lengths[1]) as u64;
        for heads in [0, 3, 6, 12, 18] {
            let room = Bytes(heads * square);
            check_within(&network, room);
            let all = launches_of(&network, Means { scores: room, ..KERNELS });
            let (_, backward) =
                all.into_iter().find(|(name, _)| name == "attention.backward").unwrap();
            assert!(backward.scratch_bytes <= room.0.next_multiple_of(256));
            match heads {
                // In the workspace.
                0 => assert_eq!((backward.launches.len(), backward.scratch_bytes), (7 * 18, 0)),
                18 => assert_eq!(backward.launches.len(), 7),
                _ => assert!((14..=7 * 18).contains(&backward.launches.len())),
            }
        }
    }
}
