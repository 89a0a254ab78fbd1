//! Whole-command tests: what a user types, and what comes of it.

mod bench;
mod codecs;
mod compare;
mod compression;
mod epochs;
mod failures;
mod fit;
mod frontier;
mod import;
mod lists;
mod measured;
mod plan;
mod readme;
mod recordings;
mod sandbox;
mod scatter;
mod table;
mod training;
