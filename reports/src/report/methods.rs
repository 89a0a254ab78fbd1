//! Methods in one setting, or over many.

use schema::{Bytes, Nanos};

use super::bars::{Bar, Bars, Part};
use super::figure::Figure;
use super::plot::{BLUE, GREEN, GREY, ORANGE, PURPLE, SKY};
use super::setting::Setting;
use crate::MethodResult;
use crate::text::percent;

/// What each method's plan costs, by what it spends the time on: settings one below the other.
pub(super) fn overhead(settings: &[Setting]) -> Option<Figure> {
    let line = match settings {
        [Setting { bound: Some(bound), .. }] => {
            let at = settings[0].overhead(*bound) * 100.0;
            Some((at, "bound: no plan can be left of this line".to_string()))
        }
        _ => None,
    };
    let bars = Bars {
        name: "time that each method's plan adds".into(),
        axis: "time over the iteration without a memory limit (%)".into(),
        kinds: vec![
            ("recomputing".into(), ORANGE),
            ("codecs".into(), PURPLE),
            ("compute waits".into(), GREY),
        ],
        bars: bars(settings, overhead_of),
        line,
    };
    let methods: usize = settings.iter().map(|setting| setting.methods.len()).sum();
    let without = match methods - bars.bars.len() {
        0 => String::new(),
        1 => " One more finds no plan; the table says why.".into(),
        n => format!(" {n} more find no plan; the table says why."),
    };
    bars.figure(
        "overhead",
        &format!("Time that each method adds: {}", titles(settings)),
        format!(
            "How much longer one iteration takes under each method's plan than without a memory \
             limit, and what that time goes to. Shorter is better.{without} Predicted; {}.",
            Setting::all_op_times(settings)
        ),
    )
}

/// A bar for each plan of each setting, under the setting's name where there are several.
fn bars(
    settings: &[Setting],
    bar: impl Fn(&Setting, &MethodResult, f64) -> Option<Bar>,
) -> Vec<Bar> {
    let mut bars = Vec::new();
    for setting in settings {
        let bound = setting.bound.filter(|_| settings.len() > 1);
        let bound = bound.map(|bound| format!("; bound +{}", percent(setting.overhead(bound))));
        let heading = format!("{}{}", setting.title(), bound.unwrap_or_default());
        let mut heading = Some(heading).filter(|_| settings.len() > 1);
        let plans = setting.plans();
        let of_setting = plans.iter().filter_map(|(method, over)| bar(setting, method, *over));
        bars.extend(of_setting.map(|bar| Bar { heading: heading.take(), ..bar }));
    }
    bars
}

fn titles(settings: &[Setting]) -> String {
    match settings {
        [one] => one.title(),
        [first, ..] if settings.iter().all(|s| s.network == first.network) => {
            format!("{}, {} settings side by side", first.network, settings.len())
        }
        several => format!("{} settings side by side", several.len()),
    }
}

fn overhead_of(setting: &Setting, method: &MethodResult, overhead: f64) -> Option<Bar> {
    let in_percent = |time: Nanos| time.0 as f64 / setting.in_core.0.max(1) as f64 * 100.0;
    let [recompute, codec] = [method.recompute, method.codec].map(Option::unwrap_or_default);
    // What is neither is time in which the device does not compute.
    let over = method.iteration.unwrap_or_default().saturating_sub(setting.in_core);
    let waiting = over.saturating_sub(recompute).saturating_sub(codec);
    let part = |kind, what: &str, time: Nanos| Part {
        kind,
        value: in_percent(time),
        title: format!("{}: {time} {what}", method.method),
    };
    Some(Bar {
        heading: None,
        name: method.method.clone(),
        parts: vec![
            part(0, "of recomputing", recompute),
            part(1, "of compressing and decompressing", codec),
            part(2, "in which compute waits", waiting),
        ],
        label: format!("+{}", percent(overhead)),
    })
}

pub(super) fn moved(settings: &[Setting]) -> Option<Figure> {
    let bars = Bars {
        name: "bytes that each method's plan copies".into(),
        axis: "copied per iteration (GB)".into(),
        kinds: vec![("device to host".into(), BLUE), ("host to device".into(), GREEN)],
        bars: bars(settings, moved_by),
        line: None,
    };
    bars.figure(
        "moved",
        &format!("Bytes copied by each method: {}", titles(settings)),
        "What each method's plan copies between device and host in one iteration; a method that \
         recomputes instead copies less. Methods in the order of their times. From the plans, and \
         so exact."
            .into(),
    )
}

fn moved_by(_: &Setting, method: &MethodResult, _: f64) -> Option<Bar> {
    let (out, back) = (method.d2h?, method.h2d?);
    let part = |kind, what: &str, bytes: Bytes| Part {
        kind,
        value: bytes.0 as f64 / 1e9,
        title: format!("{}: {bytes} copied {what}", method.method),
    };
    let label = match (out, back) {
        (Bytes::ZERO, Bytes::ZERO) => "nothing".into(),
        _ => format!("{out} out, {back} in"),
    };
    let parts = vec![part(0, "out", out), part(1, "in", back)];
    Some(Bar { heading: None, name: method.method.clone(), parts, label })
}

/// Each method's middle overhead over many settings.
pub(super) fn over_all(settings: &[Setting], names: &[String]) -> Option<Figure> {
    let mut bars = Vec::new();
    for name in names {
        let all: Vec<_> = settings.iter().flat_map(Setting::plans).collect();
        let mut overheads: Vec<f64> =
            all.iter().filter(|(m, _)| m.method == *name).map(|(_, overhead)| *overhead).collect();
        let asked = settings.iter().flat_map(|s| &s.methods).filter(|m| m.method == *name).count();
        overheads.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (overheads.first(), overheads.last()) else { continue };
        let median = overheads[(overheads.len() - 1) / 2];
        let label = format!(
            "{} ({} to {}), {} of {asked} settings",
            percent(median),
            percent(*least),
            percent(*most),
            overheads.len()
        );
        let title = format!("{name}: {label}");
        let part = Part { kind: 0, value: median * 100.0, title };
        bars.push((median, Bar { heading: None, name: name.clone(), parts: vec![part], label }));
    }
    bars.sort_by(|a, b| a.0.total_cmp(&b.0));
    let bars = Bars {
        name: "median time that each method adds".into(),
        axis: "median time over the iteration without a memory limit (%)".into(),
        kinds: vec![("median".into(), SKY)],
        bars: bars.into_iter().map(|(_, bar)| bar).collect(),
        line: None,
    };
    bars.figure(
        "overhead-over-all",
        "Time that each method adds, over all settings",
        format!(
            "The median over the {} settings of this report of how much longer an iteration takes \
             than without a memory limit; in brackets the least and the most. A method counts \
             only where it finds a plan, so that one which fails in the hard settings looks \
             better than it is: the last number says in how many it finds one. Predicted.",
            settings.len()
        ),
    )
}
