use schema::{Bytes, BytesPerSec, Nanos};

use super::*;
use crate::{Comparison, MethodResult, examples, png};

fn report() -> Report {
    let mut comparison = examples::comparison();
    comparison.methods.push(examples::infeasible());
    Report {
        runs: vec![Run { timeline: examples::long(60), plan: None, trace: None }],
        settings: vec![Setting::of(&comparison, None)],
        ..Report::default()
    }
}

/// The same comparison over links: swapping gets cheaper, the last method has no plan at first.
fn over_links() -> Vec<Setting> {
    let setting = |(step, gigabytes): (u64, u64)| {
        let mut methods = vec![
            examples::plan("swap-all", 200 - 30 * step, 1_200, [0, 100, 0]),
            examples::plan("sqrt-n", 131, 1_500, [40, 0, 60]),
        ];
        methods.push(match step {
            0 => examples::infeasible(),
            _ => examples::plan("vdnn-conv", 190 - 20 * step, 1_900, [50, 50, 0]),
        });
        let comparison = Comparison { methods, ..examples::comparison() };
        Setting::of(&comparison, Some(BytesPerSec(gigabytes * 1_000_000_000)))
    };
    [12, 25, 50, 100].into_iter().enumerate().map(|(i, gb)| setting((i as u64, gb))).collect()
}

fn parsed(svg: &str) -> roxmltree::Document<'_> {
    roxmltree::Document::parse(svg).expect("an SVG is XML")
}

#[test]
fn every_file_is_xml_of_its_own_and_has_marks() {
    let mut report = report();
    report.settings.extend(over_links());
    for figure in report.figures() {
        for (stem, picture) in figure.files() {
            let svg = picture.svg();
            let tree = parsed(&svg);
            let texts = tree.descendants().filter(|node| node.has_tag_name("text")).count();
            assert!(texts > 3, "{stem} has {texts} texts");
            let root = tree.root_element();
            assert!(root.attribute("width").is_some_and(|w| w != "0"), "{stem}");
            for node in tree.descendants() {
                for attribute in node.attributes() {
                    let value = attribute.value();
                    assert!(!value.contains("NaN") && !value.contains("inf"), "{stem}: {value}");
                }
            }
        }
    }
}

#[test]
fn the_page_needs_nothing_beside_it() {
    let report = report();
    let html = report.html(&report.figures());
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http://", "https://", "src=", "@import", "<link", "<script", "url(\""] {
        assert!(!outside.contains(reference), "{reference}");
    }
    let hrefs = html.split("href=\"").skip(1);
    assert!(hrefs.clone().count() > 2);
    for href in hrefs {
        let target = href.split('"').next().expect("an end").strip_prefix('#').expect("a fragment");
        assert!(html.contains(&format!("id=\"{target}\"")), "{target}");
    }
}

#[test]
fn figures_are_named_apart_and_what_is_missing_is_said() {
    let mut report = report();
    report.runs.push(Run { timeline: examples::timeline(), plan: None, trace: None });
    let figures = report.figures();
    let ids: Vec<_> = figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["overhead", "timeline-1", "timeline-2", "moved", "hidden"]);
    let html = report.html(&figures);
    for missing in ["What memory holds", "Overhead against batch", "Decisions over the network"] {
        assert!(html.contains(&format!("<li>{missing}")), "{missing}");
    }
    for there in ["<li>Timeline:", "<li>Time that each method adds:", "<li>Bytes copied by each"] {
        assert!(!html.contains(there), "{there}");
    }
    assert!(html.contains("tide is fastest, 7.0 % slower than without a memory limit"));
    assert!(html.contains("vdnn-conv</th><td class=\"sentence\""), "why there is no plan");
}

#[test]
fn predicted_and_measured_of_one_plan_are_one_figure() {
    let mut report = report();
    let mut measured = report.runs[0].clone();
    measured.timeline.basis = schema::Basis::Measured;
    measured.timeline.iteration = Nanos(measured.timeline.iteration.0 * 11 / 10);
    report.runs.push(measured);
    let figures = report.figures();
    let timeline = figures.iter().find(|figure| figure.id == "timeline").expect("one figure");
    let stems: Vec<_> = timeline.files().into_iter().map(|(stem, _)| stem).collect();
    assert_eq!(stems, ["timeline-a", "timeline-b"]);
    assert!(timeline.caption.contains("Predicted;") && timeline.caption.contains("Measured on"));
}

/// Whatever time the device does not compute is told of, also where no action says why.
#[test]
fn no_wait_is_called_none() {
    let mut timeline = examples::timeline();
    assert!(runs::stalls(&timeline).contains("for data"), "{}", runs::stalls(&timeline));
    timeline.intervals.iter_mut().for_each(|interval| interval.stall = None);
    let without_cause = runs::stalls(&timeline);
    assert!(without_cause.contains("between ops"), "{without_cause}");
    let run = Run { timeline: timeline.clone(), plan: None, trace: None };
    let svg = runs::timelines(&[run])[0].pictures[0].svg();
    assert!(svg.contains("class=\"si\"") && svg.contains("idle between ops"), "hatched");
    timeline.intervals.retain(|interval| interval.action.0 == 0);
    timeline.iteration = timeline.intervals[0].end + Nanos(100);
    assert!(runs::stalls(&timeline).contains("under 0.1 % for the last copies"));
    timeline.iteration = timeline.intervals[0].end;
    assert_eq!(runs::stalls(&timeline), "Compute never waits.");
}

#[test]
fn a_study_over_links_has_one_line_for_each_method() {
    let report = Report { settings: over_links(), ..Report::default() };
    let figures = report.figures();
    let figure = figures.iter().find(|f| f.id == "overhead-against-link").expect("it is there");
    let svg = figure.pictures[0].svg();
    let tree = parsed(&svg);
    let titles: Vec<_> = (tree.descendants().filter(|node| node.has_tag_name("title")))
        .filter_map(|node| node.text())
        .map(|title| title.split(';').next().unwrap_or_default())
        .collect();
    insta::assert_snapshot!(titles.join("\n"), @r"
    swap-all: +100.0 %
    swap-all: +70.0 %
    swap-all: +40.0 %
    swap-all: +10.0 %
    sqrt-n: +31.0 %
    sqrt-n: +31.0 %
    sqrt-n: +31.0 %
    sqrt-n: +31.0 %
    vdnn-conv: +70.0 %
    vdnn-conv: +50.0 %
    vdnn-conv: +30.0 %
    bound: +5.0 %
    bound: +5.0 %
    bound: +5.0 %
    bound: +5.0 %
    ");
    // The method that lacks the first point has marks for the other three, and one at its name.
    let lines = tree.descendants().filter(|node| node.has_tag_name("polyline"));
    let points = lines.filter_map(|node| node.attribute("points"));
    let lengths: Vec<_> = points.map(|points| points.split_whitespace().count()).collect();
    assert!(lengths.contains(&3) && lengths.contains(&4), "{lengths:?}");
}

/// What two methods and one without a plan reach on two machines.
fn searches(sought: Sought) -> Vec<Search> {
    let search = |machine: &str, step: u64, method: MethodResult| {
        let mut setting = Setting::of(&examples::comparison(), None);
        setting.methods.clear();
        setting.machine = machine.into();
        match sought {
            Sought::LargestBatch => setting.batch = Some(64 + 32 * step as u32),
            Sought::SmallestBudget => setting.budget = Bytes(2_000_000_000 / (1 + step)),
        }
        Search { sought, setting, method }
    };
    ["small", "large"]
        .into_iter()
        .flat_map(|machine| {
            [
                search(machine, 0, examples::plan("sqrt-n", 131, 1_500, [40, 0, 60])),
                search(machine, 1, examples::plan("pooch", 113, 1_990, [60, 30, 10])),
                search(machine, 9, examples::infeasible()),
            ]
        })
        .collect()
}

#[test]
fn searches_are_bars_in_groups_with_a_colour_for_each_method() {
    for (sought, longest, told) in [
        (Sought::LargestBatch, "pooch", "pooch reaches the largest batch"),
        (Sought::SmallestBudget, "sqrt-n", "pooch reaches the smallest budget"),
    ] {
        let report = Report { searches: searches(sought), ..Report::default() };
        let figures = report.figures();
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].id, sought.id());
        let svg = figures[0].pictures[0].svg();
        let tree = parsed(&svg);
        let bars: Vec<(i32, &str)> = (tree.descendants())
            .filter(|node| node.has_tag_name("rect") && node.attribute("class").is_none())
            .map(|node| {
                let attribute = |name| node.attribute(name).expect("a filled rectangle");
                (attribute("width").parse().expect("pixels"), attribute("fill"))
            })
            .collect();
        let titles: Vec<_> = (tree.descendants().filter(|node| node.has_tag_name("title")))
            .filter_map(|node| node.text())
            .collect();
        // A bar and its words for each plan: the method without one has neither, but a label.
        assert_eq!((bars.len(), titles.len()), (4, 4));
        assert_eq!(bars[0], bars[2]);
        assert_ne!(bars[0].1, bars[1].1);
        let (widest, _) = bars.iter().zip(&titles).max_by_key(|(bar, _)| bar.0).expect("bars");
        let of_longest = titles.iter().position(|title| title.starts_with(longest));
        assert_eq!(Some(widest), of_longest.map(|index| &bars[index]));
        assert!(titles.iter().all(|title| title.contains("resnet50")), "{titles:?}");
        assert_eq!(svg.matches("no plan: 350.000 MB short").count(), 2);
        let html = report.html(&figures);
        assert!(html.contains(told) && html.contains("in 2 of 2 searches"));
        assert!(html.contains("<td class=\"text\">pooch</td>"), "the table");
        assert!(!html.contains(&format!("<li>{}:", sought.title())));
    }
}

#[test]
fn series_that_are_left_out_for_longer_ones_are_not_called_missing() {
    let mut settings = over_links();
    let two_budgets = settings
        .iter()
        .map(|setting| Setting { budget: Bytes(setting.budget.0 / 2), ..setting.clone() });
    let two_budgets: Vec<_> = two_budgets.collect();
    settings.extend(two_budgets);
    let report = Report { settings, ..Report::default() };
    let figures = report.figures();
    let html = report.html(&figures);
    assert!(figures.iter().any(|figure| figure.id.starts_with("overhead-against-link")));
    assert!(html.contains("<li>Overhead against budget: one series over two budgets only"));
    assert!(html.contains("<li>Overhead against batch: the inputs hold no data"));
    assert!(!html.contains("<li>Overhead against link bandwidth:"));
}

#[test]
fn host_memory_is_told_apart_where_it_varies() {
    let setting = |gigabytes: u64| Setting {
        host_memory: Some(Bytes(gigabytes * 1_000_000_000)),
        ..Setting::of(&examples::comparison(), None)
    };
    let report = Report { settings: [8, 16, 32].map(setting).into(), ..Report::default() };
    let figures = report.figures();
    let figure = figures.iter().find(|figure| figure.id == "overhead-against-host-memory");
    let svg = figure.expect("it is there").pictures[0].svg();
    assert!(svg.contains("tide: +7.0 %; resnet50 (batch 64) on v100-pcie3 (host 8.000 GB)"));
}

#[test]
fn a_small_chart_of_bars() {
    let setting = Setting::of(&examples::comparison(), None);
    let figure = methods::overhead(&[setting]).expect("there are plans");
    insta::assert_snapshot!("overhead", figure.pictures[0].svg());
}

#[test]
fn no_two_figures_have_one_title_and_zeros_have_none() {
    let mut settings = over_links();
    settings.truncate(2);
    for setting in &mut settings {
        setting.methods.iter_mut().for_each(|m| (m.d2h, m.h2d) = (Some(Bytes(0)), Some(Bytes(0))));
    }
    let timeline = examples::timeline();
    let run = Run { timeline, plan: None, trace: None };
    let report = Report { settings, runs: vec![run.clone(), run], ..Report::default() };
    let figures = report.figures();
    let mut titles: Vec<_> = figures.iter().map(|figure| figure.title.as_str()).collect();
    assert!(titles.iter().any(|title| title.ends_with("(2)")), "{titles:?}");
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), figures.len());
    assert!(!figures.iter().any(|figure| figure.id == "moved"));
    let html = report.html(&figures);
    assert!(html.contains("<h2>Side by side</h2>") && html.contains("Settings side by side"));
    assert!(html.contains("<td>1.000x</td>"), "the second run over the first");
}

/// The chart that a study is made for comes first, its links are named under its axis, and all that it
/// shows is in a table, too.
#[test]
fn a_study_over_links_begins_with_its_chart() {
    let mut settings = over_links();
    for (setting, link) in settings.iter_mut().zip(["", "pcie4", "pcie5", "nvlink"]) {
        setting.link = link.into();
        setting.methods.push(examples::infeasible_as("ilp", 100));
    }
    let report = Report { settings, ..Report::default() };
    let figures = report.figures();
    assert_eq!(figures[0].id, "overhead-against-link");
    assert!(figures[0].caption.contains("finds no plan. Without any plan: ilp. No plan can"));
    let svg = figures[0].pictures[0].svg();
    for name in ["own", "pcie4", "pcie5", "nvlink", "bound"] {
        assert!(
            parsed(&svg).descendants().any(|n| n.has_tag_name("text")
                && n.text().is_some_and(|text| text.trim().ends_with(name))),
            "{name}"
        );
    }
    let html = report.html(&figures);
    assert!(html.contains("nvlink (100)</th><td>+10.0 %</td>"), "{html}");
    assert!(html.contains("<td>no plan</td>"));
}

#[test]
fn what_inputs_say_cannot_break_the_page() {
    let mut report = report();
    let evil = "</text><script>alert(1)</script>\"&\u{1}\u{0}";
    report.settings[0].network = evil.into();
    report.settings[0].methods[0].method = evil.into();
    report.runs[0].timeline.method = evil.into();
    let figures = report.figures();
    let html = report.html(&figures);
    assert!(!html.contains("<script") && !html.contains('\u{1}'));
    figures.iter().flat_map(|f| &f.pictures).for_each(|picture| {
        parsed(&picture.svg());
    });
}

#[test]
fn an_empty_report_is_a_page_that_says_so() {
    let report = Report::default();
    let figures = report.figures();
    assert!(figures.is_empty());
    assert!(report.html(&figures).contains("Not shown"));
}

#[test]
fn the_png_is_twice_the_size_and_has_text() {
    let setting = Setting::of(&examples::comparison(), None);
    let figure = methods::overhead(&[setting]).expect("there are plans");
    let picture = &figure.pictures[0];
    let image = resvg::tiny_skia::Pixmap::decode_png(&png(picture).expect("a PNG")).expect("it is");
    assert_eq!(image.width(), 2 * plot::WIDTH);
    // Names stand left of the bars: without a font there would be nothing but ground.
    let names = (0..image.height()).flat_map(|y| (0..200).map(move |x| (x, y)));
    let dark =
        names.filter_map(|(x, y)| image.pixel(x, y)).filter(|p| p.red() < 128 && p.blue() < 128);
    assert!(dark.count() > 200);
}
