//! `tidegate table`

use crate::sandbox::Sandbox;

const WEIGHTS: &str = "table tests/tables/weights.bf16 --row-bytes 1024 -m ibp-a100";

/// The features of Citeseer, which come with the machine of the paper: section 6.1 packs them 25.09
/// times, and moves packed rows of such tables 9.7 times as fast (table 1, three tables on
/// average).
#[test]
fn citeseer_is_packed_as_in_the_paper() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/citeseer-3327x3703.u16pairs");
    let Ok(pairs) = std::fs::read(path) else {
        eprintln!("skipped: {path} is not there");
        return;
    };
    let mut features = vec![0; 3327 * 14_812];
    for pair in pairs.as_chunks::<4>().0 {
        let row = usize::from(u16::from_le_bytes([pair[0], pair[1]]));
        let column = usize::from(u16::from_le_bytes([pair[2], pair[3]]));
        features[row * 14_812 + column * 4..][..4].copy_from_slice(&1f32.to_le_bytes());
    }
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("citeseer.f32"), features).unwrap();
    // As many nodes as the paper scales the table up to, a cache of 1 % of them (section 6.2).
    let report = sandbox.json(
        "table citeseer.f32 --row-bytes 14812 -m ibp-a100 --rows 2449029 --cache 362MB \
         --rows-per-lookup 100000 --sample 3327 --format json",
    );
    let ratio = report["packing"]["ratio"].as_f64().unwrap();
    assert!((25.08..25.10).contains(&ratio), "{ratio}");
    assert_eq!(report["packing"]["chunk_bytes"], 4);
    let way = |name: &str| {
        let ways = report["ways"].as_array().unwrap();
        ways.iter().find(|way| way["staging"] == name).unwrap().clone()
    };
    let cached = |name: &str| way(name)["cached_rows"].as_f64().unwrap();
    // Table 7: 24.15 times as many rows in the same cache.
    let increase = cached("zero-copy, packed in the cache") / cached("zero-copy");
    assert!((23.9..24.4).contains(&increase), "{increase}");
    let speedup = way("zero-copy, packed on the host")["speedup"].as_f64().unwrap();
    assert!((7.0..11.0).contains(&speedup), "{speedup}");
}

#[test]
fn rows_are_counted_and_clustered_on_request() {
    let sandbox = Sandbox::new();
    // The first row is all that anyone looks up.
    sandbox.write("counts.txt", "7\n0\n");
    let report = sandbox.json(&format!(
        "{WEIGHTS} --rows-per-lookup 9 --counts counts.txt --cache 1100B --chunks 2 --clusters 4 \
         --format json"
    ));
    assert_eq!(report["ways"][2]["hit_rate"], 1.0);
    assert_eq!(report["ways"][2]["link_bytes"], 0);
    assert_eq!(report["packing"]["chunk_bytes"], 2);
}
