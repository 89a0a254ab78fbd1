//! Whole-command tests: what a user types, and what comes of it.

mod bench;
mod compare;
mod failures;
mod fit;
mod import;
mod lists;
mod plan;
mod readme;
mod recordings;
mod sandbox;
