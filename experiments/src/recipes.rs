//! Networks that are built again from what documents say of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use networks::layer::{Compute, Layer};
use networks::{Conventions, Efficiencies, Network, NetworkError, modelled_trace_of};
use schema::file::{read_bytes, read_text};
use schema::{
    Activation, Bytes, Digest, Dtype, Framework, Machine, NetworkOptions, Optimizer, Recipe, Role,
    Shard, Tensor, Tf32, Trace,
};
use serde::Deserialize;

use crate::sources::{is_file, read_network};
use crate::{Error, Result};

/// Learning rate where nobody chose one: small enough that networks without normalisations, on one
/// small batch, do not leave the finite numbers.
const LEARNING_RATE: f32 = 1e-3;

/// The recipe of a network by its name, or of the file as it is now.
///
/// # Errors
/// If the file cannot be read.
pub fn recipe(network: &str, conventions: Framework, options: NetworkOptions) -> Result<Recipe> {
    if options.ranks > 1 && conventions != Framework::Pytorch {
        let why = "are for PyTorch's ops, which only plans have: leave ranks or --conventions away";
        let why = why.into();
        return Err(NetworkError::Option { network: network.into(), option: "ranks", why }.into());
    }
    let file = is_file(network).then(|| read_bytes(Path::new(network))).transpose()?;
    let file = file.map(|bytes| Digest::of_bytes(&bytes));
    Ok(Recipe { network: network.to_string(), file, conventions, options })
}

/// The efficiencies of a file, or those that come with tidegate.
///
/// # Errors
/// If the file cannot be read, or holds no efficiencies.
pub fn efficiencies(file: Option<&Path>) -> Result<Efficiencies> {
    match file {
        None => Ok(Efficiencies::bundled()),
        Some(file) => Efficiencies::from_toml(&read_text(file)?)
            .map_err(|source| Error::Efficiencies(file.to_path_buf(), source.into())),
    }
}

pub(crate) fn described(recipe: &Recipe) -> Result<Network> {
    let name = &recipe.network;
    if let Some(digest) = &recipe.file
        && *digest != Digest::of_bytes(&read_bytes(Path::new(name))?)
    {
        return Err(Error::OtherFile(name.clone()));
    }
    read_network(name, &recipe.options)
}

/// The network that computes what a description says.
fn trainable(network: &Network) -> Result<runtime::network::Network> {
    Ok(runtime::network::Network::new(network, Some(LEARNING_RATE))?)
}

/// The network of a recipe, as what computes.
pub fn computing(recipe: &Recipe) -> Result<runtime::network::Network> {
    trainable(&described(recipe)?)
}

/// The trace of a recipe's network on a machine, its times modelled with the efficiencies of a
/// file, or with those that come with tidegate.
///
/// # Errors
/// If the network or the efficiencies cannot be had, or its iteration is larger than a trace may
/// be.
pub fn modelled(recipe: &Recipe, machine: &Machine, from: Option<&Path>) -> Result<Trace> {
    let efficiencies = efficiencies(from)?;
    let network = described(recipe)?;
    let mut trace = match recipe.conventions {
        Framework::Pytorch | Framework::Caffe | Framework::Chainer => {
            let tape = network.lower(Conventions::of(recipe.conventions)).tape;
            modelled_trace_of(&network, &tape, machine, &efficiencies)?
        }
        Framework::Tidegate => {
            modelled_trace_of(&network, &*trainable(&network)?, machine, &efficiencies)?
        }
    };
    trace.provenance.recipe = Some(recipe.clone());
    Ok(trace)
}

/// What a trace trains: its network, as it is built again, or what the trace's tensors tell; with what the
/// machine has no units for, where one is named.
pub fn description_of(trace: &Trace, machine: Option<&Machine>) -> String {
    let recipe = trace.provenance.recipe.as_ref();
    if let Some(Ok(text)) = recipe.map(|recipe| description(recipe, machine)) {
        return text;
    }
    let of = |role: Role| trace.tensors.iter().filter(move |tensor| tensor.role == role);
    let bytes = |role: Role| of(role).map(|tensor| tensor.bytes).sum::<Bytes>();
    let mut shares: BTreeMap<&str, Bytes> = BTreeMap::new();
    for tensor in of(Role::Activation) {
        *shares.entry(tensor.dtype.map_or("an unstated dtype", Dtype::name)).or_default() +=
            tensor.bytes;
    }
    let dtype = shares.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("-", |(name, _)| name);
    let elements = |tensor: &Tensor| Some(tensor.bytes.0 / tensor.dtype?.bytes());
    let parameters = match of(Role::Parameter).map(elements).sum::<Option<u64>>() {
        Some(count) => format!("{} parameters", in_groups(count)),
        None => format!("{} of parameters and what else was there", bytes(Role::Parameter)),
    };
    let optimizer = match bytes(Role::OptimizerState) {
        Bytes::ZERO => "no optimizer state told apart".into(),
        state => format!("{state} of optimizer state"),
    };
    let batch = trace.batch.map_or("unstated".into(), |batch| batch.to_string());
    format!("{}: {parameters}, {dtype}, {optimizer}, batch {batch}", trace.network)
}

/// A recipe's network in a sentence: its parameters and what is chosen about them, what it is given, what its
/// import had to decide, and what the machine has no units for.
///
/// # Errors
/// If the network cannot be had.
pub fn description(recipe: &Recipe, machine: Option<&Machine>) -> Result<String> {
    let network = described(recipe)?;
    let options = network.options();
    let mut parts = vec![format!("{} parameters", in_groups(network.parameter_count()))];
    if options.lora.is_some() {
        parts.push(format!("{} of them trained", in_groups(network.trained_count())));
    }
    let dtype = match recipe.conventions {
        Framework::Pytorch | Framework::Caffe | Framework::Chainer => network.dtype(),
        Framework::Tidegate => options.dtype.unwrap_or(Dtype::F32),
    };
    let master = dtype != Dtype::F32 && network.optimizer() != Optimizer::None;
    let with = match options.master_weights {
        true if master && recipe.conventions != Framework::Tidegate => {
            " with a copy of f32 to update"
        }
        _ => "",
    };
    let units = machine.is_some_and(|machine| machine.device.compute.tf32_flops.is_some());
    let tf32 = match options.tf32 {
        _ if !units || dtype != Dtype::F32 || recipe.conventions != Framework::Pytorch => "",
        Tf32::Convolutions if convolves(&network) => " (convolutions in TF32)",
        Tf32::All => " (products in TF32)",
        _ => "",
    };
    parts.push(format!("{}{tf32}{with}", dtype.name()));
    parts.push(match network.optimizer() {
        Optimizer::None => "no optimizer".into(),
        optimizer if options.update_in_backward => {
            format!("{} in the backward phase", optimizer.name())
        }
        optimizer => optimizer.name().into(),
    });
    let given =
        network.graph().first().map_or(&[][..], |input| input.shape.get(1..).unwrap_or_default());
    parts.push(match given {
        [tokens] => format!("{tokens} tokens a sample"),
        extents => {
            extents.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ") + " a sample"
        }
    });
    parts.push(match options.accumulate {
        0 | 1 => format!("batch {}", network.batch()),
        passes => format!("{passes} passes of {}", network.batch()),
    });
    if options.ranks > 1 {
        let shard = options.shard.map_or("data parallel", Shard::name);
        parts.push(format!("on each of {} ranks ({shard})", options.ranks));
    }
    let mut text = format!("{}: {}", network.name(), parts.join(", "));
    for note in network.notes() {
        text += &format!("\nnote: {note}");
    }
    let machine = machine.filter(|machine| dtype == Dtype::Bf16 && lacks_bf16(machine));
    if let Some(machine) = machine {
        text += &format!(
            "\n{} has no units for bf16, which PyTorch emulates there at the speed of f32 or worse: times are \
             those of f16, which --dtype f16 is",
            machine.device.name
        );
    }
    Ok(text)
}

fn convolves(network: &Network) -> bool {
    let is_one = |layer: &Layer| {
        matches!(layer.compute, Compute::Convolution { .. } | Compute::Deconvolution { .. })
    };
    network.graph().iter().any(is_one)
}

/// Whether a machine's GPU is older than NVIDIA's Ampere, the first of theirs with units for bf16.
pub(crate) fn lacks_bf16(machine: &Machine) -> bool {
    const OLDER: [&str; 6] = ["P100", "V100", "Titan V", "TITAN V", " T4", "2080"];
    OLDER.iter().any(|name| machine.device.name.contains(name))
}

/// A whole number with its thousands apart.
fn in_groups(number: u64) -> String {
    let digits = number.to_string();
    let first = (digits.len() + 2) % 3 + 1;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    std::iter::once(head.to_string()).chain(groups).collect::<Vec<_>>().join(",")
}

/// A network's options under the names that they have on the command line: in files of recordings,
/// and in documents of versions that knew no recipes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatedOptions {
    /// Samples per iteration, where they are stated.
    pub batch: Option<u32>,
    image: Option<[u32; 2]>,
    frames: Option<u32>,
    sequence: Option<u32>,
    activation: Option<Activation>,
    dtype: Option<Dtype>,
    optimizer: Option<Optimizer>,
    out_of_place: bool,
    pool_indices: bool,
    unfused_attention: bool,
    progress: Option<f64>,
    /// The file of efficiencies that times were modelled with.
    pub efficiencies: Option<PathBuf>,
}

impl StatedOptions {
    /// What a document states.
    ///
    /// # Errors
    /// If that is no JSON, or states what no network has.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The options, for one batch.
    pub fn options(&self, batch: u32) -> NetworkOptions {
        NetworkOptions {
            batch,
            activation: self.activation,
            image: self.image,
            frames: self.frames,
            sequence: self.sequence,
            dtype: self.dtype,
            optimizer: self.optimizer,
            in_place: !self.out_of_place,
            pool_indices: self.pool_indices,
            fused_attention: !self.unfused_attention,
            progress: self.progress.unwrap_or(NetworkOptions::default().progress),
            // What documents of that age knew nothing of.
            ..NetworkOptions::default()
        }
    }

    /// The recipe that a document of an older version would have today.
    pub fn recipe(&self, network: &str, conventions: Framework) -> Recipe {
        let options = self.options(self.batch.unwrap_or(1));
        Recipe { network: network.to_string(), file: None, conventions, options }
    }
}

/// The network that a trace is of, made again from what the trace says of itself.
///
/// # Errors
/// If it does not say, or its network is none that runs here.
pub fn network_of(trace: &Trace) -> Result<runtime::network::Network> {
    let provenance = &trace.provenance;
    let setting = |name: &str| provenance.settings.get(name);
    let recipe = match (&provenance.recipe, setting("network"), setting("options")) {
        (Some(recipe), ..) => recipe.clone(),
        (None, Some(name), Some(options)) => {
            let options = StatedOptions::from_json(options)
                .map_err(|error| Error::TraceOptions(name.clone(), error.into()))?;
            options.recipe(name, Framework::Tidegate)
        }
        _ => {
            return Err(Error::NoRecipe(trace.network.clone()));
        }
    };
    if recipe.conventions != Framework::Tidegate {
        return Err(Error::NotRunHere(recipe.network));
    }
    computing(&recipe)
}
