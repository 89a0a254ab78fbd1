//! The machines and links that come with tidegate, by name.

use std::path::{Path, PathBuf};

use schema::{BytesPerSec, Document, Link, Machine};

use crate::amount::Amount;
use crate::error::ScenarioError;
use crate::machine_file::MachineFile;

/// Embeds `<folder>/<name>.toml` for each name.
macro_rules! embed {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../", $folder, "/", $name, ".toml")))),*]
    };
}

const BUNDLED: Library<'static> = Library {
    machines: embed!("machines":
        "a10",
        "a100-pcie",
        "a100-pcie-80gb",
        "a100-sxm",
        "a100-sxm-80gb",
        "b200",
        "comet-v100",
        "cswap-2080ti",
        "cswap-v100",
        "gb200",
        "gh200",
        "h100-pcie",
        "h100-sxm",
        "h200",
        "ibp-a100",
        "k40m",
        "l4",
        "l40s",
        "mi100",
        "mi210",
        "mi250",
        "mi300x",
        "p100",
        "p4",
        "pooch-power9",
        "pooch-x86",
        "rtx-2080-ti",
        "rtx-3090",
        "rtx-4090",
        "rtx-5090",
        "t4",
        "titan-v",
        "v100-pcie",
        "v100-sxm",
    ),
    measured: &[("h100-measured", include_str!("../measured/h100-measured.json"))],
    links: embed!("links": "nvlink-c2c", "nvlink2", "pcie3", "pcie4", "pcie5", "pcie6"),
    variations: embed!("variations":
        "codec-lane",
        "contended",
        "net-ethernet-100g",
        "net-infiniband-hdr",
        "net-infiniband-ndr",
        "net-nvlink2",
        "net-nvlink3",
        "net-nvlink4",
        "no-codec-lane",
        "shared-codec-lane",
    ),
};

/// The machines that come with tidegate, by ascending name.
pub fn machines() -> impl Iterator<Item = Machine> {
    BUNDLED.names().into_iter().map(|name| machine(name).expect("a test reads every machine"))
}

/// The links that come with tidegate, each with the name that follows `+` in the name of a
/// machine, by ascending name.
pub fn links() -> impl Iterator<Item = (&'static str, Link)> {
    // Any machine serves: a link file states every field of a link.
    let (host, _) = BUNDLED.machines[0];
    BUNDLED.links.iter().map(move |(name, _)| {
        (*name, machine(&format!("{host}+{name}")).expect("a test reads every link").link)
    })
}

/// The machine of a name: `titan-v`, or `titan-v+pcie5` for the same machine with another link, or
/// `titan-v+no-codec-lane` where it differs otherwise, or `titan-v+share-4` where four GPUs copy over its link
/// at once, or `titan-v+net-25GB/s` where ranks of a training have so fast a network; any number of these after
/// each other.
pub fn machine(name: &str) -> Result<Machine, ScenarioError> {
    BUNDLED.machine(name)
}

/// The machine of a device as drivers and folders of recordings call it: `NVIDIA A100 80GB PCIe`,
/// `Tesla_V100-PCIE-32GB`. Of machines whose name begins with a word of it the one that has most of its
/// other words, and fewest that are not in it.
pub fn machine_of_device(device: &str) -> Option<Machine> {
    let words = |text: &str| -> Vec<String> {
        let text = text.to_lowercase().replace("hbm3", "sxm");
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        let bare = |word: &str| match word.strip_prefix("sxm") {
            Some(_) => "sxm".to_string(),
            None => word.to_string(),
        };
        words.filter(|word| !word.is_empty()).map(bare).collect()
    };
    let said = words(device);
    let of = |(name, _): &&(&'static str, &str)| {
        let own = words(name);
        let model = if own[0] == "rtx" || own[0] == "titan" { 2 } else { 1 };
        own.iter().take(model).all(|word| said.contains(word))
    };
    let fit = |(name, _): &&(&'static str, &str)| {
        let (has, lacks) =
            words(name).into_iter().partition::<Vec<_>, _>(|word| said.contains(word));
        has.len() as i64 - lacks.len() as i64
    };
    // Of those that fit alike the first.
    let best = BUNDLED.machines.iter().filter(of).rev().max_by_key(fit);
    best.and_then(|(name, _)| machine(name).ok())
}

/// A machine with links and variations that come with tidegate in the place of its own: what
/// follows the first `+` in the name of one that does.
pub fn machine_with(machine: Machine, others: &str) -> Result<Machine, ScenarioError> {
    let name = format!("{}+{others}", machine.name);
    let mut file = MachineFile::of(machine);
    for other in others.split('+') {
        file = BUNDLED.with(file, other, &name)?;
    }
    file.finish(name.clone(), Path::new(&name))
}

/// Reads a machine from the text of a TOML file, which may inherit a machine or a link that comes
/// with tidegate. `file` is what errors call it, and its stem is the machine's name.
pub fn machine_from_toml(text: &str, file: &Path) -> Result<Machine, ScenarioError> {
    BUNDLED.machine_from_toml(text, file)
}

/// Names and texts of the files that a machine may be made of. No machine has the name of a link
/// or a variation.
struct Library<'a> {
    machines: &'a [(&'a str, &'a str)],
    /// Documents, as `tidegate profile` writes them.
    measured: &'a [(&'a str, &'a str)],
    links: &'a [(&'a str, &'a str)],
    variations: &'a [(&'a str, &'a str)],
}

impl Library<'_> {
    fn machine(&self, name: &str) -> Result<Machine, ScenarioError> {
        if self.links.iter().any(|(link, _)| *link == name) {
            return Err(ScenarioError::LinkAlone { name: name.to_string() });
        }
        let file = PathBuf::from(format!("machines/{name}.toml"));
        self.named(name, &mut Vec::new())?.finish(name.to_string(), &file)
    }

    fn machine_from_toml(&self, text: &str, file: &Path) -> Result<Machine, ScenarioError> {
        let stem = file.file_stem().unwrap_or(file.as_os_str());
        let name = stem.to_string_lossy().into_owned();
        self.inherited(MachineFile::read(text, file)?, file, &mut Vec::new())?.finish(name, file)
    }

    /// What `machine`, `link`, or a machine with links and variations after `+` states, with what
    /// it inherits. `chain` holds the machines that led here.
    fn named(&self, name: &str, chain: &mut Vec<String>) -> Result<MachineFile, ScenarioError> {
        if let Some((machine, other)) = name.rsplit_once('+') {
            let base = match machine.contains('+') {
                true => self.named(machine, chain)?,
                false => self.named_machine(machine, chain)?,
            };
            return self.with(base, other, machine);
        }
        match self.link(name)? {
            Some(link_file) => Ok(link_file),
            None => self.named_machine(name, chain),
        }
    }

    /// A machine with a link or a variation in the place of its own figures. `machine` is what a
    /// machine without a description is called.
    fn with(
        &self,
        base: MachineFile,
        other: &str,
        machine: &str,
    ) -> Result<MachineFile, ScenarioError> {
        let gpus = other.strip_prefix("share-").and_then(|gpus| gpus.parse().ok());
        if let Some(gpus) = gpus.filter(|gpus| (1..=1024).contains(gpus)) {
            return Ok(base.sharing_link(gpus, machine));
        }
        if let Some(bandwidth) = other.strip_prefix("net-").and_then(BytesPerSec::read) {
            return Ok(base.with_network(bandwidth, machine));
        }
        let (file, what) = if let Some(link) = self.link(other)? {
            let what = link.link_name().unwrap_or(other).to_string();
            (link, what)
        } else if let Some(variation) = self.variation(other)? {
            let what = variation.description.clone().unwrap_or_else(|| other.to_string());
            (variation, what)
        } else {
            let known = self.links.iter().chain(self.variations).map(|(name, _)| *name);
            return Err(ScenarioError::unknown("link or variation", other, known));
        };
        let title = base.description.as_deref().unwrap_or(machine);
        let description = format!("{title}; here with {what}");
        let mut both = file.over(base);
        both.description = Some(description);
        Ok(both)
    }

    /// Names of machines, ascending.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> =
            self.machines.iter().chain(self.measured).map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    fn named_machine(
        &self,
        name: &str,
        chain: &mut Vec<String>,
    ) -> Result<MachineFile, ScenarioError> {
        if let Some((_, text)) = self.measured.iter().find(|(known, _)| *known == name) {
            let file = PathBuf::from(format!("measured/{name}.json"));
            let machine = Machine::from_json(text, &file).map_err(|source| {
                ScenarioError::Document { name: name.to_string(), source: Box::new(source) }
            })?;
            return Ok(MachineFile::of(machine));
        }
        let Some((_, text)) = self.machines.iter().find(|(known, _)| *known == name) else {
            return Err(ScenarioError::unknown("machine", name, self.names().into_iter()));
        };
        let seen = chain.iter().position(|earlier| earlier == name);
        chain.push(name.to_string());
        if let Some(first) = seen {
            return Err(ScenarioError::Circle { chain: chain.split_off(first) });
        }
        let file = PathBuf::from(format!("machines/{name}.toml"));
        self.inherited(MachineFile::read(text, &file)?, &file, chain)
    }

    /// What a link file states. Its description is of the link alone and not passed on.
    fn link(&self, name: &str) -> Result<Option<MachineFile>, ScenarioError> {
        let Some((_, text)) = self.links.iter().find(|(known, _)| *known == name) else {
            return Ok(None);
        };
        let mut read = MachineFile::read(text, Path::new(&format!("links/{name}.toml")))?;
        read.description = None;
        Ok(Some(read))
    }

    /// What a variation's file states: any figures, which replace a machine's.
    fn variation(&self, name: &str) -> Result<Option<MachineFile>, ScenarioError> {
        let found = self.variations.iter().find(|(known, _)| *known == name);
        let file = PathBuf::from(format!("variations/{name}.toml"));
        found.map(|(_, text)| MachineFile::read(text, &file)).transpose()
    }

    fn inherited(
        &self,
        read: MachineFile,
        file: &Path,
        chain: &mut Vec<String>,
    ) -> Result<MachineFile, ScenarioError> {
        let Some(name) = read.inherits.clone() else { return Ok(read) };
        match self.named(&name, chain) {
            Ok(base) => Ok(read.over(base)),
            // A circle names all its members already.
            Err(circle @ ScenarioError::Circle { .. }) => Err(circle),
            Err(error) => {
                let (file, source) = (file.to_path_buf(), Box::new(error));
                Err(ScenarioError::Inherits { file, name, source })
            }
        }
    }
}

#[cfg(test)]
#[path = "machines_tests.rs"]
mod tests;
