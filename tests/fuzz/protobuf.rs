//! Protocol buffers as fields, whatever they mean.

use runtime::network::Random;

use super::{FIGURES, WORDS, below};

/// What a field holds.
#[derive(Clone)]
enum Held {
    Number(u64),
    Fields(Vec<Field>),
    Bytes(Vec<u8>),
}

#[derive(Clone)]
struct Field {
    number: u64,
    held: Held,
}

/// Writes a number, seven bits a byte.
pub fn varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The fields that these bytes are; none where they are no fields.
fn parse(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = read_varint(&mut bytes)?;
        let held = match tag & 7 {
            0 => Held::Number(read_varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                let (piece, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                match parse(piece).filter(|fields| !fields.is_empty()) {
                    Some(fields) => Held::Fields(fields),
                    None => Held::Bytes(piece.to_vec()),
                }
            }
            _ => return None,
        };
        fields.push(Field { number: tag >> 3, held });
    }
    Some(fields)
}

fn write(fields: &[Field], to: &mut Vec<u8>) {
    for Field { number, held } in fields {
        let piece = match held {
            Held::Number(held) => {
                varint(number << 3, to);
                varint(*held, to);
                continue;
            }
            Held::Bytes(bytes) => bytes.clone(),
            Held::Fields(fields) => {
                let mut piece = Vec::new();
                write(fields, &mut piece);
                piece
            }
        };
        varint(number << 3 | 2, to);
        varint(piece.len() as u64, to);
        to.extend_from_slice(&piece);
    }
}

/// With one field changed, moved, doubled or left out.
pub fn mutated(input: &[u8], random: &mut Random) -> Vec<u8> {
    let Some(mut fields) = parse(input) else { return input.to_vec() };
    let mut at = below(random, count(&fields));
    let donor = nth(&mut fields, &mut at).map(|(list, at)| list[at].clone());
    let mut at = below(random, count(&fields));
    if let (Some((list, at)), Some(donor)) = (nth(&mut fields, &mut at), donor) {
        change(list, at, donor, random);
    }
    let mut bytes = Vec::new();
    write(&fields, &mut bytes);
    bytes
}

fn change(list: &mut Vec<Field>, at: usize, donor: Field, random: &mut Random) {
    match below(random, 10) {
        0 => drop(list.remove(at)),
        1 => {
            let times = 1 << below(random, 8);
            let field = list[at].clone();
            list.splice(at..at, std::iter::repeat_n(field, times));
        }
        2 => {
            let to = below(random, list.len());
            list.swap(at, to);
        }
        3 => list[at].held = donor.held,
        4 => list.insert(at, donor),
        _ => match &mut list[at].held {
            Held::Number(number) if below(random, 2) == 0 => {
                *number = number.wrapping_add(below(random, 9) as u64).wrapping_sub(4);
            }
            Held::Number(number) => {
                let figure = FIGURES[below(random, FIGURES.len())];
                *number = figure.parse::<i128>().unwrap_or(-1) as u64;
            }
            held @ Held::Bytes(_) if below(random, 2) == 0 => *held = donor.held,
            Held::Bytes(bytes) => match below(random, 2) {
                0 => *bytes = WORDS[below(random, WORDS.len())].into(),
                _ => {
                    let at = below(random, bytes.len());
                    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next() as u8);
                }
            },
            Held::Fields(fields) => fields.push(donor),
        },
    }
}

fn count(fields: &[Field]) -> usize {
    let of = |field: &Field| match &field.held {
        Held::Fields(fields) => 1 + count(fields),
        _ => 1,
    };
    fields.iter().map(of).sum()
}

/// The list that holds a field, counted through all of them, and its place there.
fn nth<'f>(fields: &'f mut Vec<Field>, at: &mut usize) -> Option<(&'f mut Vec<Field>, usize)> {
    for place in 0..fields.len() {
        if *at == 0 {
            return Some((fields, place));
        }
        *at -= 1;
        let inner = match &fields[place].held {
            Held::Fields(inner) => count(inner),
            _ => 0,
        };
        if *at < inner {
            return match &mut fields[place].held {
                Held::Fields(inner) => nth(inner, at),
                _ => None,
            };
        }
        *at -= inner;
    }
    None
}
