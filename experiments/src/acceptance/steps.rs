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
    /// What it does, one after the other, in its folder; nothing on a device that it is not about.
    pub(super) commands: Vec<Command>,
}

pub(super) struct Command {
    /// What its figures are called.
    pub what: &'static str,
    /// The program that runs it, where one does, and that program's own arguments.
    pub under: &'static [&'static str],
    pub arguments: Vec<String>,
    pub figures: Figures,
}

/// Where a command's figures are.
pub(super) enum Figures {
    None,
    Printed,
    /// In a file that it writes into the step's folder.
    InFile(&'static str),
}

fn step(name: &'static str, share: u32) -> Step {
    Step { name, about: "", share, commands: Vec::new() }
}

impl Step {
    /// How long it may take of the time that is left, with the steps from it on: twice its share of it, as
    /// others take less.
    pub(super) fn limit(&self, left: Duration, from_it_on: &[Step]) -> Duration {
        let all: u32 = from_it_on.iter().map(|step| step.share).sum();
        left.min(left.mul_f64(2.0 * f64::from(self.share) / f64::from(all.max(1))))
    }

    fn shows(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    fn does(mut self, what: &'static str, line: &str, figures: Figures) -> Self {
        let arguments = line.split_whitespace().map(String::from).collect();
        self.commands.push(Command { what, under: &[], arguments, figures });
        self
    }

    fn prints(self, what: &'static str, line: &str) -> Self {
        self.does(what, &format!("{line} --format json"), Figures::Printed)
    }

    /// `check` of networks, as a device wants it.
    fn checks(self, networks: &str, on: &str, more: &str) -> Self {
        self.prints("check", &format!("check {networks} {on} {more}"))
    }

    /// A command under NVIDIA's checker of memory or races.
    fn sanitizes(mut self, what: &'static str, under: &'static [&'static str], line: &str) -> Self {
        self = self.does(what, line, Figures::None);
        self.commands.last_mut().expect("it was just added").under = under;
        self
    }
}

/// All steps on the host device, or on a GPU.
pub fn steps(on_host_device: bool) -> Vec<Step> {
    if on_host_device { on_host() } else { on_cuda() }
}

const CUDA: &str = "--device cuda -o . --repeats 9 --iterations 5";
const METHODS: &str = "--methods swap-opt,pooch,dtr,tide -b 80%,60%,40%";

/// Ends with 9 where it finds something, which no command of ours does.
const MEMCHECK: &[&str] =
    &["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "--print-limit", "5"];
const RACECHECK: &[&str] =
    &["compute-sanitizer", "--tool", "racecheck", "--error-exitcode", "9", "--print-limit", "5"];

fn on_cuda() -> Vec<Step> {
    let sanitizer = "acceptance --inside --only sanitizer -o .";
    let machine = "profile resnet18-cifar10 --batch 64 --device cuda --sample zvc,zfp:8 -o .";
    let profile = "profile resnet50 --batch 1200 --device cuda --warmup 1 --repeats 2 -o .";
    let plan = "plan trace.json -m machine.json -b 70% -o plan.json --evaluations 20000";
    let run = "run plan.json --trace trace.json -m machine.json --device cuda --no-in-core --iterations 2";
    let compress = "--sample zvc,zfp:8 -b 50% --methods vdnn-all,cswap+,tide";
    vec![
        step("device", 1)
            .shows("what the machine is, and which libraries are found")
            .prints("devices", "list devices"),
        step("codecs", 2)
            .shows("every codec's kernels against the processor's bytes, odd sizes too, outputs poisoned")
            .prints("bench", "bench codecs --device cuda --size 1MiB --runs 2"),
        step("layers", 4)
            .shows("every layer against the host's: own kernels, cuBLAS, cuDNN")
            .does("layers", "acceptance --inside --only layers -o .", Figures::Printed),
        step("machine", 3)
            .shows("the link's curves and latencies, both directions, contention, speeds of codecs")
            .does("machine", machine, Figures::InFile("machine.json")),
        step("resnet50", 9)
            .shows("planned at 80, 60, 40 %, run, against predictions")
            .checks("resnet50:batch=64", CUDA, METHODS),
        step("vit-l16", 9)
            .shows("the same of a transformer")
            .checks("vit-l16:batch=24", CUDA, METHODS),
        step("unet", 6)
            .shows("the same of a network of large activations")
            .checks("unet:batch=4", CUDA, METHODS),
        step("compressed", 6)
            .shows("plans that compress, run")
            .checks("resnet50:batch=32", CUDA, compress),
        step("graphs", 5)
            .shows("each iteration as one CUDA graph")
            .checks("resnet50:batch=16", CUDA, "--graph -b 60% --methods swap-opt,tide"),
        step("bf16", 5)
            .shows("elements of 16 bits")
            .checks("vit-l16:batch=24:dtype=bf16", CUDA, "-b 60% --methods dtr,tide"),
        step("state", 5)
            .shows("Adam's state and parameters on the host between their uses")
            .checks("gpt2:batch=4:sequence=512:optimizer=adam", CUDA, "-b 60%,30% --methods tide"),
        step("too-large", 8)
            .shows("a batch that does not fit the device: profiled under a plan, planned, run")
            .does("profile", profile, Figures::None)
            .does("plan", plan, Figures::None)
            .prints("run", run),
        step("codec-speed", 4)
            .shows("codecs' kernels over copies within the device's memory")
            .prints("bench", "bench codecs --device cuda --size 256MiB --dtype f32"),
        step("training", 2)
            .shows("a small network trained with codecs, against training without")
            .prints("train", "train --device cuda --epochs 2"),
        step("sanitizer", 4)
            .shows("kernels under NVIDIA's compute-sanitizer")
            .sanitizes(
                "codecs",
                MEMCHECK,
                "bench codecs --device cuda --size 64KiB --runs 1 --dtype f32",
            )
            .sanitizes("layers", MEMCHECK, sanitizer)
            .sanitizes("races", RACECHECK, sanitizer),
    ]
}

const HOST: &str = "-o . --bandwidth 4GB/s --warmup 1 --repeats 2 --iterations 1 --evaluations 300";

/// Small, for a processor: that all this works when a GPU is there.
fn on_host() -> Vec<Step> {
    let methods = "-b 80%,60% --methods swap-opt,tide";
    let compress = "--sample zvc -b 60% --methods cswap+";
    let machine = "profile plain20-cifar10 --batch 2 --bandwidth 4GB/s --warmup 1 --repeats 2 -o .";
    vec![
        step("device", 1).shows("what the machine is").prints("devices", "list devices"),
        step("codecs", 2)
            .shows("speeds of codecs")
            .prints("bench", "bench codecs --size 64KiB --runs 1 --dtype f32"),
        step("layers", 1).shows("every layer against the host's"),
        step("machine", 3).shows("the link, contention").does(
            "machine",
            machine,
            Figures::InFile("machine.json"),
        ),
        step("plain20", 4).shows("planned at 80, 60 %, run, against predictions").checks(
            "plain20:batch=4:image=32",
            HOST,
            methods,
        ),
        step("stories260k", 4).shows("the same of a transformer").checks(
            "stories260k:batch=1:sequence=64",
            HOST,
            methods,
        ),
        step("compressed", 4).shows("plans that compress, run").checks(
            "plain20:batch=4:image=32",
            HOST,
            compress,
        ),
        step("graphs", 1).shows("each iteration as one CUDA graph"),
        step("too-large", 1).shows("a batch that does not fit the device"),
        step("training", 4)
            .shows("a small network trained with codecs, against training without")
            .prints("train", "train --epochs 1 --batches 2"),
        step("sanitizer", 1).shows("kernels under NVIDIA's compute-sanitizer"),
    ]
}
