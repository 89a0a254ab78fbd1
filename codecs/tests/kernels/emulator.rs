//! Runs kernels on the CPU: compiled by the system's C++ compiler with what CUDA has emulated.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use codecs::kernels::{Launch, Program};

/// Exact floating point, C's wrapping and aliasing as CUDA has them, and jumps between stacks.
const OPTIONS: [&str; 9] = [
    "-std=c++17",
    "-O1",
    "-g",
    "-w",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
];

/// An argument of a launch here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    /// An address: so many bytes into a buffer.
    Buffer(usize, u64),
}

/// The C++ compiler; nothing where there is none, which is said.
fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    let works = |name: &&str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let found = *FOUND.get_or_init(|| ["c++", "g++", "clang++"].into_iter().find(works));
    let found = found.filter(|_| cfg!(target_os = "linux"));
    if found.is_none() {
        eprintln!("skipped: kernels need a C++ compiler (c++, g++ or clang++) on Linux");
    }
    found
}

/// A shared library of programs and more C++ behind them; nothing where there is no compiler, which
/// is said.
#[allow(dead_code, reason = "not every test that emulates kernels has more")]
pub fn library(programs: &[Program], more: &str) -> Option<PathBuf> {
    Some(compiled(programs, compiler()?, more, &["-shared", "-fPIC"]))
}

/// A program that runs.
pub struct Emulator {
    child: Child,
}

impl Emulator {
    /// Compiles programs; nothing where there is no compiler, which is said.
    pub fn new(programs: &[Program]) -> Option<Self> {
        let binary = compiled(programs, compiler()?, "", &[]);
        let child =
            Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Some(Self { child })
    }

    /// Carries out launches on buffers. The order of threads follows from the seed.
    pub fn run(&mut self, seed: u64, buffers: &mut [Vec<u8>], launches: &[Launch<Value>]) {
        let mut request = Vec::new();
        put(&mut request, [seed, buffers.len() as u64]);
        buffers.iter().for_each(|buffer| put_bytes(&mut request, buffer));
        put(&mut request, [launches.len() as u64]);
        for launch in launches {
            put_bytes(&mut request, format!("{}/{}", launch.program, launch.kernel).as_bytes());
            let arguments = launch.arguments.len() as u64;
            put(&mut request, [launch.blocks.into(), launch.threads.into(), arguments]);
            for argument in &launch.arguments {
                match *argument {
                    Value::Number(value) => put(&mut request, [0, value]),
                    Value::Buffer(buffer, at) => put(&mut request, [1 + buffer as u64, at]),
                }
            }
        }
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(&request).unwrap();
        input.flush().unwrap();
        let output = self.child.stdout.as_mut().unwrap();
        for buffer in buffers {
            output.read_exact(buffer).expect("the emulator says why on the standard error");
        }
    }
}

fn put<const N: usize>(request: &mut Vec<u8>, numbers: [u64; N]) {
    request.extend(numbers.map(u64::to_le_bytes).concat());
}

fn put_bytes(request: &mut Vec<u8>, bytes: &[u8]) {
    put(request, [bytes.len() as u64]);
    request.extend_from_slice(bytes);
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The executable of programs, which is compiled once for each text that they ever have. Each
/// program has a namespace, because what they begin with is the same.
fn compiled(programs: &[Program], compiler: &str, more: &str, options: &[&str]) -> PathBuf {
    let name = programs[0].name();
    let (mut sources, mut entries) = (String::new(), String::new());
    for program in programs {
        let name = program.name();
        let source = program.source().replace("extern \"C\" __global__", "static __global__");
        sources.push_str(&format!("namespace {name} {{\n{source}\n}}\n"));
        entries.extend(program.kernels().iter().map(|kernel| entry(name, kernel)));
    }
    let text = include_str!("emulator.h").replace("EMULATED_PROGRAM", &sources);
    let text = text.replace("EMULATED_KERNELS", &entries) + more;
    let mut hasher = DefaultHasher::new();
    (&text, OPTIONS, options, compiler).hash(&mut hasher);
    let stem = format!("kernels-{name}-{:016x}", hasher.finish());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let binary = folder.join(&stem);
    if binary.exists() {
        return binary;
    }
    // Others may compile the same at this moment: each under a name of its own, and whoever is last
    // replaces what is the same.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let own = format!("{stem}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let (source, fresh) = (folder.join(format!("{own}.cpp")), folder.join(&own));
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new(compiler);
    let command = command.args(OPTIONS).args(options).arg(&source).arg("-o").arg(&fresh);
    let made = command.output().unwrap();
    assert!(made.status.success(), "{name}:\n{}", String::from_utf8_lossy(&made.stderr));
    std::fs::remove_file(&source).unwrap();
    std::fs::rename(&fresh, &binary).unwrap();
    binary
}

/// How the emulator finds a kernel by its name.
fn entry(program: &str, kernel: &str) -> String {
    let function = format!("program::{program}::{kernel}");
    format!(
        "{{\"{program}/{kernel}\", {{[](const uint64_t* a) {{ call({function}, a); }}, \
         count({function})}}}},\n"
    )
}
