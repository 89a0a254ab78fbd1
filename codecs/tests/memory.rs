//! Decompressing a damaged payload takes no more memory than the tensor does.

#![allow(unsafe_code, reason = "a counting allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use codecs::synthetic::Recipe;
use codecs::{CodecId, Layout, TensorView};
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

// One test, so that no other one allocates beside it.
#[test]
fn no_payload_takes_more_memory_than_its_tensor() {
    // How much is needed beside the tensor grows with the threads.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let layout = Layout::new(Dtype::F32, &[256, 1024]).unwrap();
    let recipe = Recipe { layout: layout.clone(), sparsity: 0.5, smoothness: 0.5, seed: 1 };
    let bytes = recipe.bytes().unwrap();
    let mut out = vec![0; layout.bytes()];
    for entry in codecs::all() {
        let codec = codecs::codec(entry.example.parse::<CodecId>().unwrap()).unwrap();
        let mut payload = vec![0; codec.worst_case(&layout)];
        let length = codec.compress(TensorView::new(&layout, &bytes).unwrap(), &mut payload);
        payload.truncate(length.unwrap());
        let mut decompress =
            |payload: &[u8]| most(|| pool.install(|| codec.decompress(payload, &layout, &mut out)));
        // What a codec keeps for the few blocks that it is at.
        let limit = 1 << 20;
        let (whole, used) = decompress(&payload);
        assert!(whole.is_ok() && used <= limit, "{}: {used}", entry.example);
        // Lengths, counts and tables stand in front.
        for at in 0..40 {
            for byte in [0x00, 0x7f, 0xff] {
                let mut damaged = payload.clone();
                damaged[at] = byte;
                let (_, used) = decompress(&damaged);
                assert!(used <= limit, "{}, byte {at}: {used}", entry.example);
            }
        }
    }
}
