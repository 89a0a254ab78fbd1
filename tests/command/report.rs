//! `tidegate report`, from the files that the other commands write to a page in a browser.

use std::path::Path;
use std::process::Command;

use schema::{Document, Timeline};

use crate::sandbox::Sandbox;

/// A plan, its timeline and comparisons over budgets, all of the bundled trace.
fn inputs() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("plan resnet18-host -m titan-v -b 80% --method superneurons -o plan.json");
    sandbox.ok("simulate plan.json -o timeline.json");
    for budget in ["70%", "80%"] {
        let methods = "--methods=swap-all,superneurons,sqrt-n,in-core";
        let command = format!("compare resnet18-host -m titan-v -b {budget} {methods}");
        let comparison = sandbox.ok(&format!("{command} --format json"));
        sandbox.write(&format!("{budget}.json"), &comparison);
    }
    sandbox.write("searches.toml", SEARCHES);
    sandbox.ok("study searches.toml -o searches");
    sandbox
}

const SEARCHES: &str = include_str!("inputs/searches.toml");

const REPORT: &str = "report plan.json 70%.json 80%.json searches -o";

const FIGURES: [&str; 9] = [
    "overhead",
    "largest-batch",
    "smallest-budget",
    "overhead-against-budget",
    "moved",
    "timeline",
    "memory",
    "decisions",
    "hidden",
];

#[test]
fn a_report_is_whole_and_the_same_every_time() {
    let sandbox = inputs();
    let [html, again] = ["one", "two"].map(|to| {
        sandbox.ok(&format!("{REPORT} {to}"));
        sandbox.text(&format!("{to}/index.html"))
    });
    assert_eq!(html, again);
    for figure in FIGURES {
        assert!(html.contains(&format!("<figure id=\"{figure}\">")), "{figure}");
        for extension in ["svg", "png"] {
            let name = format!("{figure}.{extension}");
            let [one, two] = ["one", "two"]
                .map(|to| std::fs::read(sandbox.path(&format!("{to}/{name}"))).expect("a figure"));
            assert!(one == two && !one.is_empty(), "{name}");
        }
    }

    // What memory holds adds up to what the simulator says is resident.
    let timeline = Timeline::read(&sandbox.path("timeline.json")).expect("a timeline");
    let memory = sandbox.text("one/memory.svg");
    let peak = format!("the peak, tensor by tensor: {} at", timeline.peak);
    assert!(memory.contains(&peak), "not {peak}");
}

/// Points of the memory curve that lie far outside of the iteration and of all other memory.
#[test]
fn a_timeline_that_says_what_cannot_be_is_drawn() {
    let sandbox = Sandbox::new();
    sandbox.ok("plan resnet18-host -m titan-v --method swap-all -o plan.json");
    sandbox.ok("simulate plan.json -o timeline.json");
    let read = || Timeline::read(&sandbox.path("timeline.json")).expect("a timeline");
    let write = |timeline: &Timeline, name: &str| {
        timeline.write(&sandbox.path(name)).expect("it can be written");
        Timeline::read(&sandbox.path(name)).expect("it passes its check");
    };
    let mut timeline = read();
    timeline.memory[0].in_flight = schema::Bytes(1_000_000_000_000_000);
    write(&timeline, "flight.json");
    let mut timeline = read();
    timeline.memory.last_mut().expect("there are points").at = schema::Nanos(u64::MAX);
    write(&timeline, "late.json");
    for name in ["flight", "late"] {
        let shown = sandbox.ok(&format!("report {name}.json -o {name}"));
        assert!(shown.contains("figures"), "{shown}");
        assert!(sandbox.path(&format!("{name}/timeline.png")).exists());
    }
}

/// What reads tables trusts them, and panics; of which nobody hears.
#[test]
fn damaged_tables_are_refused_without_more_words_than_that() {
    let sandbox = Sandbox::new();
    let table = sandbox.path("results.parquet");
    let file = schema::PendingFile::create(&table).expect("the folder is there");
    experiments::tables::write_parquet(&[experiments::tables::Row::default()], file)
        .expect("written");
    let whole = std::fs::read(&table).expect("it is there");
    for place in (0..whole.len()).step_by(whole.len() / 60) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0xff;
        std::fs::write(&table, damaged).expect("written");
        let run = sandbox.run("report results.parquet -o out");
        assert!(!run.stderr.contains("panicked"), "byte {place}: {}", run.stderr);
        assert!(matches!(run.code, 0 | 2), "byte {place}: {}", run.stderr);
    }
}

/// A browser that takes `--dump-dom`, by the names that distributions give it; where there is none it says that
/// the test skips.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let found = names.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: no chromium is installed");
    }
    found
}

fn browse(browser: &str, folder: &Path, arguments: &[&str]) -> String {
    let profile = folder.join("profile");
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .env("HOME", folder)
        .output()
        .expect("it has just told its version");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{browser} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes into the page, in a place that the test reads, how large each picture is and whether
/// anything is wider than the page.
const MEASURE: &str = "<script>addEventListener('load', () => {
  const sizes = [...document.querySelectorAll('figure svg')].map(svg => {
    const box = svg.getBoundingClientRect();
    const marks = [...svg.children].filter(mark => mark.getBoundingClientRect().width > 0);
    return svg.closest('figure').id + ' ' + Math.round(box.width) + ' ' + Math.round(box.height)
      + ' ' + marks.length;
  });
  const root = document.documentElement;
  sizes.push('page ' + root.clientWidth + ' ' + root.scrollWidth + ' 0');
  document.body.innerHTML = '<pre id=measured>' + sizes.join('\\n') + '</pre>';
})</script></body>";

#[test]
fn every_figure_is_there_in_a_browser() {
    let Some(browser) = browser() else { return };
    let sandbox = inputs();
    sandbox.ok(&format!("{REPORT} out"));
    sandbox.write("measuring.html", &sandbox.text("out/index.html").replace("</body>", MEASURE));
    let address = |page: &str| format!("file://{}", sandbox.path(page).display());
    let show = |arguments: &[&str]| browse(browser, &sandbox.path("."), arguments);
    let dom = show(&["--window-size=1000,800", "--dump-dom", &address("measuring.html")]);
    let measured = dom.split("<pre id=\"measured\">").nth(1).expect("the script has run");
    let measured = measured.split("</pre>").next().expect("an end");
    let sizes: Vec<(&str, Vec<u32>)> = measured
        .lines()
        .map(|line| {
            let (name, numbers) = line.split_once(' ').expect("a name");
            (name, numbers.split(' ').map(|n| n.parse().expect("a number")).collect())
        })
        .collect();
    for figure in FIGURES {
        let (_, size) = sizes.iter().find(|(name, _)| *name == figure).expect(figure);
        assert!(size[0] >= 700 && size[1] >= 100, "{figure} is {} x {}", size[0], size[1]);
        assert!(size[2] >= 5, "{figure} shows {} marks", size[2]);
    }
    let (_, page_size) = sizes.iter().find(|(name, _)| *name == "page").expect("the page");
    assert_eq!(page_size[0], page_size[1], "the page is wider than its window");

    // The page itself, as a person would see it: a picture that is not one colour.
    let picture = sandbox.path("page.png");
    let screenshot = format!("--screenshot={}", picture.display());
    show(&["--window-size=1000,2000", &screenshot, &address("out/index.html")]);
    let bytes = std::fs::read(&picture).expect("a screenshot");
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 50_000, "{} bytes", bytes.len());
}

/// Links that a study varies, in a page that is also printed; the same of one plan. Their screenshots, light
/// and dark, wide and narrow, stay in cargo's folder for what tests put out, to be looked at.
#[test]
fn pages_are_shown_light_and_dark_wide_and_narrow() {
    let Some(browser) = browser() else { return };
    let sandbox = inputs();
    sandbox.write("links.toml", LINKS);
    sandbox.ok("study links.toml -o links");
    sandbox.ok("report links -o links-page --pdf");
    sandbox.ok("report plan.json -o plan-page");
    let html = sandbox.text("links-page/index.html");
    let first = html.split("<figure id=\"").nth(1).expect("there are figures");
    assert!(first.starts_with("overhead-against-link") && first.contains("nvlink-c2c"), "{first}");
    let pdf = std::fs::read(sandbox.path("links-page/index.pdf")).expect("a PDF");
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 10_000, "{} bytes", pdf.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).expect("a new folder is writable");
    for page in ["links-page", "plan-page"] {
        let address = format!("file://{}", sandbox.path(page).join("index.html").display());
        let shots = [("light", false), ("dark", true)].into_iter().flat_map(|(name, dark)| {
            [("wide", "1280,3200"), ("narrow", "500,3200")]
                .map(|(width, size)| (format!("{page}-{name}-{width}.png"), dark, size))
        });
        let taken: Vec<Vec<u8>> = shots
            .map(|(name, dark, size)| {
                let to = folder.join(name);
                let mut arguments =
                    vec![format!("--window-size={size}"), format!("--screenshot={}", to.display())];
                arguments.extend(dark.then(|| "--blink-settings=preferredColorScheme=0".into()));
                arguments.push(address.clone());
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                browse(browser, &sandbox.path("."), &arguments);
                std::fs::read(to).expect("a screenshot")
            })
            .collect();
        // Dark is not light: what the page says of itself is heard.
        let ground = |png: &[u8]| {
            let image = resvg::tiny_skia::Pixmap::decode_png(png).expect("a PNG");
            image.pixel(3, 3).expect("it is within").red()
        };
        let grounds: Vec<u8> = taken.iter().map(|png| ground(png)).collect();
        assert_eq!(grounds, [255, 255, 13, 13], "{page}");
    }
}

const LINKS: &str = include_str!("inputs/links.toml");
