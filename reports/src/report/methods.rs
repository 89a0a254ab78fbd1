//! Methods in one setting, or over many.

use schema::{Bytes, Nanos};

use super::Figure;
use super::bars::{Bar, Bars, Part};
use super::plot::{BLUE, GREEN, GREY, ORANGE, PURPLE, SKY};
use super::setting::Setting;
use crate::text::percent;

/// What each method's plan costs, by what it spends the time on.
pub(super) fn overhead(setting: &Setting) -> Option<Figure> {
    let plans = setting.plans();
    let in_percent = |time: Nanos| time.0 as f64 / setting.in_core.0.max(1) as f64 * 100.0;
    let bars = plans.iter().map(|(method, overhead)| {
        let [recompute, codec] = [method.recompute, method.codec].map(Option::unwrap_or_default);
        // What is neither is time in which the device does not compute.
        let over = method.iteration.unwrap_or_default().saturating_sub(setting.in_core);
        let waiting = over.saturating_sub(recompute).saturating_sub(codec);
        let part = |kind, what: &str, time: Nanos| Part {
            kind,
            value: in_percent(time),
            title: format!("{}: {time} {what}", method.method),
        };
        Bar {
            heading: None,
            name: method.method.clone(),
            parts: vec![
                part(0, "of recomputing", recompute),
                part(1, "of compressing and decompressing", codec),
                part(2, "in which compute waits", waiting),
            ],
            label: format!("+{}", percent(*overhead)),
        }
    });
    let line = setting.bound.map(|bound| {
        (setting.overhead(bound) * 100.0, "no plan can be left of this line".to_string())
    });
    let bars = Bars {
        name: format!("overhead by method: {}", setting.title()),
        axis: "time over the iteration without a memory limit (%)".into(),
        kinds: vec![
            ("recomputing".into(), ORANGE),
            ("codecs".into(), PURPLE),
            ("compute waits".into(), GREY),
        ],
        bars: bars.collect(),
        line,
    };
    let without = setting.methods.len() - plans.len();
    let without = match without {
        0 => String::new(),
        1 => " One more method finds no plan; the table says why.".into(),
        n => format!(" {n} more methods find no plan; the table says why."),
    };
    bars.figure(
        "overhead",
        "Overhead by method",
        format!(
            "{}. How much longer one iteration takes under each method's plan than without a \
             memory limit ({}), and what that time goes to. Shorter is better.{without} \
             Predicted; {}.",
            setting.title(),
            setting.in_core,
            setting.op_times
        ),
    )
}

pub(super) fn moved(setting: &Setting) -> Option<Figure> {
    let plans = setting.plans();
    let bars = plans.iter().filter_map(|(method, _)| {
        let (out, back) = (method.d2h?, method.h2d?);
        let part = |kind, what: &str, bytes: Bytes| Part {
            kind,
            value: bytes.0 as f64 / 1e9,
            title: format!("{}: {bytes} copied {what}", method.method),
        };
        Some(Bar {
            heading: None,
            name: method.method.clone(),
            parts: vec![part(0, "out", out), part(1, "in", back)],
            label: if out == Bytes::ZERO && back == Bytes::ZERO {
                "nothing".into()
            } else {
                format!("{out} out, {back} in")
            },
        })
    });
    let bars = Bars {
        name: format!("bytes moved: {}", setting.title()),
        axis: "copied per iteration (GB)".into(),
        kinds: vec![("device to host".into(), BLUE), ("host to device".into(), GREEN)],
        bars: bars.collect(),
        line: None,
    };
    bars.figure(
        "moved",
        "Bytes moved",
        format!(
            "{}. What each method's plan copies between device and host in one iteration; a \
             method that recomputes instead copies less. Methods in the order of their times. \
             From the plans, and so exact.",
            setting.title()
        ),
    )
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
        name: "median overhead by method".into(),
        axis: "median time over the iteration without a memory limit (%)".into(),
        kinds: vec![("median".into(), SKY)],
        bars: bars.into_iter().map(|(_, bar)| bar).collect(),
        line: None,
    };
    bars.figure(
        "overhead-over-all",
        "Overhead by method, over all settings",
        format!(
            "The median over the {} settings of this report of how much longer an iteration takes \
             than without a memory limit; in brackets the least and the most. A method counts \
             only where it finds a plan, so that one which fails in the hard settings looks \
             better than it is: the last figure says in how many it finds one. Predicted.",
            settings.len()
        ),
    )
}
