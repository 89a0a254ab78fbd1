use schema::{BytesPerSec, Nanos};

use super::*;
use crate::{Comparison, examples, png};

fn report() -> Report {
    let (timeline, _) = examples::chain(60);
    let mut comparison = examples::comparison();
    comparison.methods.push(examples::infeasible());
    Report {
        runs: vec![Run { timeline, plan: None, trace: None }],
        settings: vec![Setting::of(&comparison, None)],
        left_out: Vec::new(),
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
fn the_same_report_gives_the_same_bytes() {
    let (one, two) = (report(), report());
    assert_eq!(one.html(&one.figures()), two.html(&two.figures()));
    let picture = &one.figures()[0].pictures[0];
    assert_eq!(png(picture).expect("a PNG"), png(&two.figures()[0].pictures[0]).expect("a PNG"));
}

#[test]
fn figures_are_named_apart_and_what_is_missing_is_said() {
    let mut report = report();
    report.runs.push(Run { timeline: examples::timeline(), plan: None, trace: None });
    let figures = report.figures();
    let ids: Vec<_> = figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["overhead", "moved", "timeline-1", "timeline-2", "hidden"]);
    let html = report.html(&figures);
    for missing in ["What memory holds", "Overhead against batch", "Decisions over the network"] {
        assert!(html.contains(&format!("<li>{missing}")), "{missing}");
    }
    for there in ["<li>Timeline:", "<li>Overhead by method:", "<li>Bytes moved:"] {
        assert!(!html.contains(there), "{there}");
    }
    assert!(html.contains("tide is fastest, 7.0 % slower than without a memory limit"));
    assert!(html.contains("vdnn-conv</td><td class=\"sentence\""), "why there is no plan");
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
    ");
    // The method that lacks the first point has marks for the other three, and one at its name.
    let lines = tree.descendants().filter(|node| node.has_tag_name("polyline"));
    let points = lines.filter_map(|node| node.attribute("points"));
    let lengths: Vec<_> = points.map(|points| points.split_whitespace().count()).collect();
    assert!(lengths.contains(&3) && lengths.contains(&4), "{lengths:?}");
}

#[test]
fn a_small_chart_of_bars() {
    let setting = Setting::of(&examples::comparison(), None);
    let figure = methods::overhead(&setting).expect("there are plans");
    insta::assert_snapshot!("overhead", figure.pictures[0].svg());
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
    let figure = methods::overhead(&setting).expect("there are plans");
    let picture = &figure.pictures[0];
    let image = resvg::tiny_skia::Pixmap::decode_png(&png(picture).expect("a PNG")).expect("it is");
    assert_eq!(image.width(), 2 * plot::WIDTH);
    // Names stand left of the bars: without a font there would be nothing but ground.
    let names = (0..image.height()).flat_map(|y| (0..200).map(move |x| (x, y)));
    let dark =
        names.filter_map(|(x, y)| image.pixel(x, y)).filter(|p| p.red() < 128 && p.blue() < 128);
    assert!(dark.count() > 200);
}
