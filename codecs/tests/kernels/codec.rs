//! A codec's kernels on the emulator.

use codecs::kernels::{self, Argument, Launches, Program};
use codecs::{CodecId, Error, Layout};

use crate::emulator::{Emulator, Value};

/// The program of this name, running; nothing where there is no compiler.
pub fn program(name: &str) -> Option<Emulator> {
    let named = |program: &&Program| program.name() == name;
    Emulator::new(&[*kernels::programs().iter().find(named).expect("there is one")])
}

/// What a kernel leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    pub target: Vec<u8>,
    /// The payload's length.
    pub length: u64,
    /// What could not be taken, if anything.
    pub status: Option<u64>,
}

/// How a run differs that must not matter.
#[derive(Debug, Clone, Copy)]
pub struct Chance {
    /// Order of threads.
    pub seed: u64,
    /// Blocks of threads at most.
    pub blocks: u32,
}

pub fn compress(
    emulator: &mut Emulator,
    id: CodecId,
    layout: &Layout,
    input: &[u8],
    chance: Chance,
) -> Result<Left, Error> {
    let room = codecs::codec(id)?.worst_case(layout);
    let launches = kernels::compress(id, layout, chance.blocks)?;
    Ok(run(emulator, &launches, input, room, u64::MAX - 1, chance))
}

pub fn decompress(
    emulator: &mut Emulator,
    id: CodecId,
    layout: &Layout,
    payload: &[u8],
    chance: Chance,
) -> Result<Left, Error> {
    let launches = kernels::decompress(id, layout, chance.blocks)?;
    Ok(run(emulator, &launches, payload, layout.bytes(), payload.len() as u64, chance))
}

fn run(
    emulator: &mut Emulator,
    launches: &Launches,
    source: &[u8],
    room: usize,
    length: u64,
    chance: Chance,
) -> Left {
    // Poison where something is to be written, of another kind with each seed.
    let poison = (chance.seed as u8).wrapping_mul(37) ^ 0xc3;
    let mut buffers = [
        source.to_vec(),
        vec![poison; room],
        length.to_le_bytes().to_vec(),
        u64::MAX.to_le_bytes().to_vec(),
        vec![poison; launches.scratch_bytes as usize],
    ];
    let value = |argument: &Argument| match *argument {
        Argument::Source => Value::Buffer(0, 0),
        Argument::Target => Value::Buffer(1, 0),
        Argument::Length => Value::Buffer(2, 0),
        Argument::Status => Value::Buffer(3, 0),
        Argument::Scratch(at) => Value::Buffer(4, at),
        Argument::Number(number) => Value::Number(number),
    };
    let launches: Vec<_> = launches.launches.iter().map(|launch| launch.map(value)).collect();
    emulator.run(chance.seed, &mut buffers, &launches);
    let [_, target, length, status, _] = buffers;
    let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().unwrap());
    let status = number(&status);
    Left { target, length: number(&length), status: (status != u64::MAX).then_some(status) }
}
