//! Random problems from a seed, and the checks that tests share.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod chain;
pub mod check;
pub mod exhaustive;
pub mod judge;
pub mod optimum;
pub mod random;
pub mod recordings;
