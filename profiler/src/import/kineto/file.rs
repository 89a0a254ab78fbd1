//! The events of a profiler's file, in the spellings of PyTorch 1.8 to 2.9.

use std::collections::HashMap;
use std::fmt;

use networks::Operand;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::import::json::{Scalar, element_bytes};

/// What matters of a file. Times are in nanoseconds.
#[derive(Default)]
pub(in crate::import) struct File {
    /// The devices' names, by number.
    pub devices: Vec<String>,
    pub ranks: Option<(u64, u64)>,
    /// Ops and annotations of the processor's threads.
    pub spans: Vec<Span>,
    /// What ran on the device.
    pub kernels: Vec<Kernel>,
    /// Thread and time of each launch, by correlation.
    pub launches: HashMap<u64, (u32, i64)>,
    pub memory: Vec<Memory>,
    /// Begins and ends of arrows from forward to backward ops: number, thread, time.
    arrows: Vec<(i64, u32, i64)>,
    /// Events without what they need.
    pub malformed: u64,
    texts: HashMap<String, u32>,
    names: Vec<String>,
    /// Lists of arguments, each once.
    pub operands: Vec<Vec<Operand>>,
    known_operands: HashMap<Vec<Operand>, u32>,
}

pub(in crate::import) struct Span {
    pub name: u32,
    pub thread: u32,
    pub start: i64,
    pub end: i64,
    /// The number that launches know it by.
    pub external: Option<u64>,
    /// The number that execution traces know it by.
    pub function: Option<u64>,
    /// Autograd's number of a forward op and its backward node.
    pub sequence: Option<i64>,
    /// Whether it is a mark of the user's rather than an op, where the file tells them apart.
    pub annotation: bool,
    /// Tensors among its inputs; none where shapes were not recorded.
    pub inputs: Box<[Input]>,
    /// Its arguments, as a place in [`File::operands`].
    pub operands: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) struct Input {
    pub bytes: u64,
    /// The same for tensors of the same element type and the same sizes, transposed or not.
    pub shape: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Work {
    Kernel,
    HostCopy,
    DeviceCopy,
    Fill,
}

pub(in crate::import) struct Kernel {
    pub name: u32,
    pub work: Work,
    pub start: i64,
    pub duration: u64,
    pub correlation: Option<u64>,
    pub external: Option<u64>,
    pub stream: Option<i64>,
}

/// An allocation or, with negative bytes, a free.
pub(in crate::import) struct Memory {
    pub thread: u32,
    pub time: i64,
    pub bytes: i64,
    pub address: Option<u64>,
    /// The device's number; the host's is negative.
    pub device: i64,
    pub allocated: Option<u64>,
    pub reserved: Option<u64>,
}

impl File {
    /// Reads a file. Its text is walked once, and an event is kept in a few words.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let parse = |bytes: &[u8]| -> Result<Self, serde_json::Error> {
            let mut file = Self::default();
            let mut text = serde_json::Deserializer::from_slice(bytes);
            TopLevel(&mut file).deserialize(&mut text)?;
            text.end()?;
            file.number_by_arrows();
            Ok(file)
        };
        match parse(bytes) {
            // Some versions write bandwidths of copies that took no time so, which is no JSON.
            Err(why) if !why.is_eof() => match without_infinities(bytes) {
                Some(bytes) => parse(&bytes),
                None => Err(why),
            },
            read => read,
        }
    }

    /// Where ops carry no numbers of autograd's, the arrows between them do.
    fn number_by_arrows(&mut self) {
        if self.spans.iter().any(|span| span.sequence.is_some()) {
            return;
        }
        let ends = self.arrows.iter().map(|(number, thread, time)| ((*thread, *time), *number));
        let ends: HashMap<(u32, i64), i64> = ends.collect();
        for span in &mut self.spans {
            span.sequence = ends.get(&(span.thread, span.start)).copied();
        }
    }

    pub fn name(&self, id: u32) -> &str {
        &self.names[id as usize]
    }

    fn intern(&mut self, text: &str) -> u32 {
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        let id = self.names.len() as u32;
        self.names.push(text.to_string());
        self.texts.insert(text.to_string(), id);
        id
    }

    fn thread(&mut self, event: &Event) -> u32 {
        let text = |scalar: &Scalar| match scalar.whole() {
            Some(whole) => whole.to_string(),
            None => scalar.text().to_string(),
        };
        self.intern(&format!("{}/{}", text(&event.pid), text(&event.tid)))
    }

    fn add(&mut self, event: Event) {
        let category = event.cat.text().to_ascii_lowercase();
        let phase = event.ph.text();
        let whole = || Some((event.ts.micros()?, event.dur.micros().filter(|dur| *dur >= 0)?));
        match (phase, category.as_str()) {
            ("X", "cpu_op" | "operator" | "user_annotation" | "cpu_instant_event") => match whole()
            {
                Some((start, duration)) => {
                    let span = Span {
                        name: self.intern(event.name.text()),
                        thread: self.thread(&event),
                        start,
                        end: start + duration,
                        external: event.args.external,
                        function: event.args.function,
                        sequence: event.args.sequence,
                        annotation: category == "user_annotation",
                        inputs: self.inputs(&event.args),
                        operands: self.operands(&event.args),
                    };
                    self.spans.push(span);
                }
                None => self.malformed += 1,
            },
            (
                "X",
                "kernel" | "concurrent_kernel" | "gpu_memcpy" | "memcpy" | "gpu_memset" | "memset",
            ) => {
                let name = event.name.text();
                let work = match category.as_str() {
                    "gpu_memset" | "memset" => Work::Fill,
                    "gpu_memcpy" | "memcpy" if name.contains("DtoD") => Work::DeviceCopy,
                    "gpu_memcpy" | "memcpy" => Work::HostCopy,
                    _ => Work::Kernel,
                };
                match whole() {
                    Some((start, duration)) => {
                        let name = self.intern(name);
                        let Args { correlation, external, stream, .. } = event.args;
                        self.kernels.push(Kernel {
                            name,
                            work,
                            start,
                            duration: duration.unsigned_abs(),
                            correlation,
                            external,
                            stream,
                        });
                    }
                    None => self.malformed += 1,
                }
            }
            ("X", kind) if kind.contains("runtime") || kind.contains("driver") => {
                if let (Some(time), Some(correlation)) = (event.ts.micros(), event.args.correlation)
                {
                    let thread = self.thread(&event);
                    self.launches.insert(correlation, (thread, time));
                }
            }
            // The arrow of a launch, where the launch itself was not recorded.
            ("s", "ac2g" | "async" | "async_cpu_to_gpu" | "async_gpu") => {
                if let (Some(time), Some(id)) = (event.ts.micros(), event.id.natural()) {
                    let thread = self.thread(&event);
                    self.launches.entry(id).or_insert((thread, time));
                }
            }
            ("s" | "f", "fwdbwd" | "forward_backward") => {
                if let (Some(time), Some(id)) = (event.ts.micros(), event.id.whole()) {
                    let thread = self.thread(&event);
                    self.arrows.push((id, thread, time));
                }
            }
            ("i" | "I", _) if event.name.text() == "[memory]" => {
                let Args { bytes, device_type, device_id, address, allocated, reserved, .. } =
                    event.args;
                match (event.ts.micros(), bytes) {
                    (Some(time), Some(bytes)) if bytes.unsigned_abs() < 1 << 60 => {
                        let thread = self.thread(&event);
                        // Type 0 is the host.
                        let host = device_type.unwrap_or(0) == 0;
                        let device = if host { -1 } else { device_id.unwrap_or(0).max(0) };
                        self.memory.push(Memory {
                            thread,
                            time,
                            bytes,
                            address,
                            device,
                            allocated,
                            reserved,
                        });
                    }
                    _ => self.malformed += 1,
                }
            }
            _ => {}
        }
    }

    fn operands(&mut self, args: &Args) -> u32 {
        let operand = |(index, dims): (usize, &Dims)| {
            let kind = args.types.get(index).map(Scalar::text);
            let width = match kind {
                Some("TensorList") | None => 4,
                Some(name) => element_bytes(name).unwrap_or(0),
            };
            let shape = |shape: &[i64]| -> Vec<u64> {
                shape.iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).collect()
            };
            match dims {
                Dims::Tensor(of) if !of.is_empty() => Operand::tensor(&shape(of), width),
                Dims::Tensors(all) => Operand::list(all.iter().map(|of| shape(of)), width),
                _ if kind == Some("TensorList") => Operand::list(std::iter::empty(), width),
                _ => Operand::default(),
            }
        };
        let operands: Vec<Operand> = args.dims.iter().enumerate().map(operand).collect();
        if let Some(known) = self.known_operands.get(&operands) {
            return *known;
        }
        let place = self.operands.len() as u32;
        self.known_operands.insert(operands.clone(), place);
        self.operands.push(operands);
        place
    }

    fn inputs(&mut self, args: &Args) -> Box<[Input]> {
        let mut inputs = Vec::new();
        for (index, dims) in args.dims.iter().enumerate() {
            let dtype = args.types.get(index).map(Scalar::text);
            for shape in dims.tensors() {
                let element = match dtype {
                    Some("TensorList") => 4,
                    Some(name) => match element_bytes(name) {
                        Some(bytes) => bytes,
                        None => continue,
                    },
                    // Without types, what has sizes is a tensor.
                    None if shape.is_empty() => continue,
                    None => 4,
                };
                let bytes = shape.iter().try_fold(element, |product, size| {
                    product.checked_mul(u64::try_from(*size).ok()?)
                });
                let Some(bytes) = bytes.filter(|bytes| (1..1 << 60).contains(bytes)) else {
                    continue;
                };
                let mut sizes = shape.to_vec();
                sizes.sort_unstable();
                let shape = self.intern(&format!("{element} {sizes:?}"));
                inputs.push((Input { bytes, shape }, sizes.is_empty()));
            }
        }
        // Numbers come as tensors without dimensions.
        if inputs.iter().any(|(_, is_number)| !is_number) {
            inputs.retain(|(_, is_number)| !is_number);
        }
        inputs.into_iter().map(|(input, _)| input).collect()
    }
}

/// The text with zeros in place of `inf` and `nan`, as long as it was; none where it has neither.
fn without_infinities(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut cleaned: Option<Vec<u8>> = None;
    let (mut in_text, mut at) = (false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            b'i' | b'I' | b'n' | b'N' | b'-' if !in_text => {
                let word = |byte: &&u8| byte.is_ascii_alphabetic() || **byte == b'-';
                let length = bytes[at..].iter().take_while(word).count();
                let word = bytes[at..at + length].to_ascii_lowercase();
                if matches!(
                    &word[..],
                    b"inf" | b"-inf" | b"nan" | b"-nan" | b"infinity" | b"-infinity"
                ) {
                    let cleaned = cleaned.get_or_insert_with(|| bytes.to_vec());
                    cleaned[at..at + length].fill(b' ');
                    cleaned[at] = b'0';
                }
                at += length.max(1) - 1;
            }
            _ => {}
        }
        at += 1;
    }
    cleaned
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Event {
    ph: Scalar,
    cat: Scalar,
    name: Scalar,
    pid: Scalar,
    tid: Scalar,
    ts: Scalar,
    dur: Scalar,
    id: Scalar,
    args: Args,
}

/// The sizes of one input: of a tensor, or of a list of tensors.
#[derive(Deserialize)]
#[serde(untagged)]
enum Dims {
    Tensor(Vec<i64>),
    Tensors(Vec<Vec<i64>>),
    Other(IgnoredAny),
}

impl Dims {
    fn tensors(&self) -> impl Iterator<Item = &[i64]> {
        let (one, many) = match self {
            Self::Tensor(shape) => (Some(shape.as_slice()), [].as_slice()),
            Self::Tensors(shapes) => (None, shapes.as_slice()),
            Self::Other(_) => (None, [].as_slice()),
        };
        one.into_iter().chain(many.iter().map(Vec::as_slice))
    }
}

#[derive(Default)]
struct Args {
    external: Option<u64>,
    correlation: Option<u64>,
    function: Option<u64>,
    sequence: Option<i64>,
    stream: Option<i64>,
    dims: Vec<Dims>,
    types: Vec<Scalar>,
    bytes: Option<i64>,
    address: Option<u64>,
    device_type: Option<i64>,
    device_id: Option<i64>,
    allocated: Option<u64>,
    reserved: Option<u64>,
}

/// A list, or nothing where something else stands.
#[derive(Deserialize)]
#[serde(untagged)]
enum List<T> {
    Of(Vec<T>),
    Other(IgnoredAny),
}

impl<T> From<List<T>> for Vec<T> {
    fn from(list: List<T>) -> Self {
        match list {
            List::Of(list) => list,
            List::Other(_) => Self::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsArgs;
        impl<'de> Visitor<'de> for AsArgs {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of arguments")
            }

            fn visit_unit<E>(self) -> Result<Args, E> {
                Ok(Args::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = Args::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.to_ascii_lowercase().as_str() {
                        "input dims" => args.dims = map.next_value::<List<Dims>>()?.into(),
                        "input type" | "input types" => {
                            args.types = map.next_value::<List<Scalar>>()?.into();
                        }
                        key => args.set(key, &map.next_value()?),
                    }
                }
                Ok(args)
            }
        }
        deserializer.deserialize_any(AsArgs)
    }
}

impl Args {
    fn set(&mut self, key: &str, value: &Scalar) {
        match key {
            "external id" => self.external = value.natural(),
            "correlation" => self.correlation = value.natural(),
            "record function id" => self.function = value.natural(),
            "sequence number" => self.sequence = value.whole().filter(|number| *number >= 0),
            "stream" => self.stream = value.whole(),
            "bytes" => self.bytes = value.whole(),
            "addr" => self.address = value.natural(),
            "device type" => self.device_type = value.whole(),
            "device id" => self.device_id = value.whole(),
            "total allocated" => self.allocated = value.natural(),
            "total reserved" => self.reserved = value.natural(),
            _ => {}
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    name: Scalar,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Distributed {
    rank: Scalar,
    world_size: Scalar,
}

struct TopLevel<'a>(&'a mut File);

impl<'de> DeserializeSeed<'de> for TopLevel<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object that PyTorch's profiler writes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => map.next_value_seed(Events(self.0))?,
                "deviceProperties" => {
                    let devices: Vec<Properties> = map.next_value::<List<Properties>>()?.into();
                    self.0.devices =
                        devices.iter().map(|device| device.name.text().to_string()).collect();
                }
                "distributedInfo" => {
                    let Distributed { rank, world_size } = map.next_value()?;
                    self.0.ranks = rank.natural().zip(world_size.natural());
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Events<'a>(&'a mut File);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element::<Event>()? {
            self.0.add(event);
        }
        Ok(())
    }
}
