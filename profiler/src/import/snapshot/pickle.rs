//! Python's pickle as far as it is data: dictionaries, lists, tuples, sets, texts, bytes and numbers of
//! protocols 2 to 5. What would import or call something is refused by name before anything is done.

use std::collections::HashMap;

/// A value in a [`Pickle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(u32);

#[derive(Debug)]
enum Value {
    /// None, floats, bytes and whole numbers beyond 64 bits: nothing here needs them.
    Other,
    Whole(i64),
    Text(String),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

/// All values of a pickle. They name each other by number, so that what is shared is there once and
/// what contains itself does no harm.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<Value>,
    pub root: Id,
}

impl Pickle {
    pub fn list(&self, id: Id) -> &[Id] {
        match &self.values[id.0 as usize] {
            Value::List(list) => list,
            _ => &[],
        }
    }

    pub fn text(&self, id: Id) -> Option<&str> {
        match &self.values[id.0 as usize] {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number of a dictionary.
    pub fn whole(&self, dict: Id, key: &str) -> Option<i64> {
        match self.values[self.get(dict, key)?.0 as usize] {
            Value::Whole(whole) => Some(whole),
            _ => None,
        }
    }

    /// What a dictionary has under a text.
    pub fn get(&self, dict: Id, key: &str) -> Option<Id> {
        let Value::Dict(pairs) = &self.values[dict.0 as usize] else { return None };
        // Of two with one key, the later counts. No dictionary that matters has more entries.
        let found = pairs.iter().rev().take(64).find(|(name, _)| self.text(*name) == Some(key));
        found.map(|(_, value)| *value)
    }

    /// Reads a pickle; what is wrong is said with its place.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut machine = Machine {
            bytes,
            at: 0,
            values: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        };
        loop {
            let place = machine.at;
            match machine.step() {
                Ok(None) => {}
                Ok(Some(root)) => return Ok(Self { values: machine.values, root }),
                Err(problem) => return Err(format!("byte {place}: {problem}")),
            }
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    /// Where on the stack each mark lies.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

/// The opcodes that name, make or call something.
fn runs_code(code: u8) -> Option<&'static str> {
    Some(match code {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => return None,
    })
}

const CUT: &str = "it ends in the middle: copy or record it again";
const EMPTY: &str = "an opcode takes what is not there: copy or record it again";

impl Machine<'_> {
    fn take(&mut self, count: u64) -> Result<&[u8], String> {
        let rest = &self.bytes[self.at..];
        let count = usize::try_from(count).ok().filter(|count| *count <= rest.len()).ok_or(CUT)?;
        self.at += count;
        Ok(&rest[..count])
    }

    /// A little-endian number of so many bytes.
    fn number(&mut self, count: u64) -> Result<u64, String> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').ok_or(CUT)?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(line)
    }

    fn push(&mut self, value: Value) {
        // A pickle has fewer values than bytes, and files are far below 2^32 of these.
        let id = Id(self.values.len() as u32);
        self.values.push(value);
        self.stack.push(id);
    }

    fn pop(&mut self) -> Result<Id, String> {
        // What lies under a mark is not the opcode's to take.
        let least = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= least {
            return Err(EMPTY.into());
        }
        self.stack.pop().ok_or_else(|| EMPTY.into())
    }

    fn until_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or(EMPTY)?;
        Ok(self.stack.split_off(mark))
    }

    fn text(&mut self, count: u64) -> Result<(), String> {
        let text = String::from_utf8_lossy(self.take(count)?).into_owned();
        self.push(Value::Text(text));
        Ok(())
    }

    fn long(&mut self, count: u64) -> Result<(), String> {
        let bytes = self.take(count)?;
        let fill = if bytes.last().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
        let mut whole = [fill; 8];
        let fits = bytes.len() <= 8 || bytes[8..].iter().all(|byte| *byte == fill);
        let low = bytes.len().min(8);
        whole[..low].copy_from_slice(&bytes[..low]);
        self.push(if fits { Value::Whole(i64::from_le_bytes(whole)) } else { Value::Other });
        Ok(())
    }

    fn extend(&mut self, items: Vec<Id>) -> Result<(), String> {
        let list = *self.stack.last().ok_or(EMPTY)?;
        match &mut self.values[list.0 as usize] {
            Value::List(list) => list.extend(items),
            _ => return Err("it appends to what is no list: record it again".into()),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> Result<(), String> {
        let dict = *self.stack.last().ok_or(EMPTY)?;
        let pairs = items.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        match &mut self.values[dict.0 as usize] {
            Value::Dict(dict) => dict.extend(pairs),
            _ => return Err("it sets an entry of what is no dictionary: record it again".into()),
        }
        Ok(())
    }

    fn tuple(&mut self, count: usize) -> Result<(), String> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.push(Value::List(items));
        Ok(())
    }

    fn remember(&mut self, key: u64) -> Result<(), String> {
        let top = *self.stack.last().ok_or(EMPTY)?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, key: u64) -> Result<(), String> {
        let found = self.memo.get(&key).copied();
        self.stack.push(found.ok_or("it recalls what it never stored: record it again")?);
        Ok(())
    }

    /// Carries out one opcode; the value where it was the last.
    fn step(&mut self) -> Result<Option<Id>, String> {
        let code = self.take(1)?[0];
        if let Some(name) = runs_code(code) {
            return Err(format!(
                "opcode {name} would run code, which no memory snapshot needs: do not trust this file"
            ));
        }
        match code {
            0x80 => match self.number(1)? {
                2..=5 => {}
                other => return Err(format!("protocol {other} is not 2 to 5: record it again")),
            },
            // How much is in a frame does not matter.
            0x95 => drop(self.number(8)?),
            b'.' => return self.pop().map(Some),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.marks.last() {
                Some(mark) if *mark == self.stack.len() => drop(self.marks.pop()),
                _ => drop(self.pop()?),
            },
            b'1' => drop(self.until_mark()?),
            b'2' => {
                let top = self.pop()?;
                self.stack.extend([top, top]);
            }
            b'N' => self.push(Value::Other),
            0x88 => self.push(Value::Whole(1)),
            0x89 => self.push(Value::Whole(0)),
            b'J' => {
                let number = self.number(4)? as u32;
                self.push(Value::Whole(i64::from(number as i32)));
            }
            b'K' | b'M' => {
                let number = self.number(if code == b'K' { 1 } else { 2 })?;
                self.push(Value::Whole(number as i64));
            }
            0x8a | 0x8b => {
                let count = self.number(if code == 0x8a { 1 } else { 4 })?;
                self.long(count)?;
            }
            b'I' | b'L' => {
                let line = self.line()?;
                let whole = line.trim_end_matches('L').parse();
                self.push(whole.map_or(Value::Other, Value::Whole));
            }
            b'F' => {
                self.line()?;
                self.push(Value::Other);
            }
            b'G' => {
                self.take(8)?;
                self.push(Value::Other);
            }
            b'X' | b'T' | 0x8c | b'U' | 0x8d => {
                let width = match code {
                    b'X' | b'T' => 4,
                    0x8d => 8,
                    _ => 1,
                };
                let count = self.number(width)?;
                self.text(count)?;
            }
            b'C' | b'B' | 0x8e | 0x96 => {
                let width = match code {
                    b'C' => 1,
                    b'B' => 4,
                    _ => 8,
                };
                let count = self.number(width)?;
                self.take(count)?;
                self.push(Value::Other);
            }
            b']' | b')' | 0x8f => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.until_mark()?;
                self.extend(items)?;
            }
            b'l' | b't' | 0x91 => {
                let items = self.until_mark()?;
                self.push(Value::List(items));
            }
            0x85..=0x87 => self.tuple(usize::from(code - 0x84))?,
            b'd' => {
                let items = self.until_mark()?;
                self.push(Value::Dict(Vec::new()));
                self.set(&items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.until_mark()?;
                self.set(&items)?;
            }
            b'q' | b'r' => {
                let key = self.number(if code == b'q' { 1 } else { 4 })?;
                self.remember(key)?;
            }
            0x94 => self.remember(self.memo.len() as u64)?,
            b'h' | b'j' => {
                let key = self.number(if code == b'h' { 1 } else { 4 })?;
                self.recall(key)?;
            }
            b'p' | b'g' => {
                let key = self.line()?.parse().map_err(|_| "a damaged number: record it again")?;
                if code == b'p' { self.remember(key)? } else { self.recall(key)? }
            }
            other => {
                return Err(format!(
                    "{other:#04x} is no opcode of pickle: copy or record it again"
                ));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_opcode_that_runs_code_is_refused_by_name() {
        let refused: Vec<String> = (0..=u8::MAX)
            .filter(|code| runs_code(*code).is_some())
            .map(|code| Pickle::read(&[0x80, 4, code, b'.']).expect_err("it would run code"))
            .collect();
        assert_eq!(refused.len(), 15);
        for problem in refused {
            assert!(problem.starts_with("byte 2: opcode ") && problem.contains("would run code"));
        }
    }

    #[test]
    fn what_is_no_pickle_is_refused_with_its_place() {
        let cases: [&[u8]; 9] =
            [b"", b"\x80\x04", b"\x80\x09.", b"e.", b"]K\x01s.", b"K", b"h\x07.", b"(.", b"\xff"];
        let refused = cases.map(|bytes| Pickle::read(bytes).expect_err("it is damaged"));
        insta::assert_snapshot!(refused.join("\n"));
    }

    #[test]
    fn a_list_may_hold_itself() {
        let pickle = Pickle::read(b"\x80\x04]\x94h\x00a.").expect("a list");
        assert_eq!(pickle.list(pickle.root), [pickle.root]);
    }
}
