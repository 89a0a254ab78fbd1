//! Time against memory.

use super::figure::Figure;
use super::lines::{BOUND, Lines, Point, Series};
use crate::text::op_times;
use crate::{Frontier, FrontierPoint};

/// Overhead against the budget, a line per method and the bound below them; none where nothing
/// fits.
pub fn frontier_figure(frontier: &Frontier) -> Option<Figure> {
    let in_core = frontier.in_core;
    let share =
        |point: &FrontierPoint| 100.0 * point.budget.0 as f64 / in_core.peak.0.max(1) as f64;
    let line = |name: &str, style: usize, overhead: &dyn Fn(&FrontierPoint) -> Option<f64>| {
        let points = frontier.points.iter().rev().map(|point| {
            let at = format!("within {}", point.budget);
            Point::overhead(share(point), overhead(point), name, &at)
        });
        Series { name: name.into(), style, points: points.collect() }
    };
    let mut series: Vec<Series> = (frontier.methods.iter().enumerate())
        .map(|(style, name)| {
            line(name, style, &|point| {
                let method = point.methods.iter().find(|method| method.method == *name)?;
                Some(method.slowdown? - 1.0)
            })
        })
        .collect();
    let bound = |point: &FrontierPoint| Some(point.bound?.ratio(in_core.iteration) - 1.0);
    series.push(line("bound", BOUND, &bound));
    let what = format!("{} on {}", frontier.trace.name, frontier.machine.name);
    let name = format!("overhead against budget: {what}");
    let lines = Lines::of_overheads(name, "budget, share of the in-core peak (%)", series)?;
    Some(Figure::new(
        "frontier",
        &format!("Overhead against budget: {what}"),
        format!(
            "{what}. Each mark is a plan made anew for that budget; lower is better. A line ends \
             where its method finds no plan. No plan of any method lies below the bound. Predicted; \
             {}.",
            op_times(Some(&frontier.provenance))
        ),
        vec![lines.picture()],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn every_method_with_a_plan_and_the_bound_have_a_line() {
        let figure = frontier_figure(&examples::frontier()).expect("plans");
        let svg = figure.pictures[0].svg();
        roxmltree::Document::parse(&svg).expect("XML");
        for title in ["tide: +1.2 %; within 8.000 GB", "bound: +1", "in-core: no plan"] {
            assert_eq!(svg.contains(title), title != "in-core: no plan", "{title}\n{svg}");
        }
    }

    #[test]
    fn where_nothing_fits_there_is_no_figure() {
        let mut frontier = examples::frontier();
        frontier.points.clear();
        assert_eq!(frontier_figure(&frontier), None);
    }
}
