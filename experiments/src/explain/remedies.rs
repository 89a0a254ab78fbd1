//! What would help, each with a plan of its own.

use std::path::Path;

use networks::NetworkOptions;
use networks::layer::{Compute, Layer};
use planner::{Limits, Monitor, least_budget};
use reports::{Changes, Remedy};
use schema::{Bytes, Dtype, Lora, Machine, Optimizer, Recipe, Shard, Trace};
use simulator::{in_core, reserved_in_core};

use super::Subject;
use crate::compare::{method, result_of};
use crate::recipes::{lacks_bf16, modelled};
use crate::{Conditions, Inputs, Result};

/// Adapters as the PEFT library's examples have them.
const RANK: u32 = 16;

/// A trace on a machine in some memory.
struct Try<'a> {
    what: String,
    changes: Changes,
    trace: &'a Trace,
    machine: &'a Machine,
    budget: Bytes,
    /// What the command says of it before `-m`.
    of: String,
    named: String,
}

struct Search<'a> {
    efficiencies: Option<&'a Path>,
    conditions: &'a Conditions,
    monitor: &'a dyn Monitor,
    found: Vec<Remedy>,
}

/// All that applies, what fits first and then the cheapest.
pub(super) fn remedies(
    subject: &Subject,
    inputs: &Inputs,
    [name, machine]: [&str; 2],
    monitor: &dyn Monitor,
) -> Result<Vec<Remedy>> {
    let (conditions, found) = (&inputs.conditions, Vec::new());
    let mut search = Search { efficiencies: None, conditions, monitor, found };
    let of = match subject {
        Subject::Network(recipe, _) => command(name, &recipe.options),
        _ => name.to_string(),
    };
    let here = |what: &str| Try {
        what: what.into(),
        changes: Changes::Nothing,
        trace: &inputs.trace,
        machine: &inputs.machine,
        budget: inputs.budget,
        of: of.clone(),
        named: machine.into(),
    };
    search.plan("a plan by tide, which copies and computes again", &here)?;
    search.links(&here, inputs.in_core.iteration)?;
    if let Subject::Network(recipe, efficiencies) = subject {
        search.efficiencies = *efficiencies;
        search.networks(recipe, inputs, [name, machine])?;
        search.larger(recipe, inputs, [name, machine])?;
    }
    let rank = |one: &Remedy| (!one.fits, one.changes, one.iteration.unwrap_or_default());
    search.found.sort_by(|one, other| rank(one).cmp(&rank(other)).then(one.what.cmp(&other.what)));
    Ok(search.found)
}

impl Search<'_> {
    fn plan<'t>(&mut self, what: &str, here: &dyn Fn(&str) -> Try<'t>) -> Result<()> {
        let remedy = self.planned(here(what), "tide")?;
        self.found.push(remedy);
        Ok(())
    }

    /// In core where that fits, and by tide where it does not.
    fn either(&self, this: Try) -> Result<Remedy> {
        let fits = reserved_in_core(this.trace, Some(this.budget)).is_ok();
        self.planned(this, if fits { "in-core" } else { "tide" })
    }

    fn planned(&self, this: Try, by: &str) -> Result<Remedy> {
        let Try { what, changes, trace, machine, budget, of, named } = this;
        let problem = self.conditions.problem(trace, machine, budget);
        let whole = machine.usable_memory() == budget;
        let budget_words = if whole { String::new() } else { format!(" -b {}B", budget.0) };
        let how = match by {
            "tide" => " -o plan.json".into(),
            by => format!(" --method {by}"),
        };
        let evaluations = self.conditions.limits.evaluations;
        let limited = evaluations != Limits::default().evaluations;
        let limits = if limited { format!(" --evaluations {evaluations}") } else { String::new() };
        let command = format!("tidegate plan {of} -m {named}{budget_words}{limits}{how}");
        let none = |reason: String| Remedy {
            what: what.clone(),
            changes,
            fits: false,
            method: by.into(),
            iteration: None,
            memory: None,
            reason: Some(reason),
            command: command.clone(),
        };
        // Some of it no plan can spare.
        let (least, op) = least_budget(&problem);
        if least > budget {
            let at = trace.ops.get(op.index()).map_or("", |op| op.name.as_str());
            return Ok(none(format!(
                "no plan: at {at} {least} are there at once whatever a plan does, {} too much",
                least.saturating_sub(budget)
            )));
        }
        self.monitor.step(&what);
        let found = result_of(method(by)?.as_ref(), &problem, self.monitor, &in_core(trace))?;
        let Ok(plan) = found.plan else {
            return Ok(none(found.row.reason.unwrap_or_default()));
        };
        // PyTorch's allocator holds more than what is needed; a plan's buffers have one segment.
        let memory = match by {
            "in-core" => {
                reserved_in_core(trace, Some(budget)).map_or(plan.predicted.arena, |r| r.reserved)
            }
            _ => plan.predicted.arena,
        };
        Ok(Remedy {
            what,
            changes,
            fits: true,
            method: by.into(),
            iteration: Some(plan.predicted.iteration),
            memory: Some(memory),
            reason: None,
            command,
        })
    }

    /// The plan over the next faster link, where copies cost time.
    fn links<'t>(&mut self, here: &dyn Fn(&str) -> Try<'t>, in_core: schema::Nanos) -> Result<()> {
        let Some(time) = self.found.last().and_then(|remedy| remedy.iteration) else {
            return Ok(());
        };
        let now = here("");
        let speed = |link: &schema::Link| link.h2d.at(Bytes(256 << 20));
        let own = speed(&now.machine.link);
        let faster = scenarios::links().filter(|(_, link)| speed(link) > own * 1.2);
        let next = faster.min_by(|one, other| speed(&one.1).total_cmp(&speed(&other.1)));
        let Some((link, _)) = next.filter(|_| time.ratio(in_core) > 1.01) else { return Ok(()) };
        let Ok(machine) = scenarios::machine_with(now.machine.clone(), link) else { return Ok(()) };
        let remedy = self.planned(
            Try {
                what: format!("a plan over a faster link ({link})"),
                changes: Changes::Hardware,
                named: format!("{}+{link}", now.named),
                machine: &machine,
                ..now
            },
            "tide",
        )?;
        let faster = remedy.iteration.is_some_and(|with| with < time);
        self.found.extend(faster.then_some(remedy));
        Ok(())
    }

    /// The network otherwise, on the same machine.
    fn networks(&mut self, recipe: &Recipe, inputs: &Inputs, asked: [&str; 2]) -> Result<()> {
        let options = &recipe.options;
        let machine = &inputs.machine;
        let mut ways: Vec<(String, Changes, NetworkOptions)> = Vec::new();
        let mut together = options.clone();
        let mut way = |what: &str, changes, set: &dyn Fn(&mut NetworkOptions)| {
            let mut options = options.clone();
            set(&mut options);
            ways.push((what.into(), changes, options));
            if changes <= Changes::Arithmetic {
                set(&mut together);
            }
        };
        if !options.fused_attention {
            way("fused attention", Changes::Nothing, &|o| o.fused_attention = true);
        }
        let network = networks::network(&recipe.network, options).ok();
        let dtype = network.as_ref().map(networks::Network::dtype).or(options.dtype);
        if dtype.unwrap_or(Dtype::F32) == Dtype::F32 {
            let narrow = if lacks_bf16(machine) { Dtype::F16 } else { Dtype::Bf16 };
            let what = format!("{} in place of f32", narrow.name());
            way(&what, Changes::Arithmetic, &|o| o.dtype = Some(narrow));
        }
        let optimizer = network.as_ref().map(networks::Network::optimizer).or(options.optimizer);
        if optimizer == Some(Optimizer::Adam) {
            let eight = Some(Optimizer::Adam8bit);
            way("an optimizer of 8 bits", Changes::Arithmetic, &|o| o.optimizer = eight);
        }
        if options.ranks > 1 && options.shard < Some(Shard::Zero3) {
            let all = Some(Shard::Zero3);
            way("parameters, too, shared among the ranks (zero3)", Changes::Nothing, &|o| {
                o.shard = all
            });
        }
        if let Some(passes) = self.passes(recipe, inputs)? {
            let what = format!("the batch in {passes} passes whose gradients are added up");
            // Statistics of fewer samples are others.
            let is_batch_norm = |layer: &Layer| layer.compute == Compute::BatchNorm;
            let normalised =
                network.as_ref().is_some_and(|it| it.graph().iter().any(is_batch_norm));
            let changes = if normalised { Changes::Arithmetic } else { Changes::Nothing };
            way(&what, changes, &|o| o.accumulate = passes);
        }
        let adapters = Lora { rank: RANK, targets: ["q", "v"].map(String::from).to_vec() };
        let adapted = NetworkOptions { lora: Some(adapters), ..options.clone() };
        if options.lora.is_none() && networks::network(&recipe.network, &adapted).is_ok() {
            let what = format!("training adapters of rank {RANK} alone (LoRA)");
            let lora = adapted.lora;
            way(&what, Changes::Training, &|o| o.lora.clone_from(&lora));
        }
        let several = ways.iter().filter(|way| way.1 <= Changes::Arithmetic).count() > 1;
        if several {
            ways.push(("all of these but adapters".into(), Changes::Arithmetic, together));
        }
        for (what, changes, options) in ways {
            let [name, named] = asked;
            let of = command(name, &options);
            let recipe = Recipe { options, ..recipe.clone() };
            let Ok(trace) = modelled(&recipe, machine, self.efficiencies) else { continue };
            let (trace, budget) = (&trace, inputs.budget);
            let this = Try { what, changes, trace, machine, budget, of, named: named.into() };
            let remedy = self.either(this)?;
            self.found.push(remedy);
        }
        Ok(())
    }

    /// The fewest passes that fit in core, or one for each sample.
    fn passes(&self, recipe: &Recipe, inputs: &Inputs) -> Result<Option<u32>> {
        let NetworkOptions { batch, accumulate, .. } = recipe.options;
        let more =
            (accumulate + 1..=batch.min(1024)).filter(|passes| batch.is_multiple_of(*passes));
        let mut last = None;
        for passes in more {
            let options = NetworkOptions { accumulate: passes, ..recipe.options.clone() };
            // One pass says whether all fit, but for the sums of gradients.
            let recipe = Recipe { options, ..recipe.clone() };
            let Ok(trace) = modelled(&recipe, &inputs.machine, self.efficiencies) else { break };
            last = Some(passes);
            if reserved_in_core(&trace, Some(inputs.budget)).is_ok() || trace.ops.len() > MOST_OPS {
                break;
            }
        }
        Ok(last)
    }

    /// The smallest machine on which it fits as it is.
    fn larger(&mut self, recipe: &Recipe, inputs: &Inputs, asked: [&str; 2]) -> Result<()> {
        let (here, [name, named]) = (&inputs.machine, asked);
        // Ranks keep their network.
        let network = named.split('+').skip(1).find(|part| part.starts_with("net-"));
        let with_network = |machine: Machine| match network {
            Some(network) => scenarios::machine_with(machine.clone(), network).unwrap_or(machine),
            None => machine,
        };
        let mut machines: Vec<Machine> = scenarios::machines()
            .map(with_network)
            .filter(|machine| machine.usable_memory() > here.usable_memory().max(inputs.budget))
            .collect();
        machines.sort_by_key(|machine| (machine.device.memory, machine.name.clone()));
        // Of those with as much memory the fastest.
        for alike in machines.chunk_by(|one, other| one.device.memory == other.device.memory) {
            let mut fitting = Vec::new();
            for machine in alike {
                let Ok(trace) = modelled(recipe, machine, self.efficiencies) else { continue };
                if reserved_in_core(&trace, Some(machine.usable_memory())).is_ok() {
                    fitting.push((trace.total_time(), machine, trace));
                }
            }
            let Some((_, machine, trace)) = fitting.into_iter().min_by_key(|one| one.0) else {
                continue;
            };
            let this = Try {
                what: format!("{} ({} of memory)", machine.device.name, machine.device.memory),
                changes: Changes::Hardware,
                trace: &trace,
                machine,
                budget: machine.usable_memory(),
                of: command(name, &recipe.options),
                named: machine.name.clone(),
            };
            let remedy = self.either(this)?;
            self.found.push(remedy);
            return Ok(());
        }
        Ok(())
    }
}

/// A trace of more is not worth looking for more passes.
const MOST_OPS: usize = 50_000;

/// A network and its options as on the command line.
pub fn command(name: &str, options: &NetworkOptions) -> String {
    let usual = NetworkOptions::default();
    let mut text = format!("{name} --batch {}", options.batch);
    let mut option = |given: Option<String>, flag: &str| {
        given.into_iter().for_each(|value| text += &format!(" --{flag} {value}"));
    };
    option(options.image.map(|[height, width]| format!("{height}x{width}")), "image");
    for (value, flag) in [
        (options.frames, "frames"),
        (options.sequence, "sequence"),
        (options.extents.layers, "layers"),
        (options.extents.hidden, "hidden"),
        (options.extents.heads, "heads"),
        (options.extents.kv_heads, "kv-heads"),
        (options.extents.vocab, "vocab"),
        (Some(options.accumulate).filter(|passes| *passes > 1), "accumulate"),
        (Some(options.ranks).filter(|ranks| *ranks > 1), "ranks"),
    ] {
        option(value.map(|value| value.to_string()), flag);
    }
    option(options.activation.map(|activation| activation.name().into()), "activation");
    option(options.dtype.map(|dtype| dtype.name().into()), "dtype");
    let tf32 = Some(options.tf32).filter(|what| *what != usual.tf32);
    option(tf32.map(|what| what.name().into()), "tf32");
    option(options.optimizer.map(|optimizer| optimizer.name().into()), "optimizer");
    option(options.shard.map(|stage| stage.name().into()), "shard");
    let lora = options.lora.as_ref();
    option(lora.map(|lora| format!("{}:{}", lora.rank, lora.targets.join(","))), "lora");
    let progress = Some(options.progress).filter(|share| *share != usual.progress);
    option(progress.map(|share| share.to_string()), "progress");
    for (chosen, flag) in [
        (!options.in_place, " --out-of-place"),
        (!options.fused_attention, " --unfused-attention"),
        (!options.master_weights, " --no-master-weights"),
        (options.update_in_backward, " --update-in-backward"),
        (options.training_batch_norm, " --training-batch-norm"),
    ] {
        text += if chosen { flag } else { "" };
    }
    text
}
