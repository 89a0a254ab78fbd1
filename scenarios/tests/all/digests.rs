//! The modelled traces of all networks that come with tidegate are those that they were.

use networks::{NetworkOptions, Optimizer, modelled_trace, network, networks};
use scenarios::machine;
use schema::{Document, Dtype};

/// What a user may choose that changes how an iteration is lowered.
fn choices() -> [(&'static str, NetworkOptions); 4] {
    let default = NetworkOptions { batch: 4, ..NetworkOptions::default() };
    let (optimizer, dtype) = (Some(Optimizer::Adam), Some(Dtype::Bf16));
    let kept = NetworkOptions { in_place: false, pool_indices: false, ..default.clone() };
    [
        ("default", default.clone()),
        ("kept", NetworkOptions { fused_attention: false, progress: 0.5, ..kept }),
        ("bf16", NetworkOptions { optimizer, dtype, ..default.clone() }),
        ("gradients", NetworkOptions { optimizer: Some(Optimizer::None), ..default }),
    ]
}

#[test]
fn the_modelled_traces_are_those_that_they_were() {
    let machine = machine("a100-sxm").unwrap();
    let mut digests = String::new();
    for info in networks().filter(|info| info.size_of.is_none()) {
        for (choice, options) in choices() {
            let network = network(info.name, &options).unwrap();
            let digest = modelled_trace(&network, &machine).unwrap().digest();
            digests += &format!("{} {choice} {}\n", info.name, digest.short());
        }
    }
    insta::assert_snapshot!(digests);
}
