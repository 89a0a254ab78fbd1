//! A machine that carries a plan out, without bits: what it keeps says what it stands for.

use schema::{CodecId, Lane};

use crate::codec;
use crate::memory::{Content, Form, Memory, Value};
use crate::prepared::{Does, Ends, Fills, Prepared, Read};
use crate::random::Random;
use crate::timing::Timing;
use crate::wrong::{Rule, Wrong};

/// How often data does worse than was reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants name the fields")]
pub enum Fallback {
    Never,
    /// With each codec whose size varies, each time.
    Always,
    /// With the compressions whose place in the plan has this bit so.
    ByBit {
        bit: u32,
        is_set: bool,
    },
    /// Each time anew, in half of all cases.
    Drawn,
}

/// A machine for one plan, which runs it any number of times.
#[derive(Debug)]
pub struct Machine<'p> {
    prepared: &'p Prepared<'p>,
    device: Memory,
    host: Memory,
    /// What the action that runs on each lane took along from where it reads.
    carried: [Option<Value>; Lane::COUNT],
    /// Whether the data of the compression on each lane does worse.
    falls_back: [bool; Lane::COUNT],
    ended: Vec<bool>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stand {
    next: usize,
    doing: Doing,
    at: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Nothing,
    /// Its next action may start, and will.
    Starting,
    Running,
}

impl<'p> Machine<'p> {
    /// A machine for a plan.
    pub fn new(prepared: &'p Prepared<'p>) -> Self {
        Self {
            prepared,
            device: prepared.device_memory(),
            host: prepared.host_memory(),
            carried: [None; Lane::COUNT],
            falls_back: [false; Lane::COUNT],
            ended: vec![false; prepared.actions.len()],
        }
    }

    /// Runs the plan under a timing. Returns how many actions it ran.
    ///
    /// # Errors
    /// Where an action reads, at any moment from its start to its end, anything but what its place
    /// in the trace wants, or something else is there when the iteration ends than should be.
    pub fn run(
        &mut self,
        timing: &mut Timing,
        fallback: Fallback,
        random: &mut Random,
    ) -> Result<usize, Wrong> {
        let plan = self.prepared.plan;
        self.begin()?;
        self.ended.fill(false);
        let mut stands = [Stand::default(); Lane::COUNT];
        let (mut now, mut done) = (0, 0);
        loop {
            for (lane, stand) in stands.iter_mut().enumerate() {
                let Some(&action) = self.prepared.lanes[lane].get(stand.next) else { continue };
                let after = &plan.actions[action as usize].after;
                if stand.doing == Doing::Nothing && after.iter().all(|on| self.ended[on.index()]) {
                    stand.doing = Doing::Starting;
                    stand.at = now + timing.delay(lane, random);
                }
            }
            let Some(lane) = first(&stands, random) else { break };
            let stand = &mut stands[lane];
            let action = self.prepared.lanes[lane][stand.next] as usize;
            now = stand.at;
            if stand.doing == Doing::Starting {
                self.start(action, fallback, random)?;
                stand.doing = Doing::Running;
                stand.at = now + timing.duration(lane, plan.actions[action].duration.0, random);
            } else {
                self.end(action)?;
                self.ended[action] = true;
                *stand = Stand { next: stand.next + 1, ..Stand::default() };
                done += 1;
            }
        }
        match done == plan.actions.len() {
            true => self.finish().map(|()| done),
            false => Err(Wrong::of(Rule::EachOpOnce, "some actions wait for ever")),
        }
    }

    /// Runs the plan one action after another, in the list's order.
    pub(crate) fn run_in_order(&mut self, fallback: Fallback) -> Result<(), Wrong> {
        let mut random = Random::new(0);
        self.begin()?;
        for action in 0..self.prepared.actions.len() {
            self.start(action, fallback, &mut random)?;
            self.end(action)?;
        }
        self.finish()
    }

    /// What exists before the iteration is filled in.
    fn begin(&mut self) -> Result<(), Wrong> {
        let buffers = &self.prepared.plan.buffers;
        self.device.clear();
        self.host.clear();
        let at_start = || buffers.iter().enumerate().filter(|(_, b)| b.at_start);
        for (id, buffer) in at_start() {
            self.device.begin(id);
            let Some(tensor) = buffer.tensor else { continue };
            // What an op makes is not there before, nor has a codec run.
            let is_constant = self.prepared.wanted.tensors[tensor.index()].is_constant;
            if is_constant && buffer.compressed.is_none() {
                let value =
                    Value { tensor: tensor.0, version: 0, form: Form::Raw, is_lossy: false };
                self.device.set(id, Content::Whole(value));
            }
        }
        let hosts = &self.prepared.plan.host_buffers;
        let there = || hosts.iter().enumerate().filter(|(_, host)| host.at_start);
        for (id, host) in there() {
            self.host.begin(id);
            let tensor = host.tensor.0;
            let value = Value { tensor, version: 0, form: Form::Raw, is_lossy: false };
            self.host.set(id, Content::Whole(value));
        }
        let on_device = at_start().find(|(id, _)| !self.device.is_intact(*id));
        let on_host = there().find(|(id, _)| !self.host.is_intact(*id));
        match on_device
            .map(|(id, _)| ("buffers", id))
            .or(on_host.map(|(id, _)| ("host_buffers", id)))
        {
            Some((list, id)) => {
                let what = format!("{list}[{id}] and another begin filled at one address");
                Err(Wrong::of(Rule::Overwritten, what))
            }
            None => Ok(()),
        }
    }

    fn start(
        &mut self,
        action: usize,
        fallback: Fallback,
        random: &mut Random,
    ) -> Result<(), Wrong> {
        let prepared = self.prepared;
        let Self { device, host, .. } = self;
        let (does, lane) = (prepared.actions[action].does, prepared.actions[action].lane);
        let mut carried = None;
        for read in prepared.reads_of(action) {
            carried = Some(begin_read(device, read, action, "buffer")?);
        }
        for read in prepared.there_of(action) {
            let value = begin_read(host, read, action, "host buffer")?;
            if value.form != Form::Raw {
                return Err(Wrong::at(Rule::Form, action, "it reads another form on the host"));
            }
        }
        let mut falls_back = false;
        match does {
            Does::Op | Does::There => {}
            Does::D2h { host: to } => {
                let value = carried.expect("a copy out reads a buffer");
                if let Form::FellBack { .. } = value.form {
                    // There is nothing of it to copy.
                } else {
                    host.begin(to);
                }
            }
            Does::H2d { host: from } => {
                carried = Some(whole(host, from, action, "host buffer")?);
            }
            Does::Compress { fallback: to, .. } => {
                falls_back = match fallback {
                    Fallback::Never => false,
                    Fallback::Always => true,
                    Fallback::ByBit { bit, is_set } => (action >> bit & 1 == 1) == is_set,
                    Fallback::Drawn => random.one_in(2),
                };
                falls_back &= to.is_some();
                if let Some(to) = to.filter(|_| falls_back) {
                    host.begin(to);
                }
            }
            Does::Decompress { fallback: from, .. } => {
                let small = carried.expect("a decompression reads a buffer");
                if let (Form::FellBack { .. }, Some(from)) = (small.form, from) {
                    carried = Some(whole(host, from, action, "host buffer")?);
                }
            }
        }
        for write in prepared.writes_of(action) {
            device.begin(write.buffer);
        }
        // What an output lies over is gone, and nothing else of what is read.
        for read in prepared.reads_of(action) {
            if let Ends::Replaced { by } = read.ends
                && !device.is_taken_by(read.buffer, by)
            {
                let what = format!("more than one output lies over buffer {}", read.buffer);
                return Err(Wrong::at(Rule::Overwritten, action, what));
            }
        }
        self.carried[lane] = carried;
        self.falls_back[lane] = falls_back;
        Ok(())
    }

    fn end(&mut self, action: usize) -> Result<(), Wrong> {
        let prepared = self.prepared;
        let lane = prepared.actions[action].lane;
        let (carried, falls_back) = (self.carried[lane], self.falls_back[lane]);
        for read in prepared.reads_of(action) {
            match read.ends {
                Ends::Replaced { .. } => {}
                Ends::Changed => end_change(&mut self.device, read.buffer, action, "buffer")?,
                Ends::AsItWas => {
                    let value = whole(&self.device, read.buffer, action, "buffer")?;
                    let is_op = prepared.actions[action].does == Does::Op;
                    let is_same = match read.version {
                        Some(version) => value.version == version,
                        None => is_op || carried == Some(value),
                    };
                    if !is_same {
                        let what = format!("buffer {} changes meanwhile", read.buffer);
                        return Err(Wrong::at(Rule::ChangedBeside, action, what));
                    }
                }
            }
        }
        for read in prepared.there_of(action) {
            if read.ends == Ends::Changed {
                end_change(&mut self.host, read.buffer, action, "host buffer")?;
                continue;
            }
            let value = whole(&self.host, read.buffer, action, "host buffer")?;
            if read.version.is_some_and(|version| version != value.version) {
                let what = format!("host buffer {} changes meanwhile", read.buffer);
                return Err(Wrong::at(Rule::ChangedBeside, action, what));
            }
        }
        let made = match prepared.actions[action].does {
            Does::Op | Does::There => None,
            Does::D2h { host } => self.end_copy_out(action, host, carried)?,
            Does::H2d { host } => Some(self.end_copy_in(action, host, carried)?),
            Does::Compress { codec, fallback } => {
                Some(self.end_compression(action, codec, fallback, falls_back, carried)?)
            }
            Does::Decompress { codec, fallback } => {
                Some(self.end_decompression(action, codec, fallback, carried)?)
            }
        };
        for write in prepared.writes_of(action) {
            if !self.device.is_intact(write.buffer) {
                return Err(lost(action, "buffer", write.buffer));
            }
            let content = match (write.fills, made) {
                (Fills::Output, _) => {
                    let tensor = prepared.plan.buffers[write.buffer].tensor;
                    let tensor = tensor.expect("an output is a tensor").0;
                    let form = Form::Raw;
                    Content::Whole(Value { tensor, version: 0, form, is_lossy: false })
                }
                (Fills::Carried, Some(value)) => Content::Whole(value),
                _ => Content::Nothing,
            };
            self.device.set(write.buffer, content);
        }
        Ok(())
    }

    fn end_copy_out(
        &mut self,
        action: usize,
        host: usize,
        carried: Option<Value>,
    ) -> Result<Option<Value>, Wrong> {
        let value = carried.expect("a copy out reads a buffer");
        let buffer = &self.prepared.plan.host_buffers[host];
        let form = match (value.form, buffer.compressed) {
            (Form::FellBack { .. }, _) => return Ok(None),
            (Form::Raw, None) => Form::Raw,
            (Form::Raw, Some(CodecId(codec))) => Form::Packed { codec },
            (Form::Small { codec, bytes }, Some(label)) if label.0 == codec => {
                if buffer.bytes.0 < bytes {
                    let what = format!("host buffer {host} has less than {bytes} bytes");
                    return Err(Wrong::at(Rule::Size, action, what));
                }
                value.form
            }
            _ => {
                let what = format!("host buffer {host} is for another form");
                return Err(Wrong::at(Rule::Form, action, what));
            }
        };
        if !self.host.is_intact(host) {
            return Err(lost(action, "host buffer", host));
        }
        let packs_lossily = match form {
            Form::Packed { codec } => self.prepared.codecs[codec as usize].is_lossy,
            _ => false,
        };
        let is_lossy = value.is_lossy || packs_lossily;
        self.host.set(host, Content::Whole(Value { form, is_lossy, ..value }));
        Ok(None)
    }

    fn end_copy_in(
        &mut self,
        action: usize,
        host: usize,
        carried: Option<Value>,
    ) -> Result<Value, Wrong> {
        let value = whole(&self.host, host, action, "host buffer")?;
        if carried != Some(value) {
            return Err(lost(action, "host buffer", host));
        }
        let to = self.prepared.writes_of(action)[0].buffer;
        let buffer = &self.prepared.plan.buffers[to];
        let form = match (value.form, buffer.compressed) {
            (Form::Raw | Form::Packed { .. }, None) => Form::Raw,
            (Form::Small { codec, bytes }, Some(label)) if label.0 == codec => {
                if buffer.bytes.0 < bytes {
                    let what = format!("buffer {to} has less than {bytes} bytes");
                    return Err(Wrong::at(Rule::Size, action, what));
                }
                value.form
            }
            (Form::FellBack { codec }, Some(label)) if label.0 == codec => value.form,
            _ => {
                let what = format!("buffer {to} is for another form");
                return Err(Wrong::at(Rule::Form, action, what));
            }
        };
        Ok(Value { form, ..value })
    }

    /// The compressed form, or in its stead the tensor itself on the host.
    fn end_compression(
        &mut self,
        action: usize,
        codec: u32,
        fallback: Option<usize>,
        falls_back: bool,
        carried: Option<Value>,
    ) -> Result<Value, Wrong> {
        let value = carried.expect("a compression reads a buffer");
        if let Some(host) = fallback.filter(|_| falls_back) {
            if !self.host.is_intact(host) {
                return Err(lost(action, "host buffer", host));
            }
            let value = Value { form: Form::FellBack { codec }, ..value };
            self.host.set(host, Content::Whole(value));
            return Ok(value);
        }
        let plan = self.prepared.plan;
        let storage = &self.prepared.wanted.tensors[value.tensor as usize];
        let fixed =
            codec::fixed_bytes(&plan.codecs[codec as usize], storage.bytes, storage.element);
        let to = self.prepared.writes_of(action)[0].buffer;
        let bytes = fixed.unwrap_or(plan.buffers[to].bytes.0);
        let is_lossy = value.is_lossy || self.prepared.codecs[codec as usize].is_lossy;
        Ok(Value { form: Form::Small { codec, bytes }, is_lossy, ..value })
    }

    fn end_decompression(
        &mut self,
        action: usize,
        codec: u32,
        fallback: Option<usize>,
        carried: Option<Value>,
    ) -> Result<Value, Wrong> {
        let value = carried.expect("a decompression reads a buffer");
        match value.form {
            Form::Small { codec: made_by, .. } if made_by == codec => {}
            Form::FellBack { codec: made_by } if made_by == codec => {
                let host = fallback.expect("only what varies falls back");
                let there = whole(&self.host, host, action, "host buffer")?;
                if there != value {
                    return Err(lost(action, "host buffer", host));
                }
            }
            _ => return Err(Wrong::at(Rule::Form, action, "it finds another form")),
        }
        Ok(Value { form: Form::Raw, ..value })
    }

    /// What must be there at the end is, in its last version.
    fn finish(&self) -> Result<(), Wrong> {
        let plan = self.prepared.plan;
        let on_device = plan.buffers.iter().enumerate().filter(|(_, buffer)| buffer.at_end);
        let on_device = on_device
            .filter_map(|(id, buffer)| Some((buffer.tensor?, "buffers", &self.device, id)));
        let on_host = plan.host_buffers.iter().enumerate().filter(|(_, host)| host.at_end);
        let on_host = on_host.map(|(id, host)| (host.tensor, "host_buffers", &self.host, id));
        for (tensor, list, memory, id) in on_device.chain(on_host) {
            let storage = &self.prepared.wanted.tensors[tensor.index()];
            let is_good = match memory.content(id) {
                Content::Whole(value) => {
                    value.version == storage.last_version
                        && !(storage.is_constant && value.is_lossy)
                        && (list == "buffers" || value.form == Form::Raw)
                }
                _ => false,
            };
            if !is_good || !memory.is_intact(id) {
                let what = format!("{list}[{id}] does not have what {tensor} is at the end");
                return Err(Wrong::of(Rule::End, what));
            }
        }
        Ok(())
    }
}

/// What an op or a copy reads, as it starts. What it changes is nobody else's until it ends.
fn begin_read(memory: &mut Memory, read: &Read, action: usize, what: &str) -> Result<Value, Wrong> {
    let value = whole(memory, read.buffer, action, what)?;
    if read.version.is_some_and(|version| version != value.version) {
        let (is, wants) = (value.version, read.version.unwrap_or_default());
        let what = format!("{what} {} has version {is}, {wants} is wanted", read.buffer);
        return Err(Wrong::at(Rule::Version, action, what));
    }
    if read.ends == Ends::Changed {
        if value.is_lossy {
            let what = format!("{what} {} changes after a lossy codec", read.buffer);
            return Err(Wrong::at(Rule::End, action, what));
        }
        memory.set(read.buffer, Content::Changing(value));
    }
    Ok(value)
}

/// What an op has changed is there in its next version.
fn end_change(memory: &mut Memory, buffer: usize, action: usize, what: &str) -> Result<(), Wrong> {
    let Content::Changing(value) = memory.content(buffer) else {
        unreachable!("only the op that changes a buffer says that it is done");
    };
    if !memory.is_intact(buffer) {
        return Err(lost(action, what, buffer));
    }
    memory.set(buffer, Content::Whole(Value { version: value.version + 1, ..value }));
    Ok(())
}

/// The lane that goes on first; any of them where several do at once.
fn first(stands: &[Stand; Lane::COUNT], random: &mut Random) -> Option<usize> {
    let from = random.next() as usize;
    let lanes = (0..Lane::COUNT).map(|lane| (lane.wrapping_add(from)) % Lane::COUNT);
    lanes.filter(|lane| stands[*lane].doing != Doing::Nothing).min_by_key(|lane| stands[*lane].at)
}

/// What a buffer holds, if all of it is there.
fn whole(memory: &Memory, buffer: usize, action: usize, what: &str) -> Result<Value, Wrong> {
    match memory.content(buffer) {
        Content::Nothing => {
            Err(Wrong::at(Rule::ReadTooEarly, action, format!("{what} {buffer} has nothing yet")))
        }
        _ if !memory.is_intact(buffer) => Err(lost(action, what, buffer)),
        Content::Whole(value) => Ok(value),
        Content::Changing(_) => {
            Err(Wrong::at(Rule::ChangedBeside, action, format!("{what} {buffer} is changing")))
        }
    }
}

fn lost(action: usize, what: &str, buffer: usize) -> Wrong {
    Wrong::at(Rule::Overwritten, action, format!("{what} {buffer} is overwritten"))
}
