//! What streams are given for an iteration, resolved once: to hand it out is then to go over a
//! list.

use std::sync::Arc;

use schema::{Bytes, Direction};

use super::CudaError;
use super::by_host::ByHost;
use super::commands::{Command, Commands, OnHost};
use super::driver::host_call::HostCall;
use super::driver::{Kernels, Prepared, Stream};
use super::launches::{BLAS, DNN};
use super::libraries::Opened;
use super::places::Places;

pub(super) enum Step {
    Kernel(Prepared),
    Library { program: &'static str, kernel: String, arguments: Box<[u64]> },
    Copy { direction: Direction, device: u64, host: OnHost, bytes: Bytes },
    ByHost(Box<HostCall>),
}

pub(super) struct Steps {
    all: Vec<Step>,
    /// Of each action, where its steps end.
    ends: Vec<usize>,
}

impl Steps {
    pub fn new(
        commands: &Commands,
        kernels: &Kernels,
        places: &Places,
        by_host: &Arc<ByHost>,
    ) -> Result<Self, CudaError> {
        let (mut all, mut ends) = (Vec::new(), Vec::with_capacity(commands.issues.len()));
        for issue in &commands.issues {
            for command in &issue.commands {
                all.push(match command {
                    Command::Launch(launch) if [BLAS.0, DNN].contains(&launch.program) => {
                        Step::Library {
                            program: launch.program,
                            kernel: launch.kernel.clone(),
                            arguments: launch.arguments.iter().map(|a| places.value(a)).collect(),
                        }
                    }
                    Command::Launch(launch) => {
                        Step::Kernel(kernels.prepare(launch, |argument| places.value(argument))?)
                    }
                    Command::Copy { bytes: 0, .. } => continue,
                    Command::Copy { direction, device, host, bytes } => Step::Copy {
                        direction: *direction,
                        device: *device,
                        host: *host,
                        bytes: Bytes(*bytes),
                    },
                    Command::ByHost(work) => {
                        let bytes = work.layout.bytes() as u64;
                        let staging = (&places.staging[issue.lane.index()], 0, bytes);
                        let small = (&places.host, work.small, work.reserved);
                        let failed = |why: codecs::Error| CudaError::Call {
                            what: "making a codec of the host",
                            why: why.to_string(),
                        };
                        let call = by_host.call(issue.action, work).map_err(failed)?;
                        Step::ByHost(HostCall::new([staging, small], call))
                    }
                });
            }
            ends.push(all.len());
        }
        Ok(Self { all, ends })
    }

    /// Those of the action of this number.
    pub fn of(&self, action: usize) -> &[Step] {
        let begin = action.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[begin..self.ends[action]]
    }
}

impl Step {
    pub fn give(&self, stream: &Stream, places: &Places, opened: &Opened) -> Result<(), CudaError> {
        match self {
            Self::Kernel(prepared) => stream.launch(prepared),
            Self::Library { program, kernel, arguments } => {
                opened.carry_out((program, kernel), arguments).map(|_| ())
            }
            Self::ByHost(call) => stream.call(call),
            Self::Copy { direction, device, host, bytes } => {
                let host = match *host {
                    OnHost::Arena(at) => (&places.host, at),
                    OnHost::Staging(lane) => (&places.staging[lane.index()], 0),
                };
                let device = (&places.arena, *device);
                stream.copy(*direction, device, host, bytes.0)
            }
        }
    }
}
