//! What experiments find, write and show.

mod explained;
mod shell;
mod tables;
