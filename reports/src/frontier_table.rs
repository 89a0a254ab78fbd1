//! Time against memory as plain text.

use schema::{Bytes, Nanos};

use crate::text::{op_times, or_dash, percent_of, short};
use crate::{Frontier, FrontierPoint, MethodResult, columns};

/// What was planned, a table with a line per budget and a column per method, and the smallest
/// budgets where they were asked for. A cell is a time over the in-core time, `-` where the method
/// has no plan, empty where an interrupted search did not come to it.
pub fn frontier_table(frontier: &Frontier) -> String {
    let Frontier { trace, machine, in_core, .. } = frontier;
    let fixed = in_core.fixed;
    let mut text = [
        ("trace", format!("{} ({})", trace.name, trace.digest.short())),
        ("machine", format!("{} ({})", machine.name, machine.digest.short())),
        (
            "in core",
            format!("{}, peak {} ({fixed} of it all the time)", in_core.iteration, in_core.peak),
        ),
        ("times", format!("predicted; {}", op_times(Some(&frontier.provenance)))),
    ]
    .map(|(name, text)| format!("{name:<9}{text}\n"))
    .concat();
    text.push_str(
        "\nTime over the in-core time, by budget and method; no plan is below the bound.\n",
    );
    text.push_str(&curves(frontier));
    if let Some(slowdown) = frontier.slowdown {
        text.push_str(&format!(
            "\nThe smallest budget with which the iteration takes at most {} % longer:\n",
            short(slowdown * 100.0)
        ));
        text.push_str(&smallest(frontier));
    }
    text
}

fn curves(frontier: &Frontier) -> String {
    let mut header = vec!["budget".to_string(), "of the peak".into(), "bound".into()];
    header.extend(frontier.methods.iter().cloned());
    let mut rows = vec![header];
    for point in &frontier.points {
        let mut row =
            vec![point.budget.to_string(), percent_of(point.budget, frontier.in_core.peak)];
        row.push(times(frontier, point.bound));
        row.extend(frontier.methods.iter().map(|name| cell(point, name)));
        rows.push(row);
    }
    columns(&rows)
}

fn cell(point: &FrontierPoint, name: &str) -> String {
    match point.methods.iter().find(|method| method.method == name) {
        Some(MethodResult { slowdown: Some(slowdown), .. }) => format!("{slowdown:.3}x"),
        Some(_) => "-".into(),
        None => String::new(),
    }
}

fn smallest(frontier: &Frontier) -> String {
    let mut rows = vec![["method", "budget", "of the peak", "time"].map(String::from).to_vec()];
    for found in &frontier.smallest {
        let share = |budget: Bytes| percent_of(budget, frontier.in_core.peak);
        rows.push(vec![
            found.method.clone().unwrap_or_else(|| "bound".into()),
            found.budget.map_or_else(|| "none".into(), |budget| budget.to_string()),
            or_dash(found.budget.map(share)),
            times(frontier, found.iteration),
        ]);
    }
    columns(&rows)
}

fn times(frontier: &Frontier, time: Option<Nanos>) -> String {
    let over = |time: Nanos| format!("{:.3}x", time.ratio(frontier.in_core.iteration));
    or_dash(time.map(over))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn budgets_are_lines_and_methods_columns() {
        insta::assert_snapshot!(frontier_table(&examples::frontier()));
    }

    #[test]
    fn what_an_interrupted_search_did_not_come_to_is_empty() {
        let mut frontier = examples::frontier();
        frontier.points[0].methods.truncate(1);
        frontier.slowdown = None;
        let table = frontier_table(&frontier);
        assert!(!table.contains("smallest budget"), "{table}");
        let line = table.lines().find(|line| line.starts_with("8.000 GB")).expect("a line");
        assert_eq!(line.split_whitespace().last(), Some("1.012x"), "{line}");
    }
}
