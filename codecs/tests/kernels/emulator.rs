//! Runs kernels on the CPU: compiled by the system's C++ compiler with what CUDA has emulated.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use codecs::kernels::{Launch, Program};

/// An argument of a launch here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// An address: so many bytes into a buffer.
    Buffer(usize, u64),
}

/// The C++ compiler, or nothing where there is none.
fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    let works = |name: &&str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    *FOUND.get_or_init(|| ["c++", "g++", "clang++"].into_iter().find(works))
}

/// A program that runs.
pub struct Emulator {
    child: Child,
}

impl Emulator {
    /// Compiles a program; nothing where there is no compiler, which is said.
    pub fn new(program: &Program) -> Option<Self> {
        let name = program.name();
        let Some(compiler) = compiler().filter(|_| cfg!(target_os = "linux")) else {
            eprintln!("skipped: kernels of `{name}` need a C++ compiler (c++, g++ or clang++)");
            return None;
        };
        let tests = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        // Processes of the same tests may run at once.
        let stem = tests.join(format!("kernels-{name}-{}", std::process::id()));
        let (source, binary) = (stem.with_extension("cpp"), stem.with_extension("out"));
        let text = include_str!("emulator.h");
        let entries: String = program.kernels().iter().map(|kernel| entry(kernel)).collect();
        let text = text.replace("EMULATED_PROGRAM", &program.source());
        std::fs::write(&source, text.replace("EMULATED_KERNELS", &entries)).unwrap();
        let options = ["-std=c++17", "-O1", "-g", "-fwrapv", "-fno-strict-aliasing", "-w"];
        let exact = ["-ffp-contract=off", "-fno-stack-protector", "-U_FORTIFY_SOURCE"];
        let output = Command::new(compiler)
            .args(options)
            .args(exact)
            .arg(&source)
            .arg("-o")
            .arg(&binary)
            .output()
            .unwrap();
        assert!(output.status.success(), "{name}:\n{}", String::from_utf8_lossy(&output.stderr));
        let child =
            Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It runs; the names are not needed any more.
        std::fs::remove_file(&source).unwrap();
        std::fs::remove_file(&binary).unwrap();
        Some(Self { child })
    }

    /// Carries out launches on buffers. The order of threads follows from the seed.
    pub fn run(&mut self, seed: u64, buffers: &mut [Vec<u8>], launches: &[Launch<Value>]) {
        let mut request = Vec::new();
        let mut put = |value: u64| request.extend_from_slice(&value.to_le_bytes());
        put(seed);
        put(buffers.len() as u64);
        for buffer in buffers.iter() {
            request.extend_from_slice(&(buffer.len() as u64).to_le_bytes());
            request.extend_from_slice(buffer);
        }
        let mut put = |value: u64| request.extend_from_slice(&value.to_le_bytes());
        put(launches.len() as u64);
        for launch in launches {
            let mut put = |value: u64| request.extend_from_slice(&value.to_le_bytes());
            put(launch.kernel.len() as u64);
            request.extend_from_slice(launch.kernel.as_bytes());
            let mut put = |value: u64| request.extend_from_slice(&value.to_le_bytes());
            put(u64::from(launch.blocks));
            put(u64::from(launch.threads));
            put(launch.arguments.len() as u64);
            for argument in &launch.arguments {
                match *argument {
                    Value::Number(value) => [0, value].map(&mut put),
                    Value::Buffer(buffer, at) => [1 + buffer as u64, at].map(&mut put),
                };
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

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// How the emulator finds a kernel by its name.
fn entry(kernel: &str) -> String {
    format!(
        "{{\"{kernel}\", {{[](const uint64_t* a) {{ call(program::{kernel}, a); }}, \
         count(program::{kernel})}}}},\n"
    )
}
