//! The steps, in order of worth: which commands they are of, on which device.

use std::time::Duration;

/// A step.
pub struct Step {
    /// Its name, and that of its folder.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Its share of the time, beside the others' shares.
    share: u32,
    /// What it does.
    pub(super) work: Work,
}

/// What a step does.
pub(super) enum Work {
    /// Commands, one after the other, in the step's folder.
    Commands(Vec<Command>),
    /// Nothing on this device, because of this.
    Skip(&'static str),
}

/// A command of tidegate's.
pub(super) struct Command {
    /// What its figures are called.
    pub what: &'static str,
    /// The program that runs it, where one does.
    pub under: Option<&'static str>,
    /// That program's own arguments.
    pub tool_arguments: &'static [&'static str],
    /// The command's.
    pub arguments: Vec<String>,
    /// Where its figures are.
    pub figures: Figures,
}

/// Where a command's figures are.
pub(super) enum Figures {
    /// It has none.
    None,
    /// In what it prints.
    Printed,
    /// In a file that it writes into the step's folder.
    InFile(&'static str),
}

impl Step {
    /// How long it may take of the time that is left, with the steps from it on: twice its share of it, as
    /// others take less.
    pub(super) fn limit(&self, left: Duration, from_it_on: &[Step]) -> Duration {
        let all: u32 = from_it_on.iter().map(|step| step.share).sum();
        left.min(left.mul_f64(2.0 * f64::from(self.share) / f64::from(all.max(1))))
    }
}

/// A command that prints JSON.
fn printed(what: &'static str, line: &str) -> Command {
    written(what, &format!("{line} --format json"), Figures::Printed)
}

/// A command that writes files, of which one may have figures.
fn written(what: &'static str, line: &str, figures: Figures) -> Command {
    let arguments = line.split_whitespace().map(String::from).collect();
    Command { what, under: None, tool_arguments: &[], arguments, figures }
}

/// A command without figures, under NVIDIA's checker of memory or races.
fn sanitized(what: &'static str, tool_arguments: &'static [&'static str], line: &str) -> Command {
    Command {
        under: Some("compute-sanitizer"),
        tool_arguments,
        ..written(what, line, Figures::None)
    }
}

/// All steps on the host device, or on a GPU.
pub fn steps(on_host_device: bool) -> Vec<Step> {
    if on_host_device { on_host() } else { on_cuda() }
}

const METHODS: &str = "--methods swap-opt,pooch,dtr,tide -b 80%,60%,40%";

fn on_cuda() -> Vec<Step> {
    let check = |networks: &str, more: &str| {
        let line = format!("check {networks} --device cuda -o . --repeats 9 --iterations 5 {more}");
        Work::Commands(vec![printed("check", &line)])
    };
    let planned = |networks: &str| check(networks, METHODS);
    let step = |name, share, about, work| Step { name, about, share, work };
    vec![
        step("device", 1, "what the machine is, and which libraries are found", found()),
        step(
            "codecs",
            2,
            "every codec's kernels against the processor's bytes, odd sizes too, outputs poisoned",
            Work::Commands(vec![printed(
                "bench",
                "bench codecs --device cuda --size 1MiB --runs 2",
            )]),
        ),
        step(
            "layers",
            4,
            "every layer against the host's: own kernels, cuBLAS, cuDNN",
            Work::Commands(vec![written(
                "layers",
                "acceptance --inside --only layers -o .",
                Figures::Printed,
            )]),
        ),
        step(
            "machine",
            3,
            "the link's curves and latencies, both directions, contention, speeds of codecs",
            Work::Commands(vec![written(
                "machine",
                "profile resnet18-cifar10 --batch 64 --device cuda --sample zvc,zfp:8 -o .",
                Figures::InFile("machine.json"),
            )]),
        ),
        step(
            "resnet50",
            9,
            "planned at 80, 60, 40 %, run, against predictions",
            planned("resnet50:batch=64"),
        ),
        step("vit-l16", 9, "the same of a transformer", planned("vit-l16:batch=24")),
        step("unet", 6, "the same of a network of large activations", planned("unet:batch=4")),
        step(
            "compressed",
            6,
            "plans that compress, run",
            check("resnet50:batch=32", "--sample zvc,zfp:8 -b 50% --methods vdnn-all,cswap+,tide"),
        ),
        step(
            "graphs",
            5,
            "each iteration as one CUDA graph",
            check("resnet50:batch=16", "--graph -b 60% --methods swap-opt,tide"),
        ),
        step(
            "bf16",
            5,
            "elements of 16 bits",
            check("vit-l16:batch=24:dtype=bf16", "-b 60% --methods dtr,tide"),
        ),
        step(
            "too-large",
            8,
            "a batch that does not fit the device: profiled under a plan, planned, run",
            Work::Commands(vec![
                written(
                    "profile",
                    "profile resnet50 --batch 1200 --device cuda --warmup 1 --repeats 2 -o .",
                    Figures::None,
                ),
                written(
                    "plan",
                    "plan trace.json -m machine.json -b 70% -o plan.json --evaluations 20000",
                    Figures::None,
                ),
                printed(
                    "run",
                    "run plan.json --trace trace.json -m machine.json --device cuda --no-in-core \
                     --iterations 2",
                ),
            ]),
        ),
        step(
            "codec-speed",
            4,
            "codecs' kernels over copies within the device's memory",
            Work::Commands(vec![printed(
                "bench",
                "bench codecs --device cuda --size 256MiB --dtype f32",
            )]),
        ),
        step(
            "training",
            2,
            "a small network trained with codecs, against training without",
            Work::Commands(vec![printed("train", "train --device cuda --epochs 2")]),
        ),
        step(
            "sanitizer",
            4,
            "kernels under NVIDIA's compute-sanitizer",
            Work::Commands(vec![
                sanitized(
                    "codecs",
                    MEMCHECK,
                    "bench codecs --device cuda --size 64KiB --runs 1 --dtype f32",
                ),
                sanitized("layers", MEMCHECK, "acceptance --inside --only sanitizer -o ."),
                sanitized("races", RACECHECK, "acceptance --inside --only sanitizer -o ."),
            ]),
        ),
    ]
}

/// Ends with 9 where it finds something, which no command of ours does.
const MEMCHECK: &[&str] = &["--tool", "memcheck", "--error-exitcode", "9", "--print-limit", "5"];
const RACECHECK: &[&str] = &["--tool", "racecheck", "--error-exitcode", "9", "--print-limit", "5"];

fn found() -> Work {
    Work::Commands(vec![printed("devices", "list devices")])
}

/// Small, for a processor: that all this works when a GPU is there.
fn on_host() -> Vec<Step> {
    let step = |name, share, about, work| Step { name, about, share, work };
    let quick = "--bandwidth 4GB/s --warmup 1 --repeats 2";
    let check = |networks: &str, more: &str| {
        let line = format!("check {networks} {quick} --iterations 1 --evaluations 300 {more} -o .");
        Work::Commands(vec![printed("check", &line)])
    };
    let methods = "-b 80%,60% --methods swap-opt,tide";
    let no_gpu = |name, about| step(name, 1, about, Work::Skip("it is about GPUs"));
    vec![
        step("device", 1, "what the machine is", found()),
        step(
            "codecs",
            2,
            "speeds of codecs",
            Work::Commands(vec![printed(
                "bench",
                "bench codecs --size 64KiB --runs 1 --dtype f32",
            )]),
        ),
        no_gpu("layers", "every layer against the host's"),
        step(
            "machine",
            3,
            "the link, contention",
            Work::Commands(vec![written(
                "machine",
                &format!("profile plain20-cifar10 --batch 2 {quick} -o ."),
                Figures::InFile("machine.json"),
            )]),
        ),
        step(
            "plain20",
            4,
            "planned at 80, 60 %, run, against predictions",
            check("plain20:batch=4:image=32", methods),
        ),
        step(
            "stories260k",
            4,
            "the same of a transformer",
            check("stories260k:batch=1:sequence=64", methods),
        ),
        step(
            "compressed",
            4,
            "plans that compress, run",
            check("plain20:batch=4:image=32", "--sample zvc -b 60% --methods cswap+"),
        ),
        no_gpu("graphs", "each iteration as one CUDA graph"),
        no_gpu("too-large", "a batch that does not fit the device"),
        step(
            "training",
            4,
            "a small network trained with codecs, against training without",
            Work::Commands(vec![printed("train", "train --epochs 1 --batches 2")]),
        ),
        no_gpu("sanitizer", "kernels under NVIDIA's compute-sanitizer"),
    ]
}
