//! An iteration as a CUDA graph: what streams are given is captured once, and launched with one
//! call from then on.
//!
//! While a stream is captured, nothing runs. What it is given becomes a node behind the node before
//! it, and an event that it waits for becomes an edge; so the graph has the order of the streams,
//! which is the plan's. Events for that order have no time, and events with a time are nodes of
//! their own: they are recorded anew with each launch.
#![allow(unsafe_code)]

use std::ptr;

use cudarc::driver::result;
use cudarc::driver::sys::{
    self, CUevent_record_flags, CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUstreamCaptureMode,
};

use super::CudaError;
use super::driver::{Context, Event, Stream};
use super::error::failed;

#[derive(Debug)]
pub(super) struct Graph {
    executable: CUgraphExec,
    context: Context,
}

// SAFETY: a graph may be launched by one thread at a time, whichever it is.
unsafe impl Send for Graph {}

const CAPTURING: &str = "capturing an iteration as a graph";

impl Graph {
    /// Captures what `hand_out` gives to a stream, and to others that wait for it and for which it
    /// waits in the end. The stream is as before when this returns.
    pub fn capture(
        context: &Context,
        stream: &Stream,
        hand_out: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<Self, CudaError> {
        let failed = failed(CAPTURING);
        context.bind()?;
        // Other threads may do as they like; this one does nothing else until the capture ends.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is open, and nothing else is captured on it.
        unsafe { result::stream::begin_capture(stream.raw(), mode) }.map_err(failed)?;
        let handed_out = hand_out();
        // SAFETY: the capture began on this stream. It is ended whatever became of it.
        let graph = unsafe { result::stream::end_capture(stream.raw()) };
        handed_out?;
        let graph = Captured(graph.map_err(failed)?);
        if graph.0.is_null() {
            return Err(CudaError::Call { what: CAPTURING, why: "there is none".into() });
        }
        // A node has its stream's priority, which without this flag would be that of the launch.
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        // SAFETY: the graph was captured just now.
        let executable = unsafe { result::graph::instantiate(graph.0, flags) };
        Ok(Self { executable: executable.map_err(failed)?, context: context.clone() })
    }

    pub fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: the graph is instantiated; what its nodes use lives until the stream is done.
        let launched = unsafe { result::graph::launch(self.executable, stream.raw()) };
        launched.map_err(failed("launching an iteration as a graph"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: instantiated, and given back once. What fails has no remedy here.
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
    }
}

struct Captured(CUgraph);

impl Drop for Captured {
    fn drop(&mut self) {
        if !ptr::eq(self.0, ptr::null()) {
            // SAFETY: captured, and given back once. What fails has no remedy here.
            let _ = unsafe { result::graph::destroy(self.0) };
        }
    }
}

impl Stream {
    /// While it is captured: notes the moment, with each launch anew, when all that the stream was
    /// given so far has ended.
    pub fn record_in_graph(&self, event: &Event) -> Result<(), CudaError> {
        let external = CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: both are open; the event outlives the graph, which the device holds beside it.
        let recorded =
            unsafe { sys::cuEventRecordWithFlags(event.raw(), self.raw(), external) }.result();
        recorded.map_err(failed("recording an event in a graph"))
    }
}
