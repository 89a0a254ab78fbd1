//! The time of an op by the roofline of its device, and the trace that results.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schema::{
    Compute as DeviceCompute, Document, Machine, Nanos, NetworkOptions, Op, OpKind, Origin,
    Provenance, Role, Shard, Trace,
};
use serde::{Deserialize, Serialize};

use super::accumulate::accumulated;
use super::band::{Arithmetic, Band};
use super::class::{Class, Pass};
use super::conventions::Conventions;
use super::error::NetworkError;
use super::layer::Network;
use super::ranks::Ranks;
use super::sparsity::of_layers;
use super::tape::{Measured, Tape};
use super::work::{self, Costs, ProductExtents, Units, Work};

/// What share of a device's peak figures a class of ops reaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiency {
    /// Of its operations per second.
    pub compute: f64,
    /// Of its memory's bandwidth.
    pub bandwidth: f64,
    /// How many launches an op takes beside.
    #[serde(default = "one")]
    pub kernels: f64,
    /// Where both figures come from.
    pub source: String,
}

fn one() -> f64 {
    1.0
}

/// What share of a device's peak figures ops reach, and what each costs beside.
///
/// The model: an op takes a launch for each kernel and the larger of its arithmetic and its traffic,
/// `max(flops / (compute · busy · peak), bytes / (bandwidth · peak))`, with the class's shares `compute` and
/// `bandwidth` (Williams et al., *Roofline*, CACM 2009); `busy` says what of the arithmetic units a product
/// keeps busy. Of a product of `m x k` and `k x n` that is, at the best number `s` of cuts of its sum,
/// `(w / ceil(w))^waves · (k/s) / (k/s + half_depth) · (min(m, n, 128) / 128)^sides`, with `w` tiles of
/// 128 x 128 for each multiprocessor; of a convolution, as the product that it is,
/// `k / (k + convolution_half_depth) · (min(m, n, 128) / 128)^convolution_sides`. One of 3x3 with a step of one may
/// go Winograd's way where a device has matrix units, but none for 32 bits (of Volta's and Turing's generations): a
/// quarter of that and the traffic of transforms in kernels of their own (tiles of 4x4, rounded up to whole ones), or,
/// but for the parameters' gradient, by 2.25 less in one kernel (tiles of 2x2). Libraries take what is fastest; with units
/// for TF32, kernels of 32 bits are mostly those of implicit products again. Where a machine
/// states what a large product or element-wise op reaches, the peaks are those at which these take just that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiencies {
    /// Time of a kernel that has nothing to do.
    pub launch_ns: u64,
    /// What the host takes to launch an op: an iteration takes no less for each of its ops.
    #[serde(default)]
    pub dispatch_ns: u64,
    /// Terms of a sum at which products reach half of their efficiency.
    pub half_depth: f64,
    /// The same of convolutions, for which libraries choose tiles of many sizes.
    #[serde(default)]
    pub convolution_half_depth: f64,
    /// The same of products on matrix units, which want operands faster.
    #[serde(default)]
    pub unit_half_depth: f64,
    /// Exponent of the share of the last wave of tiles that is work.
    #[serde(default)]
    pub waves: f64,
    /// Exponent of the share of a tile that the result fills.
    #[serde(default)]
    pub sides: f64,
    /// The same of a convolution's, for which libraries have narrower tiles.
    #[serde(default)]
    pub convolution_sides: f64,
    /// What share of traffic the cache of a device spares an op whose operands fit.
    #[serde(default)]
    pub cached: f64,
    /// What the gradients of convolutions of 32-bit floats, but those of 3x3, reach of their share where a
    /// device has matrix units for these: libraries tune their kernels for the units, and the others
    /// are those of older devices.
    #[serde(default = "one")]
    pub untuned: f64,
    /// What was fitted on.
    #[serde(default)]
    pub recordings: Vec<String>,
    /// How far forecasts were off that had not seen the device, by [`Arithmetic::name`]; with
    /// `-measured` behind it where a large product and a large element-wise op had been measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub band: BTreeMap<String, Band>,
    /// By class.
    pub class: BTreeMap<Class, Efficiency>,
    /// What a fit gives that has not seen a device, by the device's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub without: BTreeMap<String, Without>,
}

/// The figures of a fit that has not seen a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are those of Efficiencies")]
pub struct Without {
    pub launch_ns: u64,
    pub dispatch_ns: u64,
    pub half_depth: f64,
    pub convolution_half_depth: f64,
    pub unit_half_depth: f64,
    pub waves: f64,
    pub sides: f64,
    pub convolution_sides: f64,
    pub cached: f64,
    pub untuned: f64,
    /// Shares of operations and of bandwidth, and launches.
    pub class: BTreeMap<Class, [f64; 3]>,
}

impl Efficiency {
    fn shares(&self) -> [f64; 3] {
        [self.compute, self.bandwidth, self.kernels]
    }
}

impl Efficiencies {
    /// Those that come with tidegate: what `tidegate fit` makes of the recordings at hand.
    pub fn bundled() -> Self {
        static BUNDLED: LazyLock<Efficiencies> = LazyLock::new(|| {
            let text = include_str!("../efficiencies.toml");
            Efficiencies::from_toml(text).expect("a test reads the bundled efficiencies")
        });
        BUNDLED.clone()
    }

    /// Reads what [`Self::to_toml`] wrote.
    ///
    /// # Errors
    /// Where the text is no such TOML, a class is missing or unknown, or a figure is not over 0.
    pub fn from_toml(text: &str) -> Result<Self, NetworkError> {
        let wrong = |why: String| Err(NetworkError::Efficiencies(why));
        let read: Self = match toml::from_str(text) {
            Ok(read) => read,
            Err(error) => return wrong(error.to_string()),
        };
        if let Some(missing) = Class::all().iter().find(|class| !read.class.contains_key(class)) {
            let missing = missing.name();
            return wrong(format!("there is no [class.{missing}]: every class needs figures"));
        }
        for (class, efficiency) in &read.class {
            let good = |share: f64| share > 0.0 && share <= 4.0;
            let kernels = (0.0..=100.0).contains(&efficiency.kernels);
            if !good(efficiency.compute) || !good(efficiency.bandwidth) || !kernels {
                let class = class.name();
                return wrong(format!(
                    "[class.{class}]: shares are over 0 and at most 4, kernels at most 100"
                ));
            }
        }
        if !(0.0..=0.9).contains(&read.cached) || !(0.1..=1.0).contains(&read.untuned) {
            return wrong("cached is from 0 to 0.9, untuned from 0.1 to 1".to_string());
        }
        let exponents = [read.waves, read.sides, read.convolution_sides];
        let depths = [read.half_depth, read.convolution_half_depth, read.unit_half_depth];
        if depths.iter().any(|depth| !(0.0..=1e4).contains(depth))
            || exponents.iter().any(|exponent| !(0.0..=4.0).contains(exponent))
            || read.launch_ns.max(read.dispatch_ns) > 1_000_000_000
        {
            return wrong(
                "half_depth is from 0 to 10000, waves and sides from 0 to 4, launch_ns and dispatch_ns at \
                 most a second"
                    .to_string(),
            );
        }
        Ok(read)
    }

    /// As a TOML text.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# What share of a device's peak figures each class of ops reaches. Written by\n\
             # `tidegate fit`, which fits the classes that recordings have.\n",
        );
        let globals = |of: &Self| {
            format!(
                "launch_ns = {}\ndispatch_ns = {}\nhalf_depth = {}\n\
                 convolution_half_depth = {}\nunit_half_depth = {}\nwaves = {}\nsides = {}\nconvolution_sides = {}\n\
                 cached = {}\nuntuned = {}\n",
                of.launch_ns,
                of.dispatch_ns,
                of.half_depth,
                of.convolution_half_depth,
                of.unit_half_depth,
                of.waves,
                of.sides,
                of.convolution_sides,
                of.cached,
                of.untuned
            )
        };
        text += &globals(self);
        text += "recordings = [\n";
        for recording in &self.recordings {
            text += &format!("    {},\n", text_of(recording));
        }
        text += "]\n";
        for (name, Band { half, nine_of_ten, forecasts }) in &self.band {
            text += &format!(
                "\n[band.{name}]\nhalf = {half:?}\nnine_of_ten = {nine_of_ten:?}\n\
                 forecasts = {forecasts}\n"
            );
        }
        for class in Class::all() {
            if let Some(Efficiency { compute, bandwidth, kernels, source }) = self.class.get(&class)
            {
                let class = class.name();
                text += &format!(
                    "\n[class.{class}]\ncompute = {compute:?}\nbandwidth = {bandwidth:?}\n\
                     kernels = {kernels:?}\nsource = {}\n",
                    text_of(source)
                );
            }
        }
        for device in self.without.keys() {
            let of = self.without(device);
            text += &format!("\n[without.{}]\n{}", text_of(device), globals(&of));
            for class in Class::all() {
                let Efficiency { compute, bandwidth, kernels, .. } = &of.class[&class];
                let class = class.name();
                text += &format!("class.{class} = [{compute:?}, {bandwidth:?}, {kernels:?}]\n");
            }
        }
        text
    }

    /// What a fit gives that has not seen a device; what it has not seen anyway, these.
    pub fn without(&self, device: &str) -> Self {
        let mut of = Self { without: BTreeMap::new(), ..self.clone() };
        if let Some(fit) = self.without.get(device) {
            (of.launch_ns, of.dispatch_ns) = (fit.launch_ns, fit.dispatch_ns);
            (of.half_depth, of.waves, of.sides) = (fit.half_depth, fit.waves, fit.sides);
            (of.unit_half_depth, of.cached) = (fit.unit_half_depth, fit.cached);
            (of.convolution_half_depth, of.untuned) = (fit.convolution_half_depth, fit.untuned);
            of.convolution_sides = fit.convolution_sides;
            for (name, efficiency) in &mut of.class {
                if let Some([compute, bandwidth, kernels]) = fit.class.get(name) {
                    (efficiency.compute, efficiency.bandwidth) = (*compute, *bandwidth);
                    efficiency.kernels = *kernels;
                }
            }
        }
        of
    }

    /// Keeps what a fit gives that has not seen a device.
    pub fn keep_without(&mut self, device: &str, fit: &Self) {
        let class = fit.class.iter().map(|(class, of)| (*class, of.shares())).collect();
        let Self { launch_ns, dispatch_ns, half_depth, unit_half_depth, .. } = *fit;
        let Self { convolution_half_depth, convolution_sides, .. } = *fit;
        let Self { waves, sides, cached, untuned, .. } = *fit;
        let without = Without {
            launch_ns,
            dispatch_ns,
            half_depth,
            convolution_half_depth,
            unit_half_depth,
            waves,
            sides,
            convolution_sides,
            cached,
            untuned,
            class,
        };
        self.without.insert(device.to_string(), without);
    }

    /// How far forecasts for a device are off, where that is known.
    pub fn band_for(&self, device: &DeviceCompute, of: Arithmetic) -> Option<Band> {
        let measured = device.f32_products.is_some() && device.elementwise.is_some();
        let with = self.band.get(&format!("{}-measured", of.name())).filter(|_| measured);
        with.or(self.band.get(of.name())).copied()
    }

    /// What of a device's arithmetic units a product keeps busy: a short sum leaves them waiting for
    /// operands, a narrow result leaves tiles unfilled, and the last wave of tiles leaves
    /// multiprocessors idle. Long sums may be cut to make more tiles, each a shorter sum.
    fn busy(&self, work: &Work, device: &DeviceCompute) -> f64 {
        let Some(ProductExtents { count, rows, columns, depth }) = work.product else { return 1.0 };
        const TILE: u64 = 128;
        let narrow = rows.min(columns).clamp(1, TILE) as f64 / TILE as f64;
        if work.kind == OpKind::Convolution {
            let deep = depth as f64 / (depth as f64 + self.convolution_half_depth);
            let tuned = match work.class {
                Class::Pointwise(Pass::Parameters | Pass::Input)
                | Class::Window(Pass::Parameters | Pass::Input)
                    if device.tf32_flops.is_some() =>
                {
                    self.untuned
                }
                _ => 1.0,
            };
            return deep * narrow.powf(self.convolution_sides) * tuned;
        }
        let half_depth = match work.units {
            Units::Vectors => self.half_depth,
            _ => self.unit_half_depth,
        };
        let tiles = count as f64 * rows.div_ceil(TILE) as f64 * columns.div_ceil(TILE) as f64;
        let share = |cuts: f64| {
            let terms = depth as f64 / cuts;
            let filled = match device.multiprocessors {
                Some(count) => {
                    let waves = cuts * tiles / f64::from(count.max(1));
                    (waves / waves.ceil()).powf(self.waves)
                }
                None => 1.0,
            };
            filled * terms / (terms + half_depth)
        };
        let cuts = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(share);
        let aligned = match work.units {
            Units::Half => alignment(rows | columns | depth).powf(UNALIGNED),
            _ => 1.0,
        };
        cuts.into_iter().fold(f64::MIN_POSITIVE, f64::max) * narrow.powf(self.sides) * aligned
    }

    pub(crate) fn share_of(&self, class: Class) -> [f64; 3] {
        // Every class is there, as reading makes sure.
        self.class.get(&class).map_or([1.0; 3], Efficiency::shares)
    }

    /// The device's memory, as fast as shares are of.
    fn memory(&self, device: &DeviceCompute) -> f64 {
        let elementwise = self.share_of(Class::Elementwise(Pass::Forward))[1];
        let reached = device.elementwise.map(|reached| reached.0 as f64 / elementwise);
        reached.unwrap_or(device.memory_bandwidth.0 as f64)
    }

    /// What an op takes on a device, by the class that it has there.
    pub(crate) fn full(&self, work: &Work, device: &DeviceCompute) -> (Class, Full) {
        let work = work.on(device);
        let peak = match (work.units, device.f32_products) {
            (Units::Half, _) => device.f16_flops as f64,
            (Units::Tf32, _) => device.tf32_flops.unwrap_or(device.f32_flops) as f64,
            (Units::Vectors, None) => device.f32_flops as f64,
            (Units::Vectors, Some(reached)) => reached as f64 / self.share_of(Class::Matrix)[0],
        };
        let memory = self.memory(device);
        // What the op before has left in the cache is not fetched, and what the next takes not written.
        let cache = device.l2_cache.map_or(0.0, |cache| cache.0 as f64);
        let bytes = work.bytes as f64 - self.cached * (work.bytes as f64).min(cache);
        let streamed = self.share_of(Class::Elementwise(Pass::Forward))[1] * memory;
        let volta = work::has_matrix_units(device) && device.tf32_flops.is_none();
        let arithmetic = work.flops as f64 / (self.busy(&work, device) * peak);
        let is_square = matches!(work.class, Class::Square(_)) && work.units == Units::Vectors;
        let winograd = (volta && is_square).then(|| {
            let whole_tiles = work.tiled_flops as f64 / work.flops.max(1) as f64;
            Winograd {
                fused: (work.class != Class::Square(Pass::Parameters)).then(|| {
                    let columns = work.product.map_or(FUSED_COLUMNS, |product| product.columns);
                    let filled = columns.clamp(1, FUSED_COLUMNS) as f64 / FUSED_COLUMNS as f64;
                    1.0 / (FEWER_FUSED * filled)
                }),
                apart: (work.tiled_flops > 0)
                    .then(|| (whole_tiles / FEWER, TRANSFORMED * work.bytes as f64 / streamed)),
            }
        });
        let full = Full {
            arithmetic,
            movement: bytes / memory,
            winograd,
            beside: work.beside as f64 / streamed,
            // A view is no kernel; it costs the host a little, the device nothing.
            launch: if work.class == Class::View { 0.0 } else { self.launch_ns as f64 * 1e-9 },
        };
        (work.class, full)
    }

    /// Seconds of an op.
    pub(crate) fn secs(&self, work: &Work, device: &DeviceCompute) -> f64 {
        let (class, full) = self.full(work, device);
        full.secs(self.share_of(class))
    }

    /// The time of an op that does such work on a device.
    pub fn time(&self, work: &Work, device: &DeviceCompute) -> Nanos {
        // A time beyond the range of `u64` becomes its end, which no trace may hold.
        Nanos((self.secs(work, device) * 1e9).round() as u64)
    }
}

/// Seconds that an op takes where its class reaches all of a device's peak figures.
pub(crate) struct Full {
    arithmetic: f64,
    movement: f64,
    /// Where Winograd's way is open.
    winograd: Option<Winograd>,
    beside: f64,
    launch: f64,
}

/// The ways of Winograd that are open to a convolution.
struct Winograd {
    /// One kernel that makes tiles where it multiplies them: what share of the plain products' time it takes.
    fused: Option<f64>,
    /// Products of tiles, and transforms in kernels of their own: what share of the plain products' time the first
    /// take, and the seconds of the second.
    apart: Option<(f64, f64)>,
}

impl Full {
    /// Seconds at a share of operations, a share of bandwidth, and launches.
    pub fn secs(&self, [compute, bandwidth, kernels]: [f64; 3]) -> f64 {
        let direct = self.arithmetic / compute;
        let mut arithmetic = direct;
        if let Some(Winograd { fused, apart }) = &self.winograd {
            let apart = apart.map(|(share, transforms)| direct * share + transforms);
            arithmetic = arithmetic.min(apart.unwrap_or(f64::INFINITY));
            arithmetic = arithmetic.min(direct * fused.unwrap_or(1.0));
        }
        arithmetic.max(self.movement / bandwidth) + self.beside + self.launch * kernels
    }
}

/// What share of 16 bytes rows of 16-bit floats fill whose lengths are these, or'ed, at worst.
fn alignment(extents: u64) -> f64 {
    (1 << extents.trailing_zeros().min(3)) as f64 / 8.0
}

/// Exponent of what products on matrix units keep of their speed where rows of an operand do not begin at
/// multiples of 16 bytes. That they are slower NVIDIA's *Matrix Multiplication Background* says (tensor core
/// requirements); by how much is assumed, as no recording that is fitted on has such products.
const UNALIGNED: f64 = 0.5;

/// By what F(4x4, 3x3) and F(2x2, 3x3) divide multiplications (Lavin and Gray 2016, sections 4.1 and 4.3).
const FEWER: f64 = 4.0;
const FEWER_FUSED: f64 = 2.25;

/// Channels that a block of threads of the one kernel makes (section 5: 32 of them for 32 tiles).
const FUSED_COLUMNS: u64 = 32;

/// Times that the transforms of F(4x4, 3x3) move a convolution's operands: each is read or written as it is, and once in
/// tiles of 6x6 for each 4x4.
const TRANSFORMED: f64 = 1.0 + 36.0 / 16.0;

/// The trace of one training iteration of a network on a machine, by PyTorch's conventions and with
/// times by the efficiencies that come with tidegate.
///
/// # Errors
/// Where the iteration is larger than a trace may be.
pub fn modelled_trace(network: &Network, machine: &Machine) -> Result<Trace, NetworkError> {
    modelled_trace_by(network, &Conventions::PYTORCH, machine)
}

/// The same by the conventions of some framework.
///
/// # Errors
/// As for [`modelled_trace`].
pub fn modelled_trace_by(
    network: &Network,
    by: &Conventions,
    machine: &Machine,
) -> Result<Trace, NetworkError> {
    let tape = network.lower(by).tape;
    modelled_trace_of(network, &tape, machine, &Efficiencies::bundled())
}

/// The trace of a tape, which is `network`'s by any conventions, with times by some efficiencies.
///
/// # Errors
/// Where the iteration is larger than a trace may be.
pub fn modelled_trace_of<K>(
    network: &Network,
    tape: &Tape<K>,
    machine: &Machine,
    efficiencies: &Efficiencies,
) -> Result<Trace, NetworkError> {
    let device = &machine.device.compute;
    let times = |op: &crate::Op<K>| efficiencies.time(&op.work, device);
    let shares = of_layers(network);
    let names = network.layers.iter().zip(shares);
    let by_name: BTreeMap<&str, f64> =
        names.map(|(layer, share)| (layer.name.as_str(), share)).collect();
    let share = |tensor: &crate::Tensor| {
        let share = by_name.get(tensor.name.as_str()).copied();
        share.filter(|_| tensor.role == Role::Activation)
    };
    let measured = Measured {
        durations: tape.ops().iter().map(times).collect(),
        sparsity: tape.tensors().iter().map(share).collect(),
    };
    let provenance =
        Provenance::new(Origin::Modelled, machine.device.name.clone(), "built layer by layer");
    let mut trace = tape.trace(&measured, provenance);
    for (op, of) in trace.ops.iter_mut().zip(tape.ops()) {
        // The statistics are there already: two passes over memory for three.
        op.recompute = of.recompute_differs.then_some(Nanos(op.duration.0 / 3 * 2));
    }
    if let Err(why) = trace.check() {
        return Err(NetworkError::Invalid { network: network.name.clone(), why });
    }
    // After the check, which makes sure that sums of times are in range.
    let works: Vec<Work> = tape.ops().iter().map(|op| op.work).collect();
    trace.provenance.notes = notes(network, &trace.ops, &works, efficiencies, device);
    let options = &network.options;
    if options.accumulate == 1 && options.ranks == 1 {
        return Ok(trace);
    }
    let costs = Costs { network, by: &Conventions::PYTORCH };
    let width = network.dtype.bytes();
    let add = |bytes: u64| efficiencies.time(&costs.sum(bytes / width, 2), device);
    // What is sharded is so in each pass; gradients that stay whole are added up before they are exchanged.
    let in_each_pass = options.shard >= Some(Shard::Zero2);
    if in_each_pass {
        trace = rank_of(network, machine, efficiencies, trace, &add)?;
    }
    if options.accumulate > 1 {
        trace = accumulated(trace, options.accumulate, add);
    }
    if options.ranks > 1 && !in_each_pass {
        trace = rank_of(network, machine, efficiencies, trace, &add)?;
    }
    if let Err(why) = trace.check() {
        return Err(NetworkError::Invalid { network: network.name.clone(), why });
    }
    Ok(trace)
}

/// What one rank of several has and does, of the iteration of a device alone.
fn rank_of(
    network: &Network,
    machine: &Machine,
    efficiencies: &Efficiencies,
    trace: Trace,
    add: &dyn Fn(u64) -> Nanos,
) -> Result<Trace, NetworkError> {
    let wrong = |why: String| {
        Err(NetworkError::Option { network: network.name.clone(), option: "ranks", why })
    };
    let Some(between) = &machine.network else {
        return wrong(format!(
            "exchange what they have over a network, of which {} says nothing: name one, such as --net-link \
             nvlink3 or --net-link 25GB/s",
            machine.name
        ));
    };
    let update = |flops: u64, bytes: u64| {
        let work = Work::new(OpKind::Optimizer, Class::Optimizer, flops, bytes);
        efficiencies.time(&work, &machine.device.compute)
    };
    let NetworkOptions { ranks: count, shard, .. } = network.options;
    let ranks = Ranks { count, shard, network: between, update: &update, add };
    ranks.rank_of(trace).or_else(|why| wrong(format!("cannot be told of this network, with {why}")))
}

fn notes(
    network: &Network,
    ops: &[Op],
    works: &[Work],
    by: &Efficiencies,
    device: &DeviceCompute,
) -> Vec<String> {
    let assumed = |work: &Work| {
        let efficiency = by.class.get(&work.on(device).class);
        efficiency.is_some_and(|efficiency| efficiency.source.starts_with("assumed"))
    };
    let time = |ops: &mut dyn Iterator<Item = &Op>| ops.map(|op| op.duration).sum::<Nanos>();
    let of_assumed = ops.iter().zip(works).filter(|(_, work)| assumed(work)).map(|(op, _)| op);
    let all = time(&mut ops.iter());
    let share = 100.0 * time(&mut { of_assumed }).0 as f64 / all.0.max(1) as f64;
    [
        "nothing was run: times are modelled, from the operations and bytes of each op and \
         the efficiencies of its kind"
            .to_string(),
        format!("{share:.0} % of the time rests on efficiencies that no recording was fitted on"),
        format!(
            "shares of zeros are modelled too, for a training that has come to {:.0} %",
            100.0 * network.options.progress
        ),
    ]
    .into_iter()
    .chain(network.notes.iter().cloned())
    .collect()
}

/// A text in TOML's quotes.
fn text_of(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
