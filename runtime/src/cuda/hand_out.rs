//! Handing an iteration out to streams: command by command, or as a graph of all of them.

use super::CudaError;
use super::commands::{Control, Issue};
use super::device::{CudaDevice, failure};
use super::driver::Event;
use super::graph::Graph;
use crate::device::Interruption;
use crate::device::residents::State;

impl CudaDevice<'_> {
    /// Hands out an iteration. Streams are at work when it returns.
    ///
    /// As a graph from the second one on: libraries and the driver load at its first use what they
    /// have not yet, which they may not do while a stream is captured.
    pub(super) fn hand_out(&mut self, state: State) -> Result<(), Interruption> {
        self.places.control.write(Control::STATUS, &[u64::MAX, 0])?;
        if let Some(zeros) = &self.zeros {
            self.places.control.write(zeros.at, &zeros.nothing())?;
        }
        if !self.as_graph || state == State::New {
            return self.hand_out_commands();
        }
        let graph = match self.graph.take() {
            Some(graph) => graph,
            None => self.capture()?,
        };
        let launched = graph.launch(&self.streams[0]);
        self.graph = Some(graph);
        Ok(launched?)
    }

    fn hand_out_commands(&self) -> Result<(), Interruption> {
        self.streams[0].record(&self.moments.origin)?;
        for stream in &self.streams[1..] {
            stream.wait(&self.moments.origin)?;
        }
        for issue in &self.commands.issues {
            if self.stop.is_requested() {
                return Err(Interruption::Stopped);
            }
            self.issue(issue, None)
                .map_err(|error| Interruption::Failed(issue.action, failure(error)))?;
        }
        Ok(())
    }

    /// The same commands as a graph: all streams begin behind the first and end before it.
    fn capture(&self) -> Result<Graph, CudaError> {
        let order = || self.context.order();
        let (fork, orders) = (order()?, self.commands.issues.iter().map(|_| order()));
        let orders: Vec<Event> = orders.collect::<Result<_, _>>()?;
        let joins: Vec<Event> =
            self.streams[1..].iter().map(|_| order()).collect::<Result<_, _>>()?;
        let first = &self.streams[0];
        Graph::capture(&self.context, first, || {
            first.record_in_graph(&self.moments.origin)?;
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
            stream.wait(orders.map_or(self.moments.end(*on), |all| &all[on.index()]))?;
        }
        if let Some(start) = self.moments.start(issue.action) {
            note(start)?;
        }
        for step in self.steps.of(issue.action.index()) {
            step.give(stream, &self.places, &self.opened)?;
        }
        note(self.moments.end(issue.action))?;
        orders.map_or(Ok(()), |all| stream.record(&all[issue.action.index()]))
    }
}
