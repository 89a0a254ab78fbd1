//! Networks on machines, against recordings and publications.

mod digests;
mod networks;
