//! A machine as a TOML file: what one file states, what it takes over from another, and the
//! machine that results.

use std::collections::BTreeMap;
use std::path::Path;

use schema::{
    Bandwidth, Bytes, BytesPerSec, Compute, Device, Document, Host, Link, Machine, Nanos, NetLink,
};
use serde::Deserialize;

use crate::amount::{Flops, amount, bandwidth};
use crate::error::ScenarioError;
use networks::suggest::closest;

/// What one file states. A link file is a machine file that states only a link.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    /// The machine or link whose figures hold where this file states none.
    pub(crate) inherits: Option<String>,
    pub(crate) description: Option<String>,
    #[serde(default)]
    device: DeviceTable,
    #[serde(default)]
    host: HostTable,
    #[serde(default)]
    link: LinkTable,
    #[serde(default)]
    network: NetworkTable,
    /// As written: `device.memory = "..."` is a table within a table.
    #[serde(default, rename = "sources")]
    written_sources: toml::Table,
    /// By the figure's name; each figure that is stated has one.
    #[serde(skip)]
    sources: BTreeMap<String, String>,
}

/// A table of a file. Each of its fields is named once, and may be left out.
macro_rules! table {
    ($table:ident $({ $within:ident: $inner:ident })?, $path:literal,
     $($field:ident: $type:ty $(, $read:literal)?;)*) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct $table {
            $($(#[serde(deserialize_with = $read)])? $field: Option<$type>,)*
            $($within: $inner,)?
        }

        impl $table {
            fn over(self, base: Self) -> Self {
                Self {
                    $($field: self.$field.or(base.$field),)*
                    $($within: self.$within.over(base.$within),)?
                }
            }

            /// Every field by its name in `[sources]`, and whether it is stated.
            fn fields(&self) -> Vec<(&'static str, bool)> {
                let own = [$((concat!($path, ".", stringify!($field)), self.$field.is_some())),*];
                own.into_iter()$(.chain(self.$within.fields()))?.collect()
            }
        }
    };
}

table!(DeviceTable { compute: ComputeTable }, "device",
    name: String;
    memory: Bytes, "amount";
    reserved: Bytes, "amount";
);

table!(ComputeTable, "device.compute",
    f32_flops: Flops, "amount";
    f16_flops: Flops, "amount";
    tf32_flops: Flops, "amount";
    multiprocessors: u32;
    l2_cache: Bytes, "amount";
    f32_products: Flops, "amount";
    elementwise: BytesPerSec, "amount";
    memory_bandwidth: BytesPerSec, "amount";
    codec_lane: bool;
    beside_codec: f64;
);

table!(HostTable, "host", memory: Bytes, "amount"; updates: BytesPerSec, "amount";);

table!(LinkTable, "link",
    name: String;
    d2h: Bandwidth, "bandwidth";
    h2d: Bandwidth, "bandwidth";
    latency: Nanos, "amount";
    both_directions: f64;
    beside_copy: f64;
);

// The link to other ranks, of which a machine may have none.
table!(NetworkTable, "network",
    name: String;
    bandwidth: BytesPerSec, "amount";
    latency: Nanos, "amount";
);

/// What a message between ranks costs on top of its bytes where only a bandwidth is stated.
const NET_LATENCY: Nanos = Nanos(5_000);

const LINK_FIGURES: [&str; 4] = ["link.d2h", "link.h2d", "link.latency", "link.both_directions"];

impl MachineFile {
    /// Reads the text of a file. A figure without a source is recorded as stated in `file`.
    pub(crate) fn read(text: &str, file: &Path) -> Result<Self, ScenarioError> {
        let mut read: Self = toml::from_str(text).map_err(|source| ScenarioError::Syntax {
            file: file.to_path_buf(),
            source: Box::new(source),
        })?;
        let mut written = BTreeMap::new();
        let sources = std::mem::take(&mut read.written_sources);
        flatten("", sources, &mut written)
            .map_err(|field| ScenarioError::SourceNotText { file: file.to_path_buf(), field })?;
        for (figure, stated) in read.figures() {
            let source = match (stated, written.remove(figure)) {
                (true, Some(source)) => source,
                (true, None) => format!("stated in {}", file.display()),
                (false, None) => continue,
                (false, Some(_)) => {
                    let file = file.to_path_buf();
                    return Err(ScenarioError::SourceAlone { file, field: figure });
                }
            };
            read.sources.insert(figure.to_string(), source);
        }
        if let Some((field, _)) = written.pop_first() {
            let known: Vec<String> =
                read.figures().iter().map(|(name, _)| name.to_string()).collect();
            let closest = closest(&field, &known);
            let file = file.to_path_buf();
            return Err(ScenarioError::UnknownFigure { file, field, closest, known });
        }
        Ok(read)
    }

    /// A machine as a file that states all of its figures. What a document says of its link as a whole, it
    /// says of each of the link's figures, so that another link takes its own sources along.
    pub(crate) fn of(machine: Machine) -> Self {
        let Machine { name: _, description, device, host, link, network, mut sources } = machine;
        let compute = device.compute;
        if let Some(source) = sources.remove("link") {
            for figure in LINK_FIGURES {
                sources.entry(figure.to_string()).or_insert_with(|| source.clone());
            }
        }
        Self {
            inherits: None,
            description: Some(description),
            device: DeviceTable {
                name: Some(device.name),
                memory: Some(device.memory),
                reserved: Some(device.reserved),
                compute: ComputeTable {
                    f32_flops: Some(Flops(compute.f32_flops)),
                    f16_flops: Some(Flops(compute.f16_flops)),
                    tf32_flops: compute.tf32_flops.map(Flops),
                    multiprocessors: compute.multiprocessors,
                    l2_cache: compute.l2_cache,
                    f32_products: compute.f32_products.map(Flops),
                    elementwise: compute.elementwise,
                    memory_bandwidth: Some(compute.memory_bandwidth),
                    codec_lane: Some(compute.codec_lane),
                    beside_codec: Some(compute.beside_codec),
                },
            },
            host: HostTable { memory: Some(host.memory), updates: host.updates },
            link: LinkTable {
                name: Some(link.name),
                d2h: Some(link.d2h),
                h2d: Some(link.h2d),
                latency: Some(link.latency),
                both_directions: Some(link.both_directions),
                beside_copy: Some(link.beside_copy),
            },
            network: network.map_or_else(NetworkTable::default, |network| NetworkTable {
                name: Some(network.name),
                bandwidth: Some(network.bytes_per_sec),
                latency: Some(network.latency),
            }),
            written_sources: toml::Table::new(),
            sources,
        }
    }

    /// Every figure of a machine by its field's name, and whether this file states it.
    pub(crate) fn figures(&self) -> Vec<(&'static str, bool)> {
        let tables =
            [self.device.fields(), self.host.fields(), self.link.fields(), self.network.fields()];
        tables.concat().into_iter().filter(|(field, _)| !field.ends_with(".name")).collect()
    }

    /// Where a figure comes from, where the file states it.
    #[cfg(test)]
    pub(crate) fn source(&self, figure: &str) -> Option<&str> {
        self.sources.get(figure).map(String::as_str)
    }

    /// The machine whose link so many GPUs copy over at once, each way: each has its share of the bandwidth.
    /// A copy still begins as fast. `machine` is what one without a description is called.
    pub(crate) fn sharing_link(mut self, gpus: u64, machine: &str) -> Self {
        let link = &mut self.link;
        for bandwidth in [&mut link.d2h, &mut link.h2d].into_iter().flatten() {
            for point in bandwidth.pinned.iter_mut().chain(&mut bandwidth.pageable) {
                point.bytes_per_sec.0 = (point.bytes_per_sec.0 / gpus).max(1);
            }
        }
        link.name = link.name.take().map(|name| format!("{name}, shared by {gpus} GPUs"));
        for figure in ["link.d2h", "link.h2d"] {
            if let Some(source) = self.sources.get_mut(figure) {
                source.push_str(&format!("; divided by the {gpus} GPUs that share it"));
            }
        }
        let title = self.description.as_deref().unwrap_or(machine);
        self.description = Some(format!("{title}; its link shared by {gpus} GPUs"));
        self
    }

    /// The machine with so fast a network between ranks.
    pub(crate) fn with_network(mut self, bandwidth: BytesPerSec, machine: &str) -> Self {
        let title = self.description.as_deref().unwrap_or(machine);
        self.description = Some(format!("{title}; ranks over a network of {bandwidth}"));
        let name = Some(format!("{bandwidth} between ranks"));
        self.network =
            NetworkTable { name, bandwidth: Some(bandwidth), latency: Some(NET_LATENCY) };
        for (figure, source) in [("bandwidth", "stated"), ("latency", "assumed")] {
            self.sources.insert(format!("network.{figure}"), source.into());
        }
        self
    }

    /// The link's name, where the file states it.
    pub(crate) fn link_name(&self) -> Option<&str> {
        self.link.name.as_deref()
    }

    /// What this file states and, where it states nothing, what `base` does. A figure keeps the
    /// source of the file that states it.
    pub(crate) fn over(self, base: Self) -> Self {
        let mut sources = base.sources;
        sources.extend(self.sources);
        Self {
            inherits: None,
            description: self.description.or(base.description),
            device: self.device.over(base.device),
            host: self.host.over(base.host),
            link: self.link.over(base.link),
            network: self.network.over(base.network),
            written_sources: toml::Table::new(),
            sources,
        }
    }

    /// The machine, where every field is stated. Codecs share the compute lane unless the file
    /// says otherwise, as CSWAP+ assumes; if they do not, they do not slow compute unless it says
    /// so, and neither do copies.
    pub(crate) fn finish(self, name: String, file: &Path) -> Result<Machine, ScenarioError> {
        let (device, link, network) = (self.device, self.link, self.network);
        let compute = device.compute;
        let needed = Needed { file };
        let machine = Machine {
            description: self.description.unwrap_or_else(|| name.clone()),
            name,
            device: Device {
                name: needed.field(device.name, "device", "name", "\"NVIDIA V100\"")?,
                memory: needed.field(device.memory, "device", "memory", "\"16GiB\"")?,
                reserved: needed.field(device.reserved, "device", "reserved", "\"500MB\"")?,
                compute: Compute {
                    f32_flops: needed
                        .field(compute.f32_flops, "device.compute", "f32_flops", "\"14TFLOPS\"")?
                        .0,
                    f16_flops: needed
                        .field(compute.f16_flops, "device.compute", "f16_flops", "\"112TFLOPS\"")?
                        .0,
                    tf32_flops: compute.tf32_flops.map(|figure| figure.0),
                    multiprocessors: compute.multiprocessors,
                    l2_cache: compute.l2_cache,
                    f32_products: compute.f32_products.map(|figure| figure.0),
                    elementwise: compute.elementwise,
                    memory_bandwidth: needed.field(
                        compute.memory_bandwidth,
                        "device.compute",
                        "memory_bandwidth",
                        "\"900GB/s\"",
                    )?,
                    codec_lane: compute.codec_lane.unwrap_or(false),
                    beside_codec: compute.beside_codec.unwrap_or(1.0),
                },
            },
            host: Host {
                memory: needed.field(self.host.memory, "host", "memory", "\"64GiB\"")?,
                updates: self.host.updates,
            },
            link: Link {
                name: needed.field(link.name, "link", "name", "\"PCIe 3 x16\"")?,
                d2h: needed.field(link.d2h, "link", "d2h", "\"12GB/s\"")?,
                h2d: needed.field(link.h2d, "link", "h2d", "\"12GB/s\"")?,
                latency: needed.field(link.latency, "link", "latency", "\"10us\"")?,
                both_directions: needed.field(
                    link.both_directions,
                    "link",
                    "both_directions",
                    "1.0",
                )?,
                beside_copy: link.beside_copy.unwrap_or(1.0),
            },
            network: match network {
                NetworkTable { name: None, bandwidth: None, latency: None } => None,
                NetworkTable { name, bandwidth, latency } => Some(NetLink {
                    name: needed.field(name, "network", "name", "\"NVLink 3\"")?,
                    bytes_per_sec: needed.field(
                        bandwidth,
                        "network",
                        "bandwidth",
                        "\"300GB/s\"",
                    )?,
                    latency: needed.field(latency, "network", "latency", "\"5us\"")?,
                }),
            },
            sources: self.sources,
        };
        match machine.check() {
            Ok(()) => Ok(machine),
            Err(source) => Err(ScenarioError::Invalid { file: file.to_path_buf(), source }),
        }
    }
}

struct Needed<'a> {
    file: &'a Path,
}

impl Needed<'_> {
    fn field<T>(
        &self,
        value: Option<T>,
        table: &'static str,
        field: &'static str,
        example: &'static str,
    ) -> Result<T, ScenarioError> {
        let file = self.file;
        value.ok_or_else(|| ScenarioError::Missing {
            file: file.to_path_buf(),
            table,
            field,
            example,
        })
    }
}

/// Brings `device.memory = ...` and `"device.memory" = ...` to one form: texts by dotted name.
/// Fails with the name of what is no text. The parser limits how deep tables nest.
fn flatten(
    prefix: &str,
    table: toml::Table,
    into: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    for (key, value) in table {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, into)?,
            toml::Value::String(source) => {
                into.insert(name, source);
            }
            _ => return Err(name),
        }
    }
    Ok(())
}
