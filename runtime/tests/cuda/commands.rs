//! Whole iterations as a CUDA device is told them, carried out on the emulator: kernels, copies and
//! order, in orders that streams may take.

use std::collections::{BTreeMap, BTreeSet};

use codecs::kernels::Launch;
use planner::methods::by_name;
use runtime::cuda::commands::{At, Command, CommandError, Commands, Control, OnHost, Shares};
use runtime::cuda::launches::{Argument, Means};
use runtime::network::{Network, Random};
use schema::{ActionId, Bytes, Direction, Lane, Plan, Task, TensorId, Trace};
use simulator::HappensBefore;

use crate::emulator::{Emulator, Value};
use crate::problem::{SEED, machine, planned, trace, zfp, zvc};
use crate::reference::{bits, seed_of};
use crate::{layers, networks};

const SHARES: Shares = Shares { layers: Means::kernels(16), codecs: 3 };

/// A device that is none.
struct Emulated<'a> {
    emulator: Emulator,
    network: &'a Network,
    plan: &'a Plan,
    commands: Commands,
    /// Arena, host arena, control, and the scratch memory of each lane.
    buffers: Vec<Vec<u8>>,
    iterations: u64,
    random: Random,
}

impl<'a> Emulated<'a> {
    fn new(network: &'a Network, plan: &'a Plan) -> Option<Self> {
        let commands = Commands::new(plan, network, SHARES, &BTreeSet::new()).unwrap();
        let sizes = [plan.budget.0, plan.host_budget.0.min(1 << 24), commands.control_bytes];
        let sizes = sizes.into_iter().chain(commands.scratch);
        // Nothing that is not written first is a number.
        let buffers = sizes.map(|bytes| vec![0xff; bytes as usize]).collect();
        let mut device = Self {
            emulator: layers::emulator()?,
            network,
            plan,
            commands,
            buffers,
            iterations: 0,
            random: Random::new(plan.actions.len() as u64),
        };
        for buffer in plan.buffers.iter().filter(|buffer| buffer.at_start) {
            let Some(tensor) = buffer.tensor else { continue };
            let mut cells = vec![0.0; network.tensor(tensor).elements];
            network.initialise(tensor, SEED, &mut cells);
            device.store(buffer.address, &cells);
        }
        Some(device)
    }

    fn store(&mut self, address: u64, cells: &[f32]) {
        let bytes = cells.iter().flat_map(|cell| cell.to_le_bytes());
        let place = self.buffers[0][address as usize..].iter_mut();
        place.zip(bytes).for_each(|(to, byte)| *to = byte);
    }

    fn cells(&self, address: u64, bytes: Bytes) -> Vec<f32> {
        let bytes = &self.buffers[0][address as usize..][..bytes.0 as usize];
        bytes.as_chunks::<4>().0.iter().map(|cell| f32::from_le_bytes(*cell)).collect()
    }

    /// The actions in some order that streams may take: each lane in order, nothing before what it
    /// waits for has ended.
    fn order(&mut self) -> Vec<usize> {
        let issues = &self.commands.issues;
        let mut queues: [Vec<usize>; Lane::COUNT] = Default::default();
        (0..issues.len()).rev().for_each(|index| queues[issues[index].lane.index()].push(index));
        let mut ended = vec![false; issues.len()];
        let mut order = Vec::new();
        while order.len() < issues.len() {
            let lane = (self.random.next() % Lane::COUNT as u64) as usize;
            let ready = |index: &&usize| issues[**index].waits.iter().all(|on| ended[on.index()]);
            if let Some(&index) = queues[lane].last().filter(ready) {
                queues[lane].pop();
                ended[index] = true;
                order.push(index);
            }
        }
        order
    }

    /// Runs an iteration and returns how often a compressed form did not fit.
    fn iterate(&mut self) -> u64 {
        if let Some((tensor, cells)) = seed_of(self.network, SEED, self.iterations) {
            let is_it = |b: &&schema::Buffer| b.at_start && b.tensor == Some(tensor);
            let buffer = self.plan.buffers.iter().find(is_it).unwrap();
            self.store(buffer.address, &cells);
        }
        self.buffers[2].fill(0xaa);
        self.buffers[2][..8].fill(0xff);
        self.buffers[2][8..16].fill(0);
        let order = self.order();
        let commands = order.iter().flat_map(|index| &self.commands.issues[*index].commands);
        let launches: Vec<_> = commands.map(launch).collect();
        self.emulator.run(self.random.next(), &mut self.buffers, &launches);
        let number = |at: usize| u64::from_le_bytes(*self.buffers[2][at..].first_chunk().unwrap());
        assert_eq!(number(Control::STATUS as usize), u64::MAX);
        self.iterations += 1;
        number(Control::FALLBACKS as usize)
    }

    /// What is there after an iteration, which constants begin the next one with.
    fn outcome(&mut self) -> BTreeMap<TensorId, Vec<u32>> {
        let mut all = BTreeMap::new();
        for buffer in self.plan.buffers.iter().filter(|buffer| buffer.at_end) {
            let Some(tensor) = buffer.tensor else { continue };
            all.insert(tensor, bits(&self.cells(buffer.address, buffer.bytes)));
        }
        for buffer in self.plan.buffers.iter().filter(|buffer| buffer.at_start) {
            if let Some(cells) = buffer.tensor.and_then(|tensor| all.get(&tensor)) {
                let cells: Vec<f32> = cells.iter().map(|bits| f32::from_bits(*bits)).collect();
                self.store(buffer.address, &cells);
            }
        }
        all
    }
}

fn value(argument: &Argument<At>) -> Value {
    match *argument {
        Argument::Address(at, more) => match at {
            At::Arena(at) => Value::Buffer(0, at + more),
            At::Host(at) => Value::Buffer(1, at + more),
            At::Control(at) => Value::Buffer(2, at + more),
            At::Scratch(lane, at) => Value::Buffer(3 + lane.index(), at + more),
        },
        Argument::Nothing => Value::Number(0),
        Argument::Status => Value::Buffer(2, Control::STATUS),
        Argument::Number(number) => Value::Number(number),
    }
}

fn launch(command: &Command) -> Launch<Value> {
    match command {
        Command::Launch(launch) => Launch {
            program: launch.program,
            kernel: launch.kernel.clone(),
            blocks: launch.blocks,
            threads: launch.threads,
            arguments: launch.arguments.iter().map(value).collect(),
        },
        Command::ByHost(_) => panic!("no host works here: see the tests of the device"),
        Command::Copy { direction, device, host, bytes } => {
            let OnHost::Arena(host) = *host else { panic!("no host works here") };
            let (device, host) = (Value::Buffer(0, *device), Value::Buffer(1, host));
            let [to, from] = match direction {
                Direction::D2h => [host, device],
                Direction::H2d => [device, host],
            };
            let arguments = vec![to, from, Value::Number(*bytes)];
            Launch { program: "copy", kernel: "bytes".into(), blocks: 1, threads: 32, arguments }
        }
    }
}

const ITERATIONS: u64 = 2;

/// Plans of these methods leave the bits that the plan leaves which keeps everything. Returns how
/// often compressed forms did not fit.
fn check(network: &Network, trace: &Trace, methods: &[(&str, u64, bool)]) -> Option<u64> {
    let whole = planned(trace, &machine(false), "in-core", 105, None);
    let mut in_core = Emulated::new(network, &whole)?;
    let expected: Vec<_> = (0..ITERATIONS)
        .map(|_| {
            in_core.iterate();
            in_core.outcome()
        })
        .collect();
    let mut fallbacks = 0;
    for &(method, percent, codec_lane) in methods {
        let models = zvc(0);
        let codecs = by_name(method).unwrap().needs_codecs().then_some(&models);
        let plan = planned(trace, &machine(codec_lane), method, percent, codecs);
        let moved = |task: &Task| !matches!(task, Task::Run(_));
        assert!(plan.actions.iter().any(|action| moved(&action.task)), "{method} keeps everything");
        let mut device = Emulated::new(network, &plan)?;
        for expected in &expected {
            fallbacks += device.iterate();
            let outcome = device.outcome();
            for (tensor, expected) in expected {
                let name = &network.tensor(*tensor).name;
                assert!(outcome[tensor] == *expected, "{}, {method}: {name}", network.name);
            }
        }
    }
    Some(fallbacks)
}

#[test]
fn plans_of_a_chain_leave_the_same_bits() {
    let network = networks::small("vgg");
    let methods = [
        ("swap-all", 60, false),
        ("superneurons", 70, false),
        ("sqrt-n", 80, false),
        ("tide", 60, false),
    ];
    check(&network, &trace(&network), &methods);
}

#[test]
fn plans_that_compress_leave_the_same_bits() {
    let network = networks::small("vgg");
    let methods = [("cswap", 70, true), ("cswap+", 70, false), ("sc", 70, true)];
    let mut trace = trace(&network);
    check(&network, &trace, &methods);
    // Told of more zeros than there are, plans reserve too little for some.
    for tensor in &mut trace.tensors {
        tensor.sparsity = tensor.sparsity.map(|share| (share * 1.6).min(0.95));
    }
    if let Some(fallbacks) = check(&network, &trace, &methods) {
        assert!(fallbacks > 0);
    }
}

#[test]
fn plans_of_a_residual_network_leave_the_same_bits() {
    let network = networks::small("resnet");
    check(&network, &trace(&network), &[("pooch", 70, false), ("tide", 60, true)]);
}

#[test]
fn plans_of_a_network_that_joins_branches_leave_the_same_bits() {
    let network = networks::small("unet");
    check(&network, &trace(&network), &[("tide", 60, false)]);
}

#[test]
fn plans_of_a_decoder_leave_the_same_bits() {
    let network = networks::small("transformer");
    check(&network, &trace(&network), &[("capuchin", 80, false), ("tide", 70, false)]);
}

/// Fixed rates lose something, and the rest goes on with it.
#[test]
fn a_plan_with_zfp_comes_to_its_end() {
    let network = networks::small("vgg");
    let trace = trace(&network);
    let plan = planned(&trace, &machine(true), "cswap+", 70, Some(&zfp()));
    assert!(plan.actions.iter().any(|action| matches!(action.task, Task::Compress(_))));
    let Some(mut device) = Emulated::new(&network, &plan) else { return };
    device.iterate();
    let outcome = device.outcome();
    let loss = f32::from_bits(outcome[&network.loss().unwrap()][0]);
    assert!(loss.is_finite() && loss > 0.0, "{loss}");
}

/// What streams wait for orders all that the plan orders, and nothing is waited for twice.
#[test]
fn waits_order_what_the_plan_orders() {
    let network = networks::small("vgg");
    let trace = trace(&network);
    for (method, percent, codec_lane) in
        [("swap-all", 60, false), ("tide", 70, true), ("cswap", 70, true)]
    {
        let models = zvc(300);
        let codecs = by_name(method).unwrap().needs_codecs().then_some(&models);
        let plan = planned(&trace, &machine(codec_lane), method, percent, codecs);
        let commands = Commands::new(&plan, &network, SHARES, &BTreeSet::new()).unwrap();
        let mut order = HappensBefore::default();
        for issue in &commands.issues {
            let known = |on: &ActionId, order: &HappensBefore| {
                let before = &commands.issues[..issue.action.index()];
                let own = before.iter().rev().find(|other| other.lane == issue.lane);
                own.is_some_and(|own| order.ends_before(*on, own.action))
            };
            for on in &issue.waits {
                assert_ne!(commands.issues[on.index()].lane, issue.lane, "{method}");
                assert!(!known(on, &order), "{method}: {} knows of {on}", issue.action);
            }
            order.push(issue.lane, &issue.waits);
        }
        for (index, action) in plan.actions.iter().enumerate() {
            let action_id = ActionId::from_index(index);
            for on in action.after.iter().chain(&action.not_before) {
                assert!(order.ends_before(*on, action_id), "{method}: {on} before {action_id}");
            }
        }
        let events: usize = commands.issues.iter().map(|issue| issue.waits.len()).sum();
        let edges: usize = plan.actions.iter().map(|action| action.after.len()).sum();
        eprintln!("{method}: {events} waits between streams for {edges} edges");
    }
}

#[test]
fn what_has_no_kernel_is_refused_before_anything_starts() {
    let network = networks::small("vgg");
    let trace = trace(&network);
    let mut models = zvc(300);
    models.models[0].codec = "lz4".into();
    let plan = planned(&trace, &machine(true), "cswap", 70, Some(&models));
    let error = Commands::new(&plan, &network, SHARES, &BTreeSet::new())
        .expect_err("lz4 compresses on the host");
    assert!(matches!(&error, CommandError::Codec { codec, .. } if codec.codec == "lz4"), "{error}");
}
