//! The arenas, and the slices of them that actions work on: the one place with raw pointers.
//!
//! # Why access is exclusive
//!
//! A [`Turn`] stands for an action that runs: [`super::gate`] makes one per action and iteration,
//! once everything has ended that the action comes after, and it ends with the action. The plan was
//! [proven](simulator::prove): any two buffers that share addresses are ordered, so that all uses
//! of the one have ended before the other comes to be; a buffer is filled before it is read, and by
//! one action alone; a host buffer, too. So two actions that run at once share no addresses that
//! either writes. Ops that change a tensor in place (which a plan states as reading it) are ordered
//! against every other user of that buffer, on the host as on the device, which
//! [`crate::device::check`] sees to. Within an
//! action, operands are disjoint: what an output lies over is not handed out as an input
//! ([`crate::device::script`]).
//!
//! Everything lies within the arena: the proof says so, and slices check it once more.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::gate::Turn;
use crate::device::residents::Resident;
use crate::device::script::{CodecWork, CopyWork, OpWork, Place};
use crate::network::Operands;

const ALIGNMENT: usize = 256;
/// No page of memory is smaller.
const PAGE: usize = 4096;

pub(super) struct Arena {
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is plain bytes, and access to it is as the module's documentation says.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Memory of so many bytes, all of it backed by the system; none where there is not as much.
    pub fn new(bytes: usize) -> Option<Self> {
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        for page in (0..layout.size()).step_by(PAGE) {
            // SAFETY: within the allocation, which nobody else knows yet. Volatile, so that the
            // page is written although it is zero already.
            unsafe { memory.add(page).write_volatile(0) };
        }
        Some(Self { memory, bytes })
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()
    }

    fn at(&self, place: Place) -> NonNull<u8> {
        let end = place.begin.checked_add(place.bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "a place outside of the arena");
        // SAFETY: within the allocation.
        unsafe { self.memory.add(place.begin) }
    }

    /// SAFETY of the caller: nobody writes there while the slice lives.
    unsafe fn shared(&self, place: Place) -> &[u8] {
        // SAFETY: within the allocation, initialised, and not written meanwhile.
        unsafe { NonNull::slice_from_raw_parts(self.at(place), place.bytes).as_ref() }
    }

    /// SAFETY of the caller: nobody else reads or writes there while the slice lives.
    #[expect(clippy::mut_from_ref, reason = "disjoint parts are handed out at once")]
    unsafe fn exclusive(&self, place: Place) -> &mut [u8] {
        // SAFETY: within the allocation, initialised, and nobody else's meanwhile.
        unsafe { NonNull::slice_from_raw_parts(self.at(place), place.bytes).as_mut() }
    }

    /// Bytes between iterations, when nothing else can have the arena.
    pub fn bytes(&mut self, place: Place) -> &mut [u8] {
        // SAFETY: `self` is borrowed mutably.
        unsafe { self.exclusive(place) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.bytes) {
            // SAFETY: allocated with this layout, and no slice outlives the arena.
            unsafe { dealloc(self.memory.as_ptr(), layout) };
        }
    }
}

/// Bytes at a multiple of 4, as scripts have cells.
fn as_cells(bytes: &[u8]) -> &[f32] {
    // SAFETY: every bit pattern is a float; the alignment is checked.
    let (before, cells, after) = unsafe { bytes.align_to::<f32>() };
    assert!(before.is_empty() && after.is_empty(), "cells that are not aligned");
    cells
}

fn as_cells_mut(bytes: &mut [u8]) -> &mut [f32] {
    // SAFETY: every bit pattern is a float, and every float bytes; the alignment is checked.
    let (before, cells, after) = unsafe { bytes.align_to_mut::<f32>() };
    assert!(before.is_empty() && after.is_empty(), "cells that are not aligned");
    cells
}

pub(super) struct Memory {
    pub device: Arena,
    pub host: Arena,
}

impl Memory {
    /// A tensor's bytes between iterations.
    pub fn resident(&mut self, resident: Resident) -> &mut [u8] {
        match resident {
            Resident::Device(place) => self.device.bytes(place),
            Resident::Host(place) => self.host.bytes(place),
        }
    }

    /// The arena that has an op's operands.
    fn arena(&self, work: &OpWork) -> &Arena {
        if work.there { &self.host } else { &self.device }
    }

    /// One of an op's operands.
    pub fn read<'t>(&'t self, _turn: &'t mut Turn, work: &OpWork, place: Place) -> &'t [u8] {
        // SAFETY: the op's turn.
        unsafe { self.arena(work).shared(place) }
    }

    /// One of an op's outputs.
    pub fn write<'t>(&'t self, _turn: &'t mut Turn, work: &OpWork, place: Place) -> &'t mut [u8] {
        // SAFETY: the op's turn.
        unsafe { self.arena(work).exclusive(place) }
    }

    pub fn operands<'t>(&'t self, _turn: &'t mut Turn, work: &OpWork) -> Operands<'t> {
        let device = self.arena(work);
        // SAFETY: the op's turn; reads, updates, writes and workspace do not overlap.
        unsafe {
            Operands {
                reads: (work.reads.iter())
                    .map(|read| read.map(|place| as_cells(device.shared(place))))
                    .collect(),
                updates: cells_of(device, &work.updates),
                writes: cells_of(device, &work.writes),
                workspace: as_cells_mut(device.exclusive(work.workspace)),
            }
        }
    }

    /// What a copy to the host reads and writes.
    pub fn outward<'t>(&'t self, _turn: &'t mut Turn, work: &CopyWork) -> (&'t [u8], &'t mut [u8]) {
        // SAFETY: the copy's turn; the arenas are two.
        unsafe { (self.device.shared(work.device), self.host.exclusive(work.host)) }
    }

    /// What a copy to the device reads and writes.
    pub fn inward<'t>(&'t self, _turn: &'t mut Turn, work: &CopyWork) -> (&'t [u8], &'t mut [u8]) {
        // SAFETY: the copy's turn; the arenas are two.
        unsafe { (self.host.shared(work.host), self.device.exclusive(work.device)) }
    }

    /// What a compression reads and writes: the tensor, its compressed form, and the host memory
    /// where the tensor itself goes otherwise.
    pub fn compressing<'t>(
        &'t self,
        _turn: &'t mut Turn,
        work: &CodecWork,
    ) -> (&'t [u8], &'t mut [u8], &'t mut [u8]) {
        let host = work.host.unwrap_or(Place::NOTHING);
        // SAFETY: the compression's turn; tensor and compressed form do not overlap, and the host's
        // buffer belongs to it until the decompression.
        unsafe {
            let (device, host) = (&self.device, self.host.exclusive(host));
            (device.shared(work.raw), device.exclusive(work.small), host)
        }
    }

    /// What a decompression reads and writes: the compressed form, the host memory where the tensor
    /// itself may be instead, and the tensor.
    pub fn decompressing<'t>(
        &'t self,
        _turn: &'t mut Turn,
        work: &CodecWork,
    ) -> (&'t [u8], &'t [u8], &'t mut [u8]) {
        let host = work.host.unwrap_or(Place::NOTHING);
        // SAFETY: the decompression's turn; compressed form and tensor do not overlap.
        unsafe {
            let (device, host) = (&self.device, self.host.shared(host));
            (device.shared(work.small), host, device.exclusive(work.raw))
        }
    }
}

/// SAFETY of the caller: nobody else reads or writes there while the slices live, and the places do
/// not overlap.
#[expect(clippy::mut_from_ref, reason = "disjoint parts are handed out at once")]
unsafe fn cells_of<'t>(device: &'t Arena, places: &[Place]) -> Vec<&'t mut [f32]> {
    // SAFETY: the caller's.
    places.iter().map(|place| as_cells_mut(unsafe { device.exclusive(*place) })).collect()
}
