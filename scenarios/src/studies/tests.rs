//! Studies: what a file becomes, and what broken files are told.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use super::*;
use networks::NetworkOptions;

const METHODS: [&str; 14] = [
    "in-core",
    "swap-all-unscheduled",
    "swap-all",
    "superneurons",
    "swap-opt",
    "pooch",
    "sqrt-n",
    "tide",
    "vdnn-all",
    "vdnn-conv",
    "vdnn++",
    "sc",
    "cswap+",
    "comet",
];

fn read(text: &str) -> Result<Study, StudyError> {
    study_from_toml(text, Path::new("my.toml"), &METHODS)
}

fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        write!(text, ": {next}").expect("a string grows");
        cause = next.source();
    }
    text
}

const GOOD: &str = r#"
description = "d"
[[group]]
networks = ["resnet18"]
batches = [64, 128]
machines = ["titan-v"]
links = ["own", "pcie5", "24GB/s"]
budgets = ["50%", "8GiB"]
methods = ["pooch"]
"#;

#[test]
fn each_combination_is_a_point_and_the_last_list_varies_fastest() {
    let study = read(GOOD).expect("a good study");
    assert_eq!(study.name, "my");
    let points: Vec<String> = study
        .points()
        .map(|p| format!("{} {} {:?}", p.batch.unwrap_or(0), p.link, p.budget))
        .collect();
    assert_eq!(points.len(), 12);
    assert_eq!(points[0], "64 own Some(Percent(50.0))");
    assert_eq!(points[1], "64 own Some(Bytes(Bytes(8589934592)))");
    assert_eq!(points[2], "64 pcie5 Some(Percent(50.0))");
    assert_eq!(points[11], "128 24.0 GB/s Some(Bytes(Bytes(8589934592)))");
}

#[test]
fn lists_that_are_absent_stand_for_what_a_machine_and_a_network_have() {
    let text = "description = 'd'\n[[group]]\nnetworks = ['vgg16']\nbatches = [1]\n\
                machines = ['titan-v']\nmethods = ['in-core']";
    let study = read(text).expect("a good study");
    let point = study.points().next().expect("a point");
    assert_eq!(point.link, &LinkChoice::Own);
    assert_eq!((point.budget, point.host_memory, point.image), (None, None, None));
    assert_eq!((point.allow, point.group.find), (Allow::ALL, None));
    assert_eq!(point.group.options, NetworkOptions::default());
}

#[test]
fn the_bundled_studies_can_be_read_and_a_misspelt_one_is_suggested() {
    for name in studies() {
        let study = study(name, &METHODS).unwrap_or_else(|error| panic!("{}", sentence(&error)));
        assert_eq!(study.name, name);
        let networks: Vec<&str> =
            study.groups.iter().flat_map(|g| &g.subjects).map(|s| s.name.as_str()).collect();
        for figure in study.paper.iter().flat_map(|paper| &paper.figures) {
            let mut named = figure.networks.iter().map(String::as_str);
            assert!(named.all(|network| networks.contains(&network)), "{}", figure.what);
        }
        let groups: Vec<&str> = study.groups.iter().map(|group| group.name.as_str()).collect();
        for figure in study.paper.iter().flat_map(|paper| &paper.figures) {
            let named = figure.groups.iter().chain(&figure.over_group);
            assert!(named.into_iter().all(|g| groups.contains(&g.as_str())), "{}", figure.what);
        }
        for what_if in &study.what_ifs {
            let mut figures = study.paper.iter().flat_map(|paper| &paper.figures);
            let derived = |group: &String| study.derived(group, what_if).is_some();
            let shows = figures.any(|figure| {
                let groups = &figure.groups;
                !groups.is_empty() && groups.iter().all(derived)
                    || figure.over_group.as_ref().is_some_and(derived)
            });
            assert!(shows, "{name}: nothing shows {}", what_if.name);
        }
    }
    let error = study("link", &METHODS).expect_err("no such study");
    assert_eq!(error.to_string(), "there is no study `link`: did you mean `links`?");
}

#[test]
fn epochs_are_points_of_their_own() {
    let text = format!("{GOOD}epochs = 5\nat_epochs = [0, 4]\ncodecs = ['zvc']\nsparsity = '50%'");
    let study = read(&text).expect("a good study");
    let epochs: Vec<_> = study.points().map(|point| point.epoch).collect();
    assert_eq!(epochs.len(), 24);
    assert_eq!(epochs.iter().filter(|epoch| **epoch == Some((4, 5))).count(), 12);
    assert_eq!(study.groups[0].codecs.text(), "zvc, 50 % zeros");
    assert!(read(GOOD).expect("good").points().all(|point| point.epoch.is_none()));
}

const WHAT_IF: &str = "
[[what_if]]
name = 'slow'
description = 'half the link'
of = ['first']
links = ['6GB/s']
";

#[test]
fn a_what_if_is_the_groups_that_it_is_of_with_its_own_fields() {
    let study = read(&format!("{GOOD}name = 'first'\n{WHAT_IF}")).expect("a good study");
    assert_eq!(study.points().count(), 12 + 4);
    let group = &study.groups[1];
    assert_eq!((group.name.as_str(), group.links.len()), ("first, slow", 1));
    assert_eq!((group.batches.len(), group.budgets.len()), (2, 2), "the rest stays");
    assert_eq!(study.derived("first", &study.what_ifs[0]).as_deref(), Some("first, slow"));
    assert_eq!(study.derived("second", &study.what_ifs[0]), None);
}

/// A good group with one line replaced, or added where no line of that name is there.
fn with(line: &str) -> String {
    let key = line.split([' ', '=']).next().expect("a key");
    let mut lines: Vec<&str> =
        GOOD.lines().filter(|old| !old.starts_with(&format!("{key} "))).collect();
    lines.push(line);
    lines.join("\n")
}

fn without(key: &str) -> String {
    let lines = GOOD.lines().filter(|line| !line.starts_with(key));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn broken_files_are_refused_with_file_line_and_remedy() {
    let find_batch = with("find = 'largest-batch'");
    let find_batch_only = find_batch.replace("batches = [64, 128]\n", "");
    let trace = "description = 'd'\n[[group]]\ntraces = ['resnet18-host']\n\
                 machines = ['titan-v']\nmethods = ['pooch']\n";
    let many: Vec<String> = (1..=2000).map(|batch| batch.to_string()).collect();
    let cases = [
        "description = 'd'".to_string(),
        "description = 'd".to_string(),
        "[[group]]\nnetworks = ['vgg16']".to_string(),
        without("networks"),
        without("batches"),
        without("machines"),
        without("methods"),
        find_batch,
        find_batch_only.replace("networks = [\"resnet18\"]", "traces = ['resnet18-host']"),
        format!("{}\nframework = 'caffe'", with("ranks = 8")),
        format!("{}\ncodecs = ['zvc']", with("sparsity = 'half'")),
        format!("{}\ncodecs = ['zvc']", with("codec_speed = '0%'")),
        format!("{}\ncodecs = ['zvc']", with("codec_size = '0%'")),
        format!("{}\nat_epochs = [90]", with("epochs = 90")),
        format!("{}\nat_epochs = [0]", with("epochs = 0")),
        format!("{}\nepochs = 90\nat_epochs = [0]", with("progress = 0.5")),
        format!("{trace}batches = [64]"),
        trace.replace("resnet18-host", "resnet19-host"),
        format!("{trace}find = 'largest-batch'"),
        format!("paper = 'vdnn'\n{GOOD}"),
        format!("{GOOD}description = 'half the link'"),
        format!("{GOOD}name = 'first'\n{}", WHAT_IF.replace("'first'", "'frist'")),
        format!("{GOOD}name = 'first'\n{}", WHAT_IF.replace("name = 'slow'\n", "")),
        format!("{GOOD}name = 'first'\n{}", WHAT_IF.replace("of = ['first']\n", "")),
        format!("{GOOD}name = 'first'\n{}", WHAT_IF.replace("description = 'half the link'\n", "")),
        format!("{GOOD}{}", GOOD.replace("description = \"d\"\n", "")),
        with(&format!("batches = [{}]", many.join(", "))),
    ];
    let lines = include_str!("broken-lines.toml").lines().map(with);
    let cases: Vec<String> = lines.chain(cases).collect();
    let report = cases.iter().map(|text| match read(text) {
        Ok(_) => panic!("no error in\n{text}"),
        Err(error) => sentence(&error),
    });
    insta::assert_snapshot!(report.collect::<Vec<_>>().join("\n"));
}
