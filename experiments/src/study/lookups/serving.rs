//! Language models whose weights, or keys and values, lie in host memory.

use scenarios::{LookupQuantity, Served};
use schema::{Bytes, Machine};

use super::{GATHER, Supposed};

/// By how much sooner a model answers, in percent, if what a pass fetches takes so much less: its weights, or keys and
/// values that the host gathers; or what reading the prompts takes of the time to its answers.
///
/// A pass fetches before it computes, or beside the pass before. Computing takes what the device can do at best: the
/// prompts' products at its arithmetic, and of each further token what its pass reads, weights and the keys and values so
/// far, at its memory's bandwidth. Where keys and values lie on the host, the prompts' are copied there once.
pub fn share(
    of: LookupQuantity,
    served: &Served,
    machine: &Machine,
    less: f64,
    supposed: Supposed,
) -> f64 {
    let Served { parameters, batch, prompt, generated, cache_bytes, loaded, fetched } = *served;
    let device = &machine.device.compute;
    let (bandwidth, link) =
        (device.memory_bandwidth.0 as f64, machine.link.h2d.at(Bytes(u64::MAX)));
    let weights = 2.0 * parameters;
    let loading = weights * loaded / link;
    let gathered = 1.0 / supposed.gather.unwrap_or(GATHER).0 as f64 + 1.0 / link;
    let fetching = batch * fetched * cache_bytes * gathered;
    let out = if fetched > 0.0 { batch * prompt * cache_bytes / link } else { 0.0 };
    let first = 2.0 * parameters * batch * prompt / device.f16_flops as f64 + out;
    let read = if fetched > 0.0 { fetched } else { prompt + generated / 2.0 };
    let next = (weights + batch * read * cache_bytes) / bandwidth;
    let pass = |loading: f64, computing: f64| {
        if supposed.beside { loading.max(computing) } else { loading + computing }
    };
    let reading = pass(loading, first);
    let whole = |loading: f64, fetching: f64| {
        pass(loading, first) + (generated - 1.0) * (fetching + pass(loading, next))
    };
    let kept = 1.0 - less / 100.0;
    let before = whole(loading, fetching);
    100.0
        * match of {
            LookupQuantity::Prefill => reading / before,
            LookupQuantity::Decoding => 1.0 - whole(loading, fetching * kept) / before,
            _ => 1.0 - whole(loading * kept, fetching) / before,
        }
}

#[cfg(test)]
mod tests {
    use schema::BytesPerSec;

    use super::*;
    use crate::sources::read_machine;
    use crate::study::lookups::BASE;

    /// A model so small that nothing but what is fetched takes time.
    #[test]
    fn what_nothing_else_takes_time_beside_is_all_of_the_gain() {
        let machine = read_machine("ibp-a100").expect("bundled");
        let served = Served {
            parameters: 1e3,
            batch: 1.0,
            prompt: 1.0,
            generated: 1e6,
            cache_bytes: 1e6,
            loaded: 0.0,
            fetched: 1.0,
        };
        let share = |supposed| share(LookupQuantity::Decoding, &served, &machine, 40.0, supposed);
        assert!((share(BASE) - 40.0).abs() < 0.5, "{}", share(BASE));
        // Less of it, where fetching takes less beside what else there is.
        let at_once = Supposed { gather: Some(BytesPerSec(u64::MAX)), ..BASE };
        assert!(share(at_once) < share(BASE), "{}", share(at_once));
    }
}
