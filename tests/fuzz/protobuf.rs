//! Protocol buffers as values, whatever they mean: a list of `[number, held]`, where what is held is a
//! number, a list of fields, or bytes, a character each.

use serde_json::Value;

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
pub fn parse(mut bytes: &[u8]) -> Option<Value> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = read_varint(&mut bytes)?;
        let held = match tag & 7 {
            0 => read_varint(&mut bytes)?.into(),
            2 => {
                let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                let (piece, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                let text = || piece.iter().copied().map(char::from).collect::<String>();
                let fields = parse(piece).filter(|_| !piece.is_empty());
                fields.unwrap_or_else(|| text().into())
            }
            _ => return None,
        };
        fields.push(Value::Array(vec![(tag >> 3).into(), held]));
    }
    Some(fields.into())
}

/// The bytes of fields that may have been changed in any way: what is none is left out, and what is too
/// large goes on from zero.
pub fn write(fields: &Value, to: &mut Vec<u8>) {
    for field in fields.as_array().into_iter().flatten() {
        let Some([number, held]) = field.as_array().map(Vec::as_slice) else { continue };
        let number = integer(number);
        let mut piece = Vec::new();
        match held {
            Value::Number(_) => {
                varint(number << 3, to);
                varint(integer(held), to);
                continue;
            }
            Value::String(text) => piece.extend(text.chars().map(|byte| byte as u8)),
            fields => write(fields, &mut piece),
        }
        varint(number << 3 | 2, to);
        varint(piece.len() as u64, to);
        to.extend_from_slice(&piece);
    }
}

fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| value.as_f64().unwrap_or(-1.0) as i64 as u64)
}
