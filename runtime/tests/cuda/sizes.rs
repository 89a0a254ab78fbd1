//! Layers of sizes at which kernels cut their work into parts, against the host's layers.

use networks::layer::Compute;
use networks::{Optimizer, Window};
use runtime::cuda::launches::Means;
use runtime::network::Network;
use schema::Bytes;

use crate::layers::{KERNELS, check_and_say, check_within, launches_of};
use crate::models::{built, each};

/// A norm of so many images, channels and cells of a plane, a convolution with a bias, and a loss
/// of each element.
fn images(shape: &[u64; 4]) -> Network {
    built("images", shape[0] as u32, Optimizer::None, |net| {
        let x = net.input("input", &shape[1..])?;
        let x = net.batch_norm("norm", x)?;
        let x = net.convolution("bias", x, 2, Window::square(1, 1, 0), 1, true)?;
        each(net, x)
    })
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
fn rows(rows: u32, inputs: u64, classes: u64) -> Network {
    built("rows", rows, Optimizer::None, |net| {
        let x = net.input("input", &[inputs])?;
        let x = net.row_norm("norm", x, true)?;
        net.linear("bias", x, classes, true)
    })
}

#[test]
fn rows_in_parts_and_rows_of_blocks() {
    // Many rows, long rows, many classes, one class, all at once in little.
    for (count, inputs, classes) in
        [(4200, 5, 3), (3, 1100, 1), (5, 3, 1500), (1, 2, 1), (67, 33, 65)]
    {
        let network = rows(count, inputs, classes);
        check_and_say(&network);
        check_and_say(&network.in_bf16());
    }
}

#[test]
fn softmax_of_long_rows() {
    let network = built("softmax", 3, Optimizer::None, |net| {
        let x = net.input("input", &[7])?;
        let x = net.linear("linear", x, 1030, false)?;
        net.same("softmax", x, Compute::Softmax)
    });
    check_and_say(&network);
}

/// More positions of a token than a block lists at once, and so many that an angle grows large.
#[test]
fn many_positions_of_a_token() {
    let network = built("positions", 1, Optimizer::None, |net| {
        let tokens = net.input("tokens", &[2600])?;
        let x = net.embedding("embedding", tokens, 3, 6)?;
        let x = net.rotary("rotary", x, 6)?;
        each(net, x)
    });
    check_and_say(&network);
}

/// Attention of three samples of 6 heads.
fn attention(lengths: [u64; 2], key_heads: u64, causal: bool) -> Network {
    let (heads, width, [queries, keys]) = (6, 4, lengths);
    built("attention", 3, Optimizer::None, |net| {
        let x = net.input("x", &[queries, 5])?;
        let other = net.input("other", &[keys, 5])?;
        let q = net.linear("q", x, heads * width, false)?;
        let k = net.linear("k", other, key_heads * width, false)?;
        let v = net.linear("v", other, key_heads * width, false)?;
        let x = net.attention("attention", [q, k, v], heads, width, causal)?;
        each(net, x)
    })
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
        let square = 2 * 4 * lengths[0] * lengths[1];
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
