//! Methods, plans and bounds, held against proofs, exhaustive searches and publications.

mod anytime;
mod chains;
mod codec_methods;
mod codecs;
mod comet_on_networks;
mod common;
mod cswap_on_networks;
mod exhaustive;
mod families;
mod held;
mod independent;
mod inference;
mod integer_programmes;
mod moving;
mod optimum;
mod partial_reruns;
mod pooch_example;
mod recordings;
mod steps;
mod timings;
