//! The map of the code in ARCHITECTURE.md: what it names is there.

use std::path::Path;

#[test]
fn every_file_of_the_map_is_there_and_has_what_is_looked_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("it is there");
    let (_, map) = text.split_once("## Map of the code").expect("it has a map");
    let rows = map.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [question, file, words] = cells.as_slice() else { panic!("three cells: {row}") };
        let file = root.join(file.trim_matches('`'));
        let code = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{question}: {}: {error}", file.display()));
        assert!(code.contains(words), "{question}: no `{words}` in {}", file.display());
        count += 1;
    }
    assert!(count >= 20, "{count} rows");
}
