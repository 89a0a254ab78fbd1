//! Where the search for what to keep begins.

use schema::Bytes;
use simulator::{Evaluator, GapId, Infeasible, Record, Treatment};

use crate::Problem;
use crate::decided::{all_feature_maps, with};

/// Feature maps together this small a share of all are not worth a search.
const NEGLIGIBLE: u64 = 1000;

/// The classification that a search begins with, and its timeline.
///
/// In PooCH (4.4.2) everything is swapped. We keep the smallest maps that together make up less
/// than a thousandth of all, such as the logits, if they fit: swapping them gains nothing, and the
/// search has more evaluations for those that count.
///
/// The paper's hosts hold all maps. Where this one does not, we depart from it: from the output
/// layer on, where maps wait the shortest, they are kept until the host holds the rest. Where the
/// device does not hold those, and `may_recompute` says so, as many are kept as it does hold; of
/// the others the host holds what it can, and the rest is recomputed: either those that take the
/// least time for their bytes, or, where too many in a row would have to be recomputed at once,
/// such a share of them all along the network that none is far from one that the host holds.
pub(super) fn start(
    problem: &Problem,
    evaluator: &mut Evaluator,
    may_recompute: bool,
) -> Result<(Vec<Treatment>, Record), Infeasible> {
    let swap_all = all_feature_maps(problem, Treatment::Swap);
    let large = with(swap_all.clone(), &negligible(problem), Treatment::Keep);
    let all_swapped = match evaluator.record(&large) {
        Err(Infeasible::Memory { .. }) => evaluator.record(&swap_all).map(|r| (swap_all, r)),
        recorded => recorded.map(|record| (large, record)),
    };
    match all_swapped {
        Err(Infeasible::HostMemory { .. }) => {
            let treatments = beside_host(problem, evaluator, may_recompute)?;
            let record = evaluator.record(&treatments)?;
            Ok((treatments, record))
        }
        all_swapped => all_swapped,
    }
}

/// The smallest feature maps that together make up less than a thousandth of all.
fn negligible(problem: &Problem) -> Vec<GapId> {
    let bytes = |gap: &GapId| problem.model.gaps()[*gap].bytes;
    let mut by_size = problem.feature_maps.clone();
    by_size.sort_unstable_by_key(|gap| (bytes(gap), *gap));
    let total: Bytes = by_size.iter().map(bytes).sum();
    let mut sum = Bytes::ZERO;
    let small = by_size.iter().take_while(|gap| {
        sum += bytes(gap);
        sum.0 < total.0 / NEGLIGIBLE
    });
    small.copied().collect()
}

/// What fits a host that does not hold all maps.
fn beside_host(
    problem: &Problem,
    evaluator: &mut Evaluator,
    may_recompute: bool,
) -> Result<Vec<Treatment>, Infeasible> {
    let maps = problem.feature_maps.len();
    // All maps kept leave nothing for the host.
    let least = (0..=maps).find(|kept| excess(problem, *kept) == 0).unwrap_or(maps);
    let without = all_but_last(problem, least, Treatment::Swap);
    match evaluator.evaluate(&without) {
        Err(_) if may_recompute => {}
        outcome => return outcome.map(|_| without),
    }
    let mut fastest = Err(Infeasible::HostMemory { needed: Bytes(excess(problem, 0)) });
    for recomputing in [cheapest, spread] {
        let found = most_kept(problem, evaluator, least, recomputing);
        let time = |found: &Result<(u64, _), _>| found.as_ref().map_or(u64::MAX, |(time, _)| *time);
        if fastest.is_err() || time(&found) < time(&fastest) {
            fastest = found;
        }
    }
    fastest.map(|(_, treatments)| treatments)
}

/// How the maps that are not kept leave, by how many are kept.
type Recomputing = fn(&Problem, usize) -> Vec<Treatment>;

/// The classification that keeps the most maps, under `beyond`, and its time.
fn most_kept(
    problem: &Problem,
    evaluator: &mut Evaluator,
    mut beyond: usize,
    recomputing: Recomputing,
) -> Result<(u64, Vec<Treatment>), Infeasible> {
    let mut fitting = |kept| {
        let treatments = recomputing(problem, kept);
        evaluator.evaluate(&treatments).map(|outcome| (outcome.iteration.0, treatments))
    };
    let (mut most, mut found) = (0, fitting(0)?);
    while beyond - most > 1 {
        let middle = most + (beyond - most) / 2;
        match fitting(middle) {
            Ok(fits) => (most, found) = (middle, fits),
            Err(_) => beyond = middle,
        }
    }
    Ok(found)
}

/// By how much the host is too small for all maps but those `kept` from the output layer on.
fn excess(problem: &Problem, kept: usize) -> u64 {
    let others = others(problem, kept);
    let bytes: Bytes = others.iter().map(|gap| problem.model.gaps()[*gap].bytes).sum();
    bytes.saturating_sub(problem.host_budget).0
}

/// So many maps kept from the output layer on, and the others treated alike.
fn all_but_last(problem: &Problem, kept: usize, treatment: Treatment) -> Vec<Treatment> {
    with(problem.keep_all(), &others(problem, kept), treatment)
}

/// The cheapest are recomputed until the host holds the rest.
fn cheapest(problem: &Problem, kept: usize) -> Vec<Treatment> {
    let mut treatments = all_but_last(problem, kept, Treatment::Swap);
    let cost = |gap: &GapId| {
        let gap = &problem.model.gaps()[*gap];
        let op = problem.model.producer(gap.tensor).map(|op| &problem.trace.ops[op.index()]);
        let time = op.map_or(0, |op| op.recompute.unwrap_or(op.duration).0);
        (u128::from(time), u128::from(gap.bytes.0))
    };
    let mut by_cost = others(problem, kept);
    by_cost.retain(|gap| problem.may_recompute(*gap));
    by_cost.sort_by(|a, b| {
        let ((time_a, bytes_a), (time_b, bytes_b)) = (cost(a), cost(b));
        (time_a * bytes_b).cmp(&(time_b * bytes_a))
    });
    let mut excess = excess(problem, kept);
    for gap in by_cost {
        if excess == 0 {
            break;
        }
        treatments[gap] = Treatment::Recompute;
        excess = excess.saturating_sub(problem.model.gaps()[gap].bytes.0);
    }
    treatments
}

/// From the input on, as large a share of the maps' bytes is swapped as the host holds of all.
fn spread(problem: &Problem, kept: usize) -> Vec<Treatment> {
    let mut treatments = all_but_last(problem, kept, Treatment::Swap);
    let bytes = |gap: &GapId| u128::from(problem.model.gaps()[*gap].bytes.0);
    let others = others(problem, kept);
    let total: u128 = others.iter().map(bytes).sum();
    let (mut passed, mut swapped) = (0, 0);
    for gap in &others {
        passed += bytes(gap);
        let fits = (swapped + bytes(gap)) * total <= passed * u128::from(problem.host_budget.0);
        if fits || !problem.may_recompute(*gap) {
            swapped += bytes(gap);
        } else {
            treatments[*gap] = Treatment::Recompute;
        }
    }
    treatments
}

/// The maps that are not kept, from the input on.
fn others(problem: &Problem, kept: usize) -> Vec<GapId> {
    let maps = &problem.feature_maps;
    maps[..maps.len() - kept].to_vec()
}
