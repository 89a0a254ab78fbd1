//! The tapes of all networks that come with tidegate are those that they were: ops, their order and
//! operands, sizes, and what is drawn before the first iteration, which depends on a tensor's place.

use networks::{NetworkOptions, Optimizer, network, networks};
use runtime::network::{Measured, Network};
use schema::{Document, Origin, Provenance};

#[test]
fn the_tapes_are_those_that_they_were() {
    let default = NetworkOptions { batch: 2, ..NetworkOptions::default() };
    let choices = [
        ("default", default.clone()),
        ("unfused", NetworkOptions { fused_attention: false, ..default.clone() }),
        ("gradients", NetworkOptions { optimizer: Some(Optimizer::None), ..default.clone() }),
        ("adam", NetworkOptions { optimizer: Some(Optimizer::Adam), ..default }),
    ];
    let mut digests = String::new();
    for info in networks().filter(|info| info.size_of.is_none()) {
        for (choice, options) in &choices {
            let described = network(info.name, options).unwrap();
            let network = Network::new(&described, None).unwrap();
            for network in [network.clone(), network.in_bf16()] {
                let provenance = Provenance::new(Origin::Modelled, "none", "test");
                let nothing = Measured { durations: Vec::new(), sparsity: Vec::new() };
                let mut trace = network.trace(&nothing, provenance);
                for op in &mut trace.ops {
                    (op.flops, op.bytes_moved) = (None, None);
                }
                let first = |tensor: &runtime::network::Tensor| tensor.elements.min(3);
                let mut drawn = Vec::new();
                for (index, tensor) in network.tensors().iter().enumerate() {
                    // Large ones take too long to fill; their neighbours' seeds are as many.
                    if tensor.is_constant() && tensor.elements <= 1 << 16 {
                        let mut cells = vec![0.0; tensor.elements];
                        network.initialise(schema::TensorId::from_index(index), 7, &mut cells);
                        drawn.extend(cells[..first(tensor)].iter().map(|cell| cell.to_bits()));
                    }
                }
                let drawn: Vec<u8> = drawn.into_iter().flat_map(u32::to_le_bytes).collect();
                digests += &format!(
                    "{} {choice} {} {}\n",
                    info.name,
                    trace.digest().short(),
                    schema::Digest::of_bytes(&drawn).short()
                );
            }
        }
    }
    insta::assert_snapshot!(digests);
}
