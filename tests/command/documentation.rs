//! README and docs show what the commands print now.
//!
//! Their blocks are run as those of [`crate::console`]. `TIDEGATE_UPDATE=1` writes what the commands print into the
//! pages, and the pictures that pages show and their commands draw; `TIDEGATE_PAGE=guide` looks at the pages alone
//! that have this in their name.

use std::path::PathBuf;

use crate::console::{pages_of, with_outputs};
use crate::sandbox::{Sandbox, repository, without_times};

#[test]
fn the_pages_show_what_the_commands_print() {
    let update = std::env::var_os("TIDEGATE_UPDATE").is_some();
    let (mut different, mut pictures, mut all_drawn) = (Vec::new(), Vec::new(), Vec::new());
    let of_name = std::env::var("TIDEGATE_PAGE").unwrap_or_default();
    for page in pages().into_iter().filter(|page| page.to_string_lossy().contains(&of_name)) {
        let shown = std::fs::read_to_string(&page).expect("the page is readable");
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("docs")).expect("a new folder is writable");
        let now = with_outputs(
            &shown,
            |arguments| {
                // On a slow machine, progress is told of.
                let run = sandbox.run(&format!("{arguments} --quiet"));
                assert_eq!(run.code, 0, "{arguments}\n{}", run.stderr);
                run
            },
            &sandbox,
        );
        // Times that differ from run to run are no reason to write.
        if without_times(&shown) != without_times(&now) {
            different.push((page.clone(), now));
        }
        let folder = page.parent().and_then(|folder| folder.strip_prefix(repository()).ok());
        let folder = folder.expect("pages are in the repository");
        for link in links(&shown).filter(|link| link.ends_with(".svg")) {
            let picture = repository().join(folder).join(link);
            pictures.push(picture.clone());
            let drawn = sandbox.path(&folder.join(link).to_string_lossy());
            let Ok(drawn) = std::fs::read_to_string(drawn) else { continue };
            all_drawn.push(picture.clone());
            if std::fs::read_to_string(&picture).ok().as_ref() != Some(&drawn) {
                different.push((picture, drawn));
            }
        }
    }
    // README shows one that another page draws.
    let is_drawn = |picture: &PathBuf| !of_name.is_empty() || all_drawn.contains(picture);
    let old: Vec<&PathBuf> = pictures.iter().filter(|picture| !is_drawn(picture)).collect();
    assert!(old.is_empty(), "no command of a page draws {old:?}");
    for (page, now) in &different {
        assert!(update, "run docs/update.sh: {} should be\n{now}", page.display());
        std::fs::create_dir_all(page.parent().expect("it is in a folder")).expect("writable");
        std::fs::write(page, now).expect("the page can be written");
    }
}

/// README is what people see first; it leads elsewhere.
#[test]
fn the_readme_is_short() {
    let bytes = std::fs::metadata(repository().join("README.md")).expect("there is a README").len();
    assert!(bytes <= 12_000, "{bytes} bytes: what is not needed first belongs in docs/");
}

/// Links between pages, and from pages to files, lead somewhere.
#[test]
fn links_lead_to_what_is_there() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("the page is readable");
        let folder = page.parent().expect("a page is in a folder");
        for target in links(&text) {
            let file = target.split('#').next().unwrap_or_default();
            if !target.starts_with("http") && !file.is_empty() {
                assert!(folder.join(file).exists(), "{}: {target}", page.display());
            }
        }
    }
}

/// Where the links of a page lead.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

fn pages() -> Vec<PathBuf> {
    let mut pages = pages_of("docs");
    pages.push(repository().join("README.md"));
    pages
}
