//! Changes inputs at random.

#[path = "protobuf.rs"]
pub mod protobuf;

use runtime::network::Random;
use serde_json::{Map, Number, Value};

/// What an input is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    /// A JSON value a line.
    Lines,
    /// Other text, in which figures are found by their digits.
    Text,
    /// Fields by number, some of which hold fields, as ONNX has them.
    Protobuf,
    Bytes,
}

const FIGURES: &str = "\
    0 1 -1 2 255 4095 65536 2147483647 2147483648 4294967295 4294967296 9007199254740993 \
    1000000000000000000 1152921504606846976 9223372036854775807 9223372036854775808 \
    18446744073709551615 18446744073709551616 -9223372036854775808 0.0 -0.0 1e-308 0.5 1e18 \
    1.7e308 1e999";

const WORDS: [&str; 8] =
    ["", "\u{1b}[31m\u{0}\u{7}\r\n", "\u{202e}\u{feff}é", "a", "-", "../../x", "zvc", "\u{10ffff}"];

fn any_figure(random: &mut Random) -> &'static str {
    let figures: Vec<&str> = FIGURES.split(' ').collect();
    figures[below(random, figures.len())]
}

fn below(random: &mut Random, count: usize) -> usize {
    (random.next() % count.max(1) as u64) as usize
}

/// One of the inputs, changed once or a few times.
pub fn mutated(form: Form, corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[below(random, corpus.len())].clone();
    let changes = 1 + below(random, 3) * below(random, 3);
    let structured = below(random, 8) > 0;
    for _ in 0..changes {
        input = match form {
            Form::Json if structured => json(&input, corpus, random).unwrap_or(input),
            Form::Lines if structured => lines(&input, random),
            Form::Text if structured => text(input, corpus, random),
            Form::Protobuf if structured => {
                let value = protobuf::parse(&input).unwrap_or_default();
                let mut bytes = Vec::new();
                protobuf::write(&changed(value, None, random), &mut bytes);
                bytes
            }
            _ => bytes(input, corpus, random),
        };
    }
    input
}

/// A place and a length of what is there, at most 64 mostly.
fn range(random: &mut Random, length: usize) -> std::ops::Range<usize> {
    let begin = below(random, length + 1);
    let most = if below(random, 8) == 0 { length } else { 64 };
    begin..(begin + below(random, most + 1)).min(length)
}

fn bytes(mut input: Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let at = below(random, input.len());
    match below(random, 9) {
        0 => input.truncate(at),
        1 => drop(input.drain(range(random, input.len()))),
        2 => {
            let piece = input[range(random, input.len())].to_vec();
            input.splice(at..at, piece);
        }
        3 => {
            let other = &corpus[below(random, corpus.len())];
            input.truncate(at);
            input.extend_from_slice(&other[below(random, other.len() + 1)..]);
        }
        4 => {
            let figure = any_figure(random).parse::<u64>().unwrap_or(u64::MAX);
            let width = [1, 2, 4, 8][below(random, 4)];
            let figure = figure.to_le_bytes();
            input.iter_mut().skip(at).zip(&figure[..width]).for_each(|(to, from)| *to = *from);
        }
        5 => {
            // As Parquet's lengths are.
            let mut varint = Vec::new();
            protobuf::varint(random.next() >> below(random, 64), &mut varint);
            let until = (at + below(random, 3)).min(input.len());
            input.splice(at..until, varint);
        }
        6 => input = text(input, corpus, random),
        _ => {
            for _ in 0..1 + below(random, 4) {
                let at = below(random, input.len());
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << below(random, 8);
                }
            }
        }
    }
    input
}

fn text(mut input: Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let is_figure = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let starts: Vec<usize> = (0..input.len())
        .filter(|at| is_figure(&input[*at]) && (*at == 0 || !is_figure(&input[at - 1])))
        .collect();
    match below(random, 6) {
        0..=2 if !starts.is_empty() => {
            let at = starts[below(random, starts.len())];
            let length = input[at..].iter().take_while(|byte| is_figure(byte)).count();
            let figure = any_figure(random);
            input.splice(at..at + length, figure.bytes());
            input
        }
        3 => {
            let mut lines: Vec<Vec<u8>> =
                input.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let other = &corpus[below(random, corpus.len())];
            let others: Vec<&[u8]> = other.split(|byte| *byte == b'\n').collect();
            let at = below(random, lines.len());
            match below(random, 4) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, others[below(random, others.len())].to_vec()),
                2 => {
                    let to = below(random, lines.len());
                    lines.swap(at, to);
                }
                _ => {
                    let line = lines[at].clone();
                    let times = 1 << below(random, 8);
                    lines.splice(at..at, std::iter::repeat_n(line, times));
                }
            }
            lines.join(&b'\n')
        }
        4 => {
            let at = below(random, input.len());
            let word = WORDS[below(random, WORDS.len())];
            input.splice(at..at, word.bytes());
            input
        }
        _ => {
            let open = [b"[".as_slice(), b"{", b"{a=", b"[["][below(random, 4)];
            let at = below(random, input.len());
            let nested = open.repeat(1 << below(random, 12));
            input.splice(at..at, nested);
            input
        }
    }
}

fn lines(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = input.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let at = below(random, lines.len());
    match below(random, 6) {
        0 => drop(lines.remove(at)),
        1 => {
            let to = below(random, lines.len());
            lines.swap(at, to);
        }
        2 => {
            let to = below(random, lines.len());
            let line = lines[at].clone();
            lines.insert(to, line);
        }
        _ => {
            let all = lines.clone();
            if let Some(line) = json(&lines[at], &all, random) {
                lines[at] = line;
            }
        }
    }
    lines.join(&b'\n')
}

/// Changes one of the values; none where it is no JSON.
fn json(input: &[u8], corpus: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(input).ok()?;
    // Mostly a value of the same document, at times one of another.
    let other = match below(random, 4) {
        0 => corpus.get(below(random, corpus.len())),
        _ => None,
    };
    let other = other.and_then(|other| serde_json::from_slice(other).ok());
    serde_json::to_vec(&changed(value, other, random)).ok()
}

/// With one of the values in it changed, perhaps to one of another value, or of itself.
fn changed(mut value: Value, other: Option<Value>, random: &mut Random) -> Value {
    let mut from = other.unwrap_or_else(|| value.clone());
    let mut at = below(random, count(&from));
    let donor = nth(&mut from, &mut at).map(|donor| donor.clone()).unwrap_or_default();
    let mut at = below(random, count(&value));
    if let Some(place) = nth(&mut value, &mut at) {
        change(place, donor, random);
    }
    value
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn nth<'v>(value: &'v mut Value, at: &mut usize) -> Option<&'v mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(values) => values.iter_mut().find_map(|value| nth(value, at)),
        Value::Object(fields) => fields.values_mut().find_map(|value| nth(value, at)),
        _ => None,
    }
}

fn change(value: &mut Value, donor: Value, random: &mut Random) {
    let rarely = below(random, 24);
    if rarely == 0 {
        let depth = 1 << below(random, 8);
        *value = (0..depth).fold(donor, |value, _| Value::Array(vec![value]));
        return;
    }
    match value {
        _ if rarely < 3 => *value = donor,
        Value::Number(number) => *value = figure(number, donor, random),
        Value::String(text) => match below(random, 4) {
            0 => *text = "a".repeat(1 << below(random, 17)),
            1 => text.insert_str(0, WORDS[below(random, WORDS.len())]),
            2 => *text = WORDS[below(random, WORDS.len())].into(),
            _ => *value = donor,
        },
        Value::Array(values) => array(values, donor, random),
        Value::Object(fields) => object(fields, donor, random),
        Value::Bool(is) => *is = !*is,
        Value::Null => *value = donor,
    }
}

fn figure(number: &Number, donor: Value, random: &mut Random) -> Value {
    let near = number.as_i64().unwrap_or(0);
    match below(random, 6) {
        0 => near.wrapping_add(1).into(),
        1 => near.wrapping_sub(1).into(),
        2 => near.wrapping_mul(1 << below(random, 40)).into(),
        3 => donor,
        _ => {
            let figure = any_figure(random);
            serde_json::from_str(figure).unwrap_or(Value::Null)
        }
    }
}

fn array(values: &mut Vec<Value>, donor: Value, random: &mut Random) {
    let at = below(random, values.len());
    match below(random, 6) {
        0 => values.clear(),
        1 if !values.is_empty() => drop(values.remove(at)),
        2 if !values.is_empty() => {
            let to = below(random, values.len());
            values.swap(at, to);
        }
        3 | 4 if !values.is_empty() => {
            let times = 1 << below(random, 8);
            let value = values[at].clone();
            values.splice(at..at, std::iter::repeat_n(value, times));
        }
        _ => values.push(donor),
    }
}

fn object(fields: &mut Map<String, Value>, donor: Value, random: &mut Random) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = names.get(below(random, names.len())).cloned().unwrap_or_default();
    match below(random, 4) {
        0 => drop(fields.remove(&name)),
        1 => drop(fields.insert(WORDS[below(random, WORDS.len())].into(), donor)),
        2 => drop(fields.insert(name, donor)),
        _ => {
            let other = names.get(below(random, names.len())).cloned().unwrap_or_default();
            let (Some(one), Some(two)) = (fields.remove(&name), fields.remove(&other)) else {
                return;
            };
            fields.insert(name, two);
            fields.insert(other, one);
        }
    }
}
