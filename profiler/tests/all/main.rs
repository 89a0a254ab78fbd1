//! Importers: small recordings by hand, real ones, and broken ones.

mod bad_files;
mod common;
mod op_times;
mod pytorch;
mod recordings;
mod small_dtr;
mod small_opgraphs;
