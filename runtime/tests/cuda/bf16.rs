//! Activations and gradients in 16 bits.

use codecs::kernels::Launch;
use runtime::network::Random;

use crate::device::opened;
use crate::emulator::Value;
use crate::inside::inside;
use crate::problem::{SEED, Subject};
use crate::{layers, networks};
use runtime::device::{Device, HostTensors};

/// Every 16 bits are widened to what they are, and floats of all kinds are rounded as the host
/// does.
#[test]
fn kernels_round_as_the_host() {
    let Some(mut emulator) = layers::emulator() else { return };
    let mut random = Random::new(9);
    // Every upper half, with lower halves before, at and behind the middle, and any.
    let floats: Vec<u32> = (0..1u32 << 16)
        .flat_map(|upper| {
            let any = random.next() as u32 & 0xffff;
            [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, any].map(|lower| upper << 16 | lower)
        })
        .collect();
    let count = floats.len();
    let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    let mut buffers = vec![bytes, vec![0; 2 * count], vec![0; 4 * count]];
    let launch = |kernel: &str, from, to| Launch {
        program: "bf16",
        kernel: kernel.into(),
        blocks: 3,
        threads: 256,
        arguments: vec![Value::Number(count as u64), Value::Buffer(from, 0), Value::Buffer(to, 0)],
    };
    emulator.run(1, &mut buffers, &[launch("narrow", 0, 1), launch("widen", 1, 2)]);
    let narrow = buffers[1].as_chunks::<2>().0;
    let wide = buffers[2].as_chunks::<4>().0;
    for ((float, narrow), wide) in floats.iter().zip(narrow).zip(wide) {
        let expected = half::bf16::from_f32(f32::from_bits(*float)).to_bits();
        assert_eq!(u16::from_le_bytes(*narrow), expected, "{float:#x}");
        assert_eq!(u32::from_le_bytes(*wide), u32::from(expected) << 16, "{float:#x}");
    }
}

/// Three numbers of 16 bits add up to a float, but for what is smaller than any of them.
#[test]
fn floats_are_taken_apart_exactly() {
    let Some(mut emulator) = layers::emulator() else { return };
    let mut random = Random::new(4);
    let floats: Vec<u32> = (0..1u32 << 16)
        .flat_map(|upper| {
            [0, 1, 0x8000, 0xffff, random.next() as u32 & 0xffff].map(|l| upper << 16 | l)
        })
        .collect();
    let (count, apart) = (floats.len(), floats.len().next_multiple_of(128));
    let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    let mut buffers = vec![bytes, vec![0xff; 6 * apart]];
    let launch = Launch {
        program: "bf16",
        kernel: "take_apart".into(),
        blocks: 3,
        threads: 256,
        arguments: vec![
            Value::Number(count as u64),
            Value::Number(apart as u64),
            Value::Buffer(0, 0),
            Value::Buffer(1, 0),
        ],
    };
    emulator.run(1, &mut buffers, &[launch]);
    let halves = buffers[1].as_chunks::<2>().0;
    for (index, float) in floats.iter().map(|bits| f32::from_bits(*bits)).enumerate() {
        let part = |part: usize| {
            let bits = u16::from_le_bytes(halves[part * apart + index]);
            f64::from(half::bf16::from_bits(bits).to_f32())
        };
        let (float, parts) = (f64::from(float), [0, 1, 2].map(part));
        let sum: f64 = parts.iter().sum();
        if !float.is_finite() {
            let [first, rest @ ..] = parts;
            assert!(first == float || (first.is_nan() && float.is_nan()), "{float}: {parts:?}");
            assert_eq!(rest, [0.0; 2], "{float}");
        } else if float.abs() >= 2f64.powi(-110) {
            assert_eq!(sum, float, "{parts:?}");
        } else {
            assert!((sum - float).abs() <= 2f64.powi(-133), "{float}: {parts:?}");
        }
    }
}

/// An iteration leaves what it leaves on the host, to the digits that 16 bits have.
#[test]
fn an_iteration_in_16_bits_is_the_hosts() {
    let Some(()) = inside(&[], &[]) else { return };
    an_iteration_is_the_hosts();
}

/// The same by cuBLAS, where a device has units for it: for all products, for some, and for none.
#[test]
fn products_of_16_bits_are_the_hosts() {
    for capability in ["90", "86", "75"] {
        if inside(&["libcublas.so"], &[("TIDEGATE_CAPABILITY", capability)]).is_some() {
            return an_iteration_is_the_hosts();
        }
    }
}

fn an_iteration_is_the_hosts() {
    for name in ["vgg", "transformer"] {
        let subject = Subject::new(networks::small(name).in_bf16());
        let network = &subject.network;
        let plan = subject.plan("in-core", 130, false, None);
        let mut host = HostTensors::new(network, SEED);
        host.iterate().unwrap();
        let mut device = opened(&subject, &plan);
        device.run().unwrap();
        for buffer in plan.buffers.iter().filter(|buffer| buffer.at_end) {
            let Some(tensor) = buffer.tensor else { continue };
            let expected = &host.tensors[tensor.index()];
            let mut found = vec![0.0; expected.len()];
            device.read(tensor, &mut found).unwrap();
            let norm = |all: &mut dyn Iterator<Item = f32>| {
                all.filter(|value| value.is_finite())
                    .map(|value| f64::from(value).powi(2))
                    .sum::<f64>()
                    .sqrt()
            };
            let apart = norm(&mut expected.iter().zip(&found).map(|(a, b)| a - b));
            let size = norm(&mut expected.iter().copied());
            let about = &network.tensor(tensor).name;
            assert!(apart <= 0.02 * size, "{name}, {about}: {apart} of {size}");
        }
    }
}
