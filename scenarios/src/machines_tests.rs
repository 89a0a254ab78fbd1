use std::error::Error;

use schema::{Bytes, BytesPerSec, Nanos};

use super::*;

/// The names of the TOML files in a folder of this crate.
fn files(folder: &str) -> Vec<String> {
    files_that_end(folder, "toml")
}

fn files_that_end(folder: &str, extension: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut names: Vec<String> = std::fs::read_dir(path)
        .expect("the folder is part of the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|end| end == extension))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn names<'a>(table: &[(&'a str, &str)]) -> Vec<&'a str> {
    table.iter().map(|(name, _)| *name).collect()
}

/// What went wrong and every cause of it, one a line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string().trim_end().to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!("\n{}", error.to_string().trim_end());
        cause = error.source();
    }
    text
}

#[test]
fn the_tables_hold_every_file_of_their_folders_and_share_no_name() {
    assert_eq!(names(BUNDLED.machines), files("machines"));
    assert_eq!(names(BUNDLED.measured), files_that_end("measured", "json"));
    assert_eq!(names(BUNDLED.links), files("links"));
    assert_eq!(names(BUNDLED.variations), files("variations"));
    let tables = [BUNDLED.machines, BUNDLED.measured, BUNDLED.links, BUNDLED.variations];
    let mut all = tables.map(names).concat();
    all.sort();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
}

/// Nobody states how much copies slow compute on any machine that comes along: they do not, then.
const UNSTATED: &str = "link.beside_copy";

/// What a machine need not state.
const OPTIONAL: [&str; 8] = [
    "device.compute.tf32_flops",
    "device.compute.multiprocessors",
    "device.compute.l2_cache",
    "device.compute.f32_products",
    "device.compute.elementwise",
    "host.updates",
    "network.bandwidth",
    "network.latency",
];

#[test]
fn every_figure_of_every_file_has_a_source_of_its_own() {
    for (name, text) in BUNDLED.machines.iter().chain(BUNDLED.links).chain(BUNDLED.variations) {
        let read = MachineFile::read(text, Path::new(name)).expect("well formed");
        let stated = read.figures().into_iter().filter(|(_, stated)| *stated);
        for (figure, _) in stated {
            let source = read.source(figure).expect("a figure that is stated has a source");
            let own = !source.is_empty() && !source.starts_with("stated in");
            assert!(own, "{name}: {figure} has no source");
        }
    }
    let is_measured = |machine: &Machine| names(BUNDLED.measured).contains(&&machine.name[..]);
    for machine in machines().filter(is_measured) {
        let says = |figure: &str| machine.sources.get(figure).is_some_and(|said| !said.is_empty());
        let unsaid = MachineFile::default().figures().into_iter().map(|(figure, _)| figure);
        let unsaid: Vec<_> =
            unsaid.into_iter().filter(|one| !says(one) && !OPTIONAL.contains(one)).collect();
        assert!(unsaid.is_empty(), "{}: {unsaid:?}", machine.name);
    }
    for machine in machines().filter(|machine| !is_measured(machine)) {
        let needed = |name: &&str| *name != UNSTATED && !OPTIONAL.contains(name);
        let figures = machine.sources.keys().map(String::as_str);
        let figures: Vec<&str> = figures.filter(needed).collect();
        let expected = MachineFile::default().figures().into_iter().map(|(figure, _)| figure);
        let mut expected: Vec<_> = expected.into_iter().filter(needed).collect();
        expected.sort();
        assert_eq!(machine.link.beside_copy, 1.0);
        assert_eq!(figures, expected, "{}", machine.name);
    }
}

#[test]
fn a_link_file_states_a_whole_link_and_nothing_else() {
    for (name, text) in BUNDLED.links {
        let read = MachineFile::read(text, Path::new(name)).expect("well formed");
        assert!(read.inherits.is_none() && read.link_name().is_some(), "{name}");
        for (figure, stated) in read.figures() {
            let is_whole = figure.starts_with("link.") && figure != UNSTATED;
            assert_eq!(stated, is_whole, "{name}: {figure}");
        }
    }
    assert_eq!(links().map(|(name, _)| name).collect::<Vec<_>>(), names(BUNDLED.links));
}

#[test]
fn the_machines_that_come_with_tidegate() {
    let lines = machines().map(|m| {
        let speed = |b: &schema::Bandwidth| b.at(Bytes(1 << 30)) / 1e9;
        format!(
            "{:<15} {:>4} GiB  d2h {:>5} GB/s  h2d {:>5} GB/s  {}\n",
            m.name,
            m.device.memory.0 >> 30,
            speed(&m.link.d2h),
            speed(&m.link.h2d),
            m.description
        )
    });
    insta::assert_snapshot!(lines.collect::<String>());
}

#[test]
fn another_link_brings_its_figures_and_their_sources() {
    let plain = machine("titan-v").expect("known");
    let other = machine("titan-v+pcie5").expect("known");
    assert_eq!(other.name, "titan-v+pcie5");
    assert_eq!(other.description, "Titan V over PCIe 3; here with PCIe 5 x16");
    assert_eq!(other.device, plain.device);
    let (_, pcie5) = links().find(|(name, _)| *name == "pcie5").expect("known");
    assert_eq!(other.link, pcie5);
    assert!(other.sources["link.d2h"].contains("nvbandwidth"));
    assert_eq!(other.sources["device.memory"], plain.sources["device.memory"]);
}

#[test]
fn a_variation_changes_what_it_states_and_nothing_else() {
    let plain = machine("titan-v").expect("known");
    assert!(plain.device.compute.codec_lane);
    let on_compute = machine("titan-v+no-codec-lane").expect("known");
    assert!(!on_compute.device.compute.codec_lane);
    assert_eq!(on_compute.description, "Titan V over PCIe 3; here with codecs on compute");
    let source = &on_compute.sources["device.compute.codec_lane"];
    assert_eq!(source, "supposed: asked for by name");
    let mut again = machine("titan-v+no-codec-lane+codec-lane").expect("known");
    assert_eq!(again.name, "titan-v+no-codec-lane+codec-lane");
    again.name.clone_from(&plain.name);
    assert_eq!((again.device, again.link), (plain.device, plain.link));
    let both = machine("titan-v+pcie5+no-codec-lane").expect("known");
    assert_eq!(both.link, machine("titan-v+pcie5").expect("known").link);
    assert!(!both.device.compute.codec_lane);
}

#[test]
fn a_file_of_the_users_own_inherits_and_records_where_its_figures_are_stated() {
    let text = r#"
        inherits = "titan-v+pcie4"
        [device]
        memory = "24GB"
        [link]
        h2d = [{ bytes = "64KiB", bandwidth = "3GB/s" }, { bytes = "1MiB", bandwidth = "20GB/s" }]
        [sources]
        link.h2d = "measured"
    "#;
    let mine = machine_from_toml(text, Path::new("lab/mine.toml")).expect("well formed");
    assert_eq!(mine.name, "mine");
    assert_eq!(mine.description, "Titan V over PCIe 3; here with PCIe 4 x16");
    assert_eq!(mine.device.memory, Bytes(24_000_000_000));
    assert_eq!(mine.device.compute, machine("titan-v").expect("known").device.compute);
    assert_eq!(mine.link.h2d.pinned[0].bytes_per_sec, BytesPerSec(3_000_000_000));
    assert_eq!(mine.link.latency, Nanos(10_000));
    assert_eq!(mine.sources["device.memory"], "stated in lab/mine.toml");
    assert_eq!(mine.sources["link.h2d"], "measured");
    assert_eq!(mine.sources["link.d2h"], "assumed: as host to device; nominal 31.5 GB/s");

    // A name that hides a machine of ours is no circle.
    let same = machine_from_toml("inherits = \"titan-v\"", Path::new("titan-v.toml"));
    assert_eq!(same.expect("well formed"), machine("titan-v").expect("known"));
}

#[test]
fn the_readme_s_example_is_a_machine() {
    let (_, rest) = include_str!("../README.md").split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("it ends");
    let mine = machine_from_toml(example, Path::new("lab.toml")).expect("well formed");
    assert_eq!(mine.description, "Titan V of the lab");
    assert_eq!(mine.link.h2d.pinned.len(), 2);
}

#[test]
fn names_that_are_none_are_refused_with_a_remedy() {
    let long = "x".repeat(10_000);
    let names = "titan-w a100 quantum titan-v+pcie9 titan-v+ pcie5 titan-v+p100 titan-v+pcie5+codec  \
                 +pcie5";
    let say = |name: &str| causes(&machine(name).expect_err("no such machine"));
    let lines = names.split(' ').map(|name| format!("`{name}`: {}", say(name)));
    let lines: Vec<String> = lines.collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert!(matches!(machine(&long), Err(ScenarioError::Unknown { .. })));
}

/// A document takes another link as a file does, with that link's sources, and keeps its own figures.
#[test]
fn measured_machines_take_other_links() {
    let measured = machine("h100-measured").expect("bundled");
    let nvlink = machine("h100-measured+nvlink-c2c").expect("bundled");
    assert_eq!(nvlink.device, measured.device);
    let link = machine("h200+nvlink-c2c").expect("bundled").link;
    assert_eq!((&nvlink.link.d2h, nvlink.link.latency), (&link.d2h, link.latency));
    assert_ne!(nvlink.link.d2h, measured.link.d2h);
    assert!(measured.sources["link.d2h"].starts_with("measured"), "{:?}", measured.sources);
    assert!(!nvlink.sources["link.d2h"].starts_with("measured"), "{:?}", nvlink.sources);
    assert!(nvlink.description.ends_with("here with NVLink-C2C"), "{}", nvlink.description);
    let own = machine_with(measured.clone(), "nvlink-c2c").expect("there is such a link");
    assert_eq!((own.link, own.device), (nvlink.link, nvlink.device));
    assert!(matches!(machine_with(measured, "nothing"), Err(ScenarioError::Unknown { .. })));
}

#[test]
fn machines_that_inherit_one_another_are_refused() {
    let library = Library {
        machines: &[
            ("a", "inherits = \"b\""),
            ("b", "inherits = \"c+fast\""),
            ("c", "inherits = \"b\""),
            ("self", "inherits = \"self\""),
        ],
        measured: &[],
        links: &[("fast", "")],
        variations: &[],
    };
    let say = |name| library.machine(name).expect_err("a circle").to_string();
    insta::assert_snapshot!([say("a"), say("self")].join("\n"));
}

#[test]
fn broken_files_are_refused_with_file_place_and_remedy() {
    // Each under a line that says what is wrong with it.
    let broken = include_str!("machines_tests/broken.txt").split("# ").skip(1);
    let report = broken.map(|case| {
        let (what, text) = case.split_once('\n').expect("it is a line");
        let error = machine_from_toml(text, Path::new("my.toml")).expect_err(what);
        format!("# {what}\n{}\n", causes(&error))
    });
    insta::assert_snapshot!(report.collect::<Vec<_>>().join("\n"));
}
