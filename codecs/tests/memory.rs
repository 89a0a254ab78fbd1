//! Decoding a damaged or forged frame takes no more memory than the tensor that it declares.

#![allow(unsafe_code, reason = "a counting allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use codecs::frame::{HEADER_BYTES, decode, encode};
use codecs::synthetic::Recipe;
use codecs::{CodecId, Error, Layout, TensorView};
use schema::Dtype;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        let now = IN_USE.fetch_add(block.size(), Ordering::SeqCst) + block.size();
        MOST.fetch_max(now, Ordering::SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, block: Block) {
        IN_USE.fetch_sub(block.size(), Ordering::SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that were in use at once while this ran, above those before.
fn most<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = IN_USE.load(Ordering::SeqCst);
    MOST.store(before, Ordering::SeqCst);
    let result = work();
    (result, MOST.load(Ordering::SeqCst) - before)
}

/// Writes both checksums anew.
fn forge(frame: &mut [u8]) {
    let payload = xxhash_rust::xxh3::xxh3_64(&frame[HEADER_BYTES..]);
    frame[104..112].copy_from_slice(&payload.to_le_bytes());
    let header = xxhash_rust::xxh3::xxh3_64(&frame[..120]);
    frame[120..128].copy_from_slice(&header.to_le_bytes());
}

// One test, so that no other one allocates beside it.
#[test]
fn no_frame_takes_more_memory_than_it_declares() {
    // How much is needed beside the tensor grows with the threads.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let decode = |frame: &[u8], limit| pool.install(|| decode(frame, limit));
    let layout = Layout::new(Dtype::F32, &[256, 1024]).unwrap();
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.5, seed: 1 };
    let bytes = recipe.bytes().unwrap();
    for entry in codecs::all() {
        let codec = codecs::codec(entry.example.parse::<CodecId>().unwrap()).unwrap();
        let frame = encode(codec.as_ref(), TensorView::new(&layout, &bytes).unwrap()).unwrap();
        // The tensor, and what a codec keeps for the few blocks that it is at.
        let limit = layout.bytes() + (1 << 20);
        let (whole, used) = most(|| decode(&frame, u64::MAX));
        assert!(whole.is_ok() && used <= limit, "{}: {used}", entry.example);
        // Lengths, counts and tables stand in front.
        for at in 0..40 {
            for byte in [0x00, 0x7f, 0xff] {
                let mut forged = frame.clone();
                forged[HEADER_BYTES + at] = byte;
                forge(&mut forged);
                let (_, used) = most(|| decode(&forged, u64::MAX));
                assert!(used <= limit, "{}, byte {at}: {used}", entry.example);
            }
        }
        // A tensor of 4 PiB in a small frame.
        let mut forged = frame;
        forged[24..32].copy_from_slice(&(1u64 << 40).to_le_bytes());
        forged[88..96].copy_from_slice(&(1u64 << 52).to_le_bytes());
        forge(&mut forged);
        let (refused, used) = most(|| decode(&forged, 1 << 30));
        assert_eq!(refused, Err(Error::OverLimit { declared: 1 << 52, limit: 1 << 30 }));
        assert!(used < 4096, "{}: {used}", entry.example);
        let refused = decode(&forged, u64::MAX);
        assert_eq!(refused, Err(Error::NoMemory { bytes: 1 << 52 }), "{}", entry.example);
    }
}
