//! What papers print beside what is predicted for it: a chart for each figure of a paper.

use super::Figure;
use super::bars::{Bar, Bars, Part};
use super::plot::BLUE;
use crate::text::short;

/// A number that a paper prints, and its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedNumber {
    /// The paper's name, and the place in it: a figure, a table or a section.
    pub place: (String, String),
    /// What it is of.
    pub what: String,
    /// The least and the greatest that the paper states; alike for one number.
    pub printed: [f64; 2],
    /// Absent: nothing predicts it.
    pub predicted: Option<f64>,
}

impl PrintedNumber {
    /// The prediction in percent of what is printed, or of the nearer of its bounds; a printed zero has none.
    fn percent(&self) -> Option<f64> {
        let [low, high] = self.printed;
        let predicted = self.predicted?;
        let nearest = predicted.clamp(low.min(high), high.max(low));
        (nearest != 0.0).then(|| 100.0 * predicted / nearest)
    }

    fn bar(&self) -> Bar {
        let [low, high] = self.printed.map(short);
        let printed = if low == high { low } else { format!("{low} to {high}") };
        let predicted = self.predicted.map_or("nothing".into(), short);
        let label = format!("{predicted} predicted, {printed} printed");
        let part = |value| Part { kind: 0, value, title: format!("{}: {label}", self.what) };
        let parts = self.percent().map(part).into_iter().collect();
        Bar { heading: Some(self.what.clone()), name: String::new(), parts, label }
    }
}

/// A figure for each place, in the order of the numbers, where any of its numbers is predicted.
pub(super) fn figures(numbers: &[PrintedNumber]) -> Vec<Figure> {
    let mut places: Vec<&(String, String)> = Vec::new();
    for number in numbers {
        if !places.contains(&&number.place) {
            places.push(&number.place);
        }
    }
    let figure = |place: &(String, String)| {
        let of_place = numbers.iter().filter(|number| number.place == *place);
        let (paper, at) = place;
        let title = format!("{paper}, {at}: paper against predicted");
        let bars = Bars {
            name: title.clone(),
            axis: "predicted, in percent of what the paper prints".into(),
            kinds: vec![("predicted".into(), BLUE)],
            bars: of_place.map(PrintedNumber::bar).collect(),
            line: Some((100.0, "as printed".into())),
        };
        let caption = "Each bar is a prediction under the study's one set of assumptions; it ends at the line where \
                       it is what the paper prints. Numbers without a bar are not predicted, or printed as zero.";
        bars.figure("printed", &title, caption.into())
    };
    places.into_iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(at: &str, printed: [f64; 2], predicted: Option<f64>) -> PrintedNumber {
        let place = ("comet".to_string(), at.to_string());
        PrintedNumber { place, what: format!("ratio <{}>", printed[0]), printed, predicted }
    }

    #[test]
    fn each_figure_of_a_paper_has_a_chart_of_what_is_predicted() {
        let numbers = [
            number("table 1", [13.5; 2], Some(10.8)),
            number("figure 9", [2.0; 2], None),
            number("table 1", [0.0, 2.5], Some(5.0)),
        ];
        assert_eq!(numbers.each_ref().map(PrintedNumber::percent), [Some(80.0), None, Some(200.0)]);
        let figures = figures(&numbers);
        let titles: Vec<_> = figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles, ["comet, table 1: paper against predicted"]);
        let svg = figures[0].pictures[0].svg();
        assert!(
            svg.contains("10.8 predicted, 13.5 printed") && svg.contains("as printed"),
            "{svg}"
        );
        assert!(svg.contains("5 predicted, 0 to 2.5 printed"), "{svg}");
    }
}
