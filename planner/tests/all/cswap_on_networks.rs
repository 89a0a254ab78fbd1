//! CSWAP+ is never slower than vDNN in prediction: on any network, machine and epoch that comes
//! with tidegate. All of them take minutes: `TIDEGATE_THOROUGH=1`, best in release.

use networks::{NetworkOptions, modelled_trace, network, networks};
use planner::methods::{Cswap, Vdnn};
use planner::{CodecOptions, NoMonitor, Problem, plan};
use scenarios::{codec_models, machines};
use schema::{Bytes, Machine, Trace};

/// How far training has come.
const PROGRESS: [f64; 3] = [0.0, 0.5, 1.0];
/// Budgets in percent of the in-core peak, and codecs that reach all or a twentieth of their speed.
const BUDGETS: [u64; 2] = [100, 60];
const SPEEDS: [f64; 2] = [1.0, 0.05];

/// One in so many problems is planned.
fn stride() -> usize {
    if std::env::var_os("TIDEGATE_THOROUGH").is_some() { 1 } else { 151 }
}

#[test]
fn cswap_plus_is_never_slower_than_vdnn() {
    let machines: Vec<Machine> = machines().collect();
    let (mut asked, mut planned, mut faster) = (0, 0, 0);
    for info in networks().filter(|info| info.size_of.is_none()) {
        for progress in PROGRESS {
            let options = NetworkOptions { batch: 4, progress, ..NetworkOptions::default() };
            let network = network(info.name, &options).expect("it is listed");
            for machine in &machines {
                for (budget, speed) in BUDGETS.iter().flat_map(|b| SPEEDS.map(|s| (*b, s))) {
                    asked += 1;
                    if asked % stride() != 0 {
                        continue;
                    }
                    let trace = modelled_trace(&network, machine).expect("a modelled trace");
                    let at = format!("{}, {progress}, {}, {budget} %", info.name, machine.name);
                    let gained = compare(&trace, machine, budget, speed, &at);
                    planned += usize::from(gained.is_some());
                    faster += usize::from(gained == Some(true));
                }
            }
        }
    }
    assert!(planned * stride() > asked / 3, "vDNN has {planned} plans, of {asked}");
    assert!(faster > planned / 5, "{faster} of {planned} are faster");
    println!("{planned} plans of vDNN, none faster than CSWAP+'s, {faster} slower");
}

/// Whether CSWAP+ is faster than vDNN; nothing where vDNN has no plan.
fn compare(trace: &Trace, machine: &Machine, percent: u64, speed: f64, at: &str) -> Option<bool> {
    let budget = Bytes(simulator::in_core(trace).peak.0 * percent / 100);
    let options = CodecOptions { sparsity: None, lossy: true };
    let problem = Problem::new(trace, machine, budget)
        .with_codecs(&codec_models(machine).at_speed(speed), options);
    let vdnn = [Vdnn::Conv, Vdnn::All].map(|vdnn| plan(&vdnn, &problem, &NoMonitor));
    let vdnn = vdnn.iter().filter_map(|plan| plan.as_ref().ok());
    let vdnn = vdnn.map(|plan| plan.predicted.iteration).min()?;
    let ours = plan(&Cswap::Plus { parameter: None }, &problem, &NoMonitor);
    let ours = ours.unwrap_or_else(|error| panic!("{at}: vDNN has a plan, and {error}"));
    let ours = ours.predicted.iteration;
    assert!(ours <= vdnn, "{at}: {ours} with CSWAP+, {vdnn} with vDNN");
    Some(ours < vdnn)
}
