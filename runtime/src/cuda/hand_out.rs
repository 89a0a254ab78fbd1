//! Handing an iteration out to streams: command by command, or as a graph of all of them.

use schema::{ActionId, Direction};

use super::CudaError;
use super::commands::{At, Command, Control, Issue, OnHost};
use super::device::{CudaDevice, State, Torn, failure};
use super::driver::Event;
use super::graph::Graph;
use super::launches::Argument;

impl CudaDevice<'_> {
    /// Hands out an iteration. Streams are at work when it returns.
    ///
    /// As a graph from the second one on: libraries and the driver load at its first use what they
    /// have not yet, which they may not do while a stream is captured.
    pub(super) fn hand_out(&mut self, state: State) -> Result<(), Torn> {
        let at_first = |error: CudaError| Torn::At(ActionId(0), failure(error));
        self.control.write(Control::STATUS, &[u64::MAX, 0]).map_err(at_first)?;
        if let Some(zeros) = &self.commands.zeros {
            self.control.write(zeros.at, &zeros.nothing()).map_err(at_first)?;
        }
        if !self.as_graph || state == State::New {
            return self.hand_out_commands();
        }
        let graph = match self.graph.take() {
            Some(graph) => graph,
            None => self.capture().map_err(at_first)?,
        };
        let launched = graph.launch(&self.streams[0]).map_err(at_first);
        self.graph = Some(graph);
        launched
    }

    fn hand_out_commands(&self) -> Result<(), Torn> {
        let at_first = |error: CudaError| Torn::At(ActionId(0), failure(error));
        self.streams[0].record(&self.origin).map_err(at_first)?;
        for stream in &self.streams[1..] {
            stream.wait(&self.origin).map_err(at_first)?;
        }
        for issue in &self.commands.issues {
            if self.stop.is_requested() {
                return Err(Torn::Stopped);
            }
            self.issue(issue, None).map_err(|error| Torn::At(issue.action, failure(error)))?;
        }
        Ok(())
    }

    /// The same commands as a graph: all streams begin behind the first and end before it.
    fn capture(&self) -> Result<Graph, CudaError> {
        let order = || self.context.order();
        let (fork, orders) = (order()?, self.moments.iter().map(|_| order()));
        let orders: Vec<Event> = orders.collect::<Result<_, _>>()?;
        let joins: Vec<Event> =
            self.streams[1..].iter().map(|_| order()).collect::<Result<_, _>>()?;
        let first = &self.streams[0];
        Graph::capture(&self.context, first, || {
            first.record_in_graph(&self.origin)?;
            first.record(&fork)?;
            for stream in &self.streams[1..] {
                stream.wait(&fork)?;
            }
            for issue in &self.commands.issues {
                self.issue(issue, Some(&orders))?;
            }
            for (stream, join) in self.streams[1..].iter().zip(&joins) {
                stream.record(join)?;
                first.wait(join)?;
            }
            Ok(())
        })
    }

    /// Gives an action to its stream. In a graph, `orders` has an event for the end of each.
    fn issue(&self, issue: &Issue, orders: Option<&[Event]>) -> Result<(), CudaError> {
        let stream = &self.streams[issue.lane.index()];
        let note = |event: &Event| match orders {
            Some(_) => stream.record_in_graph(event),
            None => stream.record(event),
        };
        for on in &issue.waits {
            let ended = orders.map_or(&self.moments[on.index()][1], |all| &all[on.index()]);
            stream.wait(ended)?;
        }
        let [start, end] = &self.moments[issue.action.index()];
        note(start)?;
        for command in &issue.commands {
            match command {
                Command::Launch(launch) => {
                    let arguments: Vec<u64> =
                        launch.arguments.iter().map(|argument| self.value(argument)).collect();
                    let named = (launch.program, &launch.kernel[..]);
                    if self.opened.carry_out(named, &arguments)? {
                        continue;
                    }
                    let sizes = [launch.blocks, launch.threads];
                    stream.launch(&self.kernels, named, sizes, &arguments)?;
                }
                Command::Copy { bytes: 0, .. } => {}
                Command::ByHost(_) => {
                    if let Some(call) = self.calls.get(&issue.action) {
                        stream.call(call)?;
                    }
                }
                Command::Copy { direction, device, host, bytes } => {
                    let host = match *host {
                        OnHost::Arena(at) => (&self.host, at),
                        OnHost::Way(lane) => (&self.ways[lane.index()], 0),
                    };
                    let device = (&self.arena, *device);
                    match direction {
                        Direction::D2h => stream.copy_out(device, host, *bytes)?,
                        Direction::H2d => stream.copy_in(device, host, *bytes)?,
                    }
                }
            }
        }
        note(end)?;
        orders.map_or(Ok(()), |all| stream.record(&all[issue.action.index()]))
    }

    /// An argument as the device takes it. What kernels touch behind an address is the plan's, as
    /// the proof has it; here is checked that it begins inside.
    fn value(&self, argument: &Argument<At>) -> u64 {
        match *argument {
            Argument::Address(At::Arena(at), more) => self.arena.address(at + more, 0),
            Argument::Address(At::Host(at), more) => self.host.address(at + more, 0),
            Argument::Address(At::Control(at), more) => self.control.address(at + more, 0),
            Argument::Address(At::Scratch(lane, at), more) => {
                self.scratch[lane.index()].address(at + more, 0)
            }
            Argument::Nothing => 0,
            Argument::Status => self.control.address(Control::STATUS, 8),
            Argument::Number(number) => number,
        }
    }
}
