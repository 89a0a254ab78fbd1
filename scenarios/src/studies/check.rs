//! From a file to a study whose names are there and whose values can be.

use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;

use super::error::{StudyError, StudyProblem};
use super::file::{GroupTable, List, StudyFile};
use super::paper::paper;
use super::points::{
    Allow, Group, GroupCodecs, LinkChoice, Place, Study, Subject, WhatIf, derived_name,
};
use super::values;
use networks::{NetworkOptions, network};

/// More points than this take hours.
const MOST_POINTS: u64 = 10_000;

pub(super) struct Checker<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a Path,
    pub(super) methods: &'a [&'a str],
}

type Table = Spanned<GroupTable>;
type Result<T> = std::result::Result<T, StudyError>;
type Checked<T> = std::result::Result<T, StudyProblem>;

impl Checker<'_> {
    pub(super) fn study(&self, written: StudyFile) -> Result<Study> {
        if written.group.is_empty() && written.lookups.is_none() {
            return Err(self.at(0..0, StudyProblem::NoGroups));
        }
        let paper = self.one(written.paper, |name, _| paper(name).map_err(StudyProblem::Paper))?;
        let lookups = self.one(written.lookups, |lookups, _| {
            values::machine("machine", &lookups.machine)?;
            lookups.problem().map_or(Ok(lookups.clone()), |why| Err(StudyProblem::Lookups(why)))
        })?;
        let mut groups: Vec<Group> = Vec::new();
        let (tables, what_ifs) = self.what_ifs(written.group, written.what_if)?;
        for table in tables {
            let span = table.span();
            let group = self.group(&span, table.into_inner())?;
            if groups.iter().any(|earlier| earlier.name == group.name) {
                return Err(self.at(span, StudyProblem::SameName(group.name)));
            }
            groups.push(group);
        }
        let stem = self.file.file_stem().unwrap_or(self.file.as_os_str());
        Ok(Study {
            name: stem.to_string_lossy().into_owned(),
            description: written.description,
            groups,
            what_ifs,
            paper,
            lookups,
        })
    }

    /// All groups, those of what-ifs after the others.
    fn what_ifs(
        &self,
        mut groups: Vec<Table>,
        tables: Vec<Table>,
    ) -> Result<(Vec<Table>, Vec<WhatIf>)> {
        let (given, mut what_ifs) = (groups.len(), Vec::new());
        for table in tables {
            let span = table.span();
            let mut table = table.into_inner();
            let missing =
                |field, example| self.at(span.clone(), StudyProblem::Missing { field, example });
            let name =
                table.name.take().ok_or_else(|| missing("name", "`name = \"slow-link\"`"))?;
            let description = table.description.take();
            let description = description
                .ok_or_else(|| missing("description", "`description = \"half the bandwidth\"`"))?;
            if table.of.is_none() {
                return Err(missing("of", "`of = [\"resnet50\"]`, the groups"));
            }
            let of = self.list("of", table.of.take(), |name, _| {
                let named = |group: &&Table| group.get_ref().name.as_ref() == Some(name);
                let group = groups[..given].iter().find(named);
                let known = groups[..given].iter().filter_map(|g| g.get_ref().name.as_deref());
                group.map(Spanned::get_ref).ok_or_else(|| values::no_such("of", name, known))
            })?;
            let derived: Vec<Table> = (of.into_iter())
                .map(|group| {
                    let of = group.name.as_deref().unwrap_or_default();
                    let over = GroupTable { name: Some(derived_name(of, &name)), ..table.clone() };
                    Spanned::new(span.clone(), over.or(group))
                })
                .collect();
            groups.extend(derived);
            what_ifs.push(WhatIf { name, description });
        }
        Ok((groups, what_ifs))
    }

    fn group(&self, span: &Range<usize>, table: GroupTable) -> Result<Group> {
        combinations(&table).map_err(|problem| self.at(span.clone(), problem))?;
        let networks = table.networks.is_some();
        let subject =
            |name: &str, is_network, place| Subject { name: name.into(), is_network, place };
        let mut subjects =
            self.list("networks", table.networks, |name, place| Ok(subject(name, true, place)))?;
        subjects.extend(self.list("traces", table.traces, |name, place| {
            values::trace(name).map(|()| subject(name, false, place))
        })?);
        let options = NetworkOptions {
            activation: self.one(table.activation, |name, _| values::activation(name))?,
            dtype: self.one(table.dtype, |name, _| values::dtype(name))?,
            optimizer: self.one(table.optimizer, |name, _| values::optimizer(name))?,
            frames: table.frames,
            sequence: table.sequence,
            ranks: self.one(table.ranks, |ranks, _| values::ranks(*ranks))?.unwrap_or(1),
            update_in_backward: table.update_in_backward.unwrap_or_default(),
            ..NetworkOptions::default()
        };
        let options = NetworkOptions {
            in_place: table.in_place.unwrap_or(options.in_place),
            pool_indices: table.pool_indices.unwrap_or(options.pool_indices),
            fused_attention: table.fused_attention.unwrap_or(options.fused_attention),
            progress: table.progress.unwrap_or(options.progress),
            ..options
        };
        let machine = |field: &'static str| {
            move |name: &String, place: Place| {
                values::machine(field, name).map(|()| (name.clone(), place))
            }
        };
        let epochs = self.one(table.epochs, |count, _| values::epochs(*count))?;
        let group = Group {
            name: table.name.unwrap_or_default(),
            subjects,
            batches: self.list("batches", table.batches, |batch, _| values::batch(*batch))?,
            images: or_default(
                self.list("images", table.images, |image, _| Ok(Some(*image)))?,
                None,
            ),
            options,
            framework: self
                .one(table.framework, |name, _| values::framework(name))?
                .unwrap_or_default(),
            powers_of_two: table.powers_of_two.unwrap_or_default(),
            machines: self.list("machines", table.machines, machine("machines"))?,
            links: or_default(
                self.list("links", table.links, |name, _| values::link(name))?,
                LinkChoice::Own,
            ),
            host_memory: or_default(
                self.list("host_memory", table.host_memory, |text, _| {
                    values::bytes(text).map(Some)
                })?,
                None,
            ),
            budgets: or_default(
                self.list("budgets", table.budgets, |text, _| values::budget(text).map(Some))?,
                None,
            ),
            allow: or_default(
                self.list("allow", table.allow, |name, _| values::allow(name))?,
                Allow::ALL,
            ),
            methods: self.list("methods", table.methods, |name, _| {
                values::method(name, self.methods).map(|()| name.clone())
            })?,
            find: self.one(table.find, |name, _| values::find(name))?,
            evaluations: self.one(table.evaluations, |count, _| values::evaluations(*count))?,
            decided_on: self.one(table.decided_on, machine("decided_on"))?,
            profiled: table.profiled.unwrap_or_default(),
            recorded_on: self.one(table.recorded_on, machine("recorded_on"))?,
            speed: self.one(table.speed, |factor, _| values::speed(*factor))?,
            codecs: GroupCodecs {
                names: self
                    .list("codecs", table.codecs, |name, place| Ok((name.clone(), place)))?,
                sparsity: self.one(table.sparsity, |text, _| values::share(text))?,
                speed: self.one(table.codec_speed, |text, _| values::codec_speed(text))?,
                size_permille: self.one(table.codec_size, |text, _| values::codec_size(text))?,
                lossy: table.lossy.unwrap_or_default(),
            },
            epochs,
            at_epochs: or_default(
                self.list("at_epochs", table.at_epochs, |epoch, _| {
                    values::epoch(*epoch, epochs).map(Some)
                })?,
                None,
            ),
        };
        let points = group.count();
        if points > MOST_POINTS {
            let problem = StudyProblem::TooMany { points, most: MOST_POINTS };
            return Err(self.at(span.clone(), problem));
        }
        if networks {
            self.networks(&group)?;
        }
        Ok(group)
    }

    /// Builds every bundled network of the group once, so that a bad option is found before the
    /// first point is planned.
    fn networks(&self, group: &Group) -> Result<()> {
        for subject in group.subjects.iter().filter(|s| s.is_network && !values::is_file(&s.name)) {
            for image in &group.images {
                for batch in or_default(group.batches.clone(), 1) {
                    let options = NetworkOptions { batch, image: *image, ..group.options.clone() };
                    network(&subject.name, &options).map_err(|error| StudyError::At {
                        place: subject.place.clone(),
                        problem: Box::new(StudyProblem::Network(error)),
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The entries of a list, each checked where it stands. No entry may be there twice.
    fn list<T: PartialEq + Debug, U>(
        &self,
        field: &'static str,
        list: List<T>,
        check: impl Fn(&T, Place) -> Checked<U>,
    ) -> Result<Vec<U>> {
        let Some(list) = list else { return Ok(Vec::new()) };
        let span = list.span();
        let entries = list.into_inner();
        if entries.is_empty() {
            return Err(self.at(span, StudyProblem::Empty { field }));
        }
        let points = entries.len() as u64;
        if points > MOST_POINTS {
            return Err(self.at(span, StudyProblem::TooMany { points, most: MOST_POINTS }));
        }
        let mut checked = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let value = entry.get_ref();
            if entries[..index].iter().any(|earlier| earlier.get_ref() == value) {
                let value = format!("{value:?}");
                return Err(self.at(entry.span(), StudyProblem::Twice { field, value }));
            }
            let entry_checked = check(value, self.place(&entry.span()));
            checked.push(entry_checked.map_err(|problem| self.at(entry.span(), problem))?);
        }
        Ok(checked)
    }

    /// One value, checked where it stands.
    fn one<T, U>(
        &self,
        written: Option<Spanned<T>>,
        check: impl Fn(&T, Place) -> Checked<U>,
    ) -> Result<Option<U>> {
        let Some(written) = written else { return Ok(None) };
        let checked = check(written.get_ref(), self.place(&written.span()));
        checked.map(Some).map_err(|problem| self.at(written.span(), problem))
    }

    fn at(&self, span: Range<usize>, problem: StudyProblem) -> StudyError {
        StudyError::At { place: self.place(&span), problem: Box::new(problem) }
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        Place { file: self.file.to_path_buf(), line: 1 + before.matches('\n').count() }
    }
}

fn or_default<T>(list: Vec<T>, default: T) -> Vec<T> {
    if list.is_empty() { vec![default] } else { list }
}

/// Lists that need or exclude one another.
fn combinations(table: &GroupTable) -> Checked<()> {
    let missing = |field, example| Err(StudyProblem::Missing { field, example });
    if table.of.is_some() || table.description.is_some() {
        let field = if table.of.is_some() { "of" } else { "description" };
        return Err(StudyProblem::Beside { field, why: "it is of a `[[what_if]]`: delete it" });
    }
    let beside = |field, why| Err(StudyProblem::Beside { field, why });
    let networks = table.networks.is_some();
    let find = table.find.as_ref().map(|find| find.get_ref().as_str());
    if !networks && table.traces.is_none() {
        return missing("networks", "`networks = [\"resnet50\"]`, or traces");
    }
    if table.machines.is_none() {
        return missing("machines", "`machines = [\"titan-v\"]`");
    }
    if table.methods.is_none() {
        return missing("methods", "`methods = [\"pooch\"]`");
    }
    if networks && table.traces.is_some() {
        return beside("traces", "give networks and traces a group each");
    }
    if table.codecs.is_none() {
        let of_codecs = [
            ("sparsity", table.sparsity.is_some()),
            ("codec_speed", table.codec_speed.is_some()),
            ("codec_size", table.codec_size.is_some()),
            ("lossy", table.lossy.is_some()),
        ];
        if let Some((field, _)) = of_codecs.into_iter().find(|(_, stated)| *stated) {
            return beside(field, "it says how codecs are used: name some, `codecs = [\"zvc\"]`");
        }
    }
    match (table.epochs.is_some(), table.at_epochs.is_some()) {
        (true, false) => return missing("at_epochs", "`at_epochs = [0]`, or delete `epochs`"),
        (false, true) => return missing("epochs", "`epochs = 90`, how many the training has"),
        (true, true) if table.progress.is_some() => {
            return beside("progress", "an epoch says how far the training has come: delete it");
        }
        _ => {}
    }
    if !networks {
        let of_networks = [
            ("batches", table.batches.is_some()),
            ("images", table.images.is_some()),
            ("activation", table.activation.is_some()),
            ("dtype", table.dtype.is_some()),
            ("optimizer", table.optimizer.is_some()),
            ("ranks", table.ranks.is_some()),
            ("update_in_backward", table.update_in_backward.is_some()),
            ("frames", table.frames.is_some()),
            ("sequence", table.sequence.is_some()),
            ("in_place", table.in_place.is_some()),
            ("pool_indices", table.pool_indices.is_some()),
            ("fused_attention", table.fused_attention.is_some()),
            ("progress", table.progress.is_some()),
            ("epochs", table.epochs.is_some()),
        ];
        if let Some((field, _)) = of_networks.into_iter().find(|(_, stated)| *stated) {
            return beside(field, "a recorded trace is what it is: name networks, or delete it");
        }
    } else if table.recorded_on.is_some() {
        return beside("recorded_on", "networks are modelled for each machine: delete it");
    }
    let framework = table.framework.as_ref().map(|framework| framework.get_ref().as_str());
    if table.ranks.is_some() && framework.is_some_and(|framework| framework != "pytorch") {
        return beside("ranks", "only PyTorch's ops have collectives here: delete `framework`");
    }
    if find.is_some() && table.profiled.is_some() {
        return beside("profiled", "what is searched for is not swapped whole first: delete it");
    }
    match find {
        Some("largest-batch") if !networks => {
            beside("find", "a trace has one batch: name networks to find the largest batch")
        }
        Some("largest-batch") if table.batches.is_some() => {
            beside("batches", "the largest batch is what is searched for: delete the list")
        }
        Some("smallest-budget") if table.budgets.is_some() => {
            beside("budgets", "the smallest budget is what is searched for: delete the list")
        }
        Some("largest-batch") => Ok(()),
        _ if networks && table.batches.is_none() => missing("batches", "`batches = [256]`"),
        _ => Ok(()),
    }
}
