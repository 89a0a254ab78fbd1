//! What was likely meant by a name that there is not.

/// What to write instead: the names that were likely meant, or all of them.
pub fn remedy(closest: &[String], known: &[String]) -> String {
    let quoted = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    match (closest, known) {
        ([], []) => "none comes with this tidegate".to_string(),
        ([], all) => format!("there are {}", quoted(all)),
        (some, _) => format!("did you mean {}?", quoted(some)),
    }
}

/// What to write instead of a name that none of these is.
pub fn instead<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<String> = known.into_iter().map(String::from).collect();
    remedy(&closest(name, &known), &known)
}

/// Up to three names: those that begin with `name` or have all its parts (as `llama3.2-1b` has those of `llama-1b`),
/// then those that differ from it in at most about a third of its letters.
pub fn closest(name: &str, known: &[String]) -> Vec<String> {
    // Longer texts are no misspelt names, and comparing them takes long.
    let length = name.chars().count();
    if !(1..=64).contains(&length) {
        return Vec::new();
    }
    let has_all_parts = |candidate: &str| {
        name.contains('-') && name.split('-').all(|part| candidate.contains(part))
    };
    let mut near: Vec<(usize, &String)> = known
        .iter()
        .map(|candidate| match candidate.starts_with(name) || has_all_parts(candidate) {
            true => (0, candidate),
            false => (strsim::damerau_levenshtein(name, candidate), candidate),
        })
        .filter(|(distance, _)| *distance <= 1 + length / 3)
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, candidate)| candidate.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_all_parts_come_before_those_spelled_alike() {
        let known = ["llama2-7b", "llama2-13b", "llama3.2-1b", "resnet50"].map(String::from);
        assert_eq!(closest("llama-1b", &known)[0], "llama3.2-1b");
        assert_eq!(closest("resnet-50", &known), ["resnet50"]);
        assert!(closest("a-network-of-mine", &known).is_empty());
    }
}
