//! How much faster the paper's method is than those that its figures compare it with, network by network.

use std::collections::BTreeSet;

use scenarios::Paper;

use crate::tables::Row;

use reports::columns;

/// A table with a line for each network of each group, and a sentence for each comparison over all
/// questions. Empty where no figure compares two methods.
pub fn gains(paper: &Paper, rows: &[Row]) -> String {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for figure in paper.figures.iter().filter(|figure| figure.over_group.is_none()) {
        let pair = figure.over.as_deref().map(|over| (figure.method.as_str(), over));
        pairs.extend(pair.filter(|pair| pair.0 != pair.1 && !pairs.contains(pair)));
    }
    let gains: Vec<Vec<(&Row, f64)>> = pairs.iter().map(|pair| compared(*pair, rows)).collect();
    let head = ["group", "network", "machine"].map(String::from).into_iter();
    let head = head.chain(pairs.iter().map(|(method, over)| format!("{method} over {over}")));
    let mut lines = vec![head.collect::<Vec<_>>()];
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| seen.insert(place(row))) {
        let cells: Vec<String> = gains.iter().map(|gains| cell(row, gains)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            let of_row = [&row.group, &row.network, &row.machine].map(String::clone);
            lines.push(of_row.into_iter().chain(cells).collect());
        }
    }
    if lines.len() == 1 {
        return String::new();
    }
    let sentences = pairs.iter().zip(&gains).map(|((method, over), gains)| {
        let count = |holds: fn(f64) -> bool| gains.iter().filter(|(_, gain)| holds(*gain)).count();
        let (faster, slower) = (count(|gain| gain > 0.0), count(|gain| gain < 0.0));
        let questions = gains.len();
        let even = questions - faster - slower;
        format!(
            "Of {questions} questions {method} is faster than {over} in {faster}, as fast in {even}, \
             slower in {slower}.\n"
        )
    });
    let sentences: String = sentences.collect();
    format!("\nGains in throughput, the least to the greatest:\n\n{}\n{sentences}", columns(&lines))
}

/// What a line of the table is about.
fn place(row: &Row) -> (&str, &str, &str) {
    (&row.group, &row.network, &row.machine)
}

/// Rows of a method, each with its gain over the other method's answer to the same question.
fn compared<'a>((method, over): (&str, &str), rows: &'a [Row]) -> Vec<(&'a Row, f64)> {
    let of_method = rows.iter().filter(|row| row.answer.method == method);
    let gain = |row: &'a Row| {
        let same = |other: &&Row| {
            other.answer.method == over
                && place(other) == place(row)
                && (&other.options, other.batch) == (&row.options, row.batch)
                && (&other.link, other.budget) == (&row.link, row.budget)
                && (other.host_budget, &other.allowed) == (row.host_budget, &row.allowed)
        };
        let other = rows.iter().find(same)?;
        Some((row, other.answer.iteration?.ratio(row.answer.iteration?) - 1.0))
    };
    of_method.filter_map(gain).collect()
}

fn cell(row: &Row, gains: &[(&Row, f64)]) -> String {
    let of_place = gains.iter().filter(|(other, _)| place(other) == place(row));
    let percent: Vec<f64> = of_place.map(|(_, gain)| 100.0 * gain).collect();
    let least = percent.iter().copied().reduce(f64::min);
    let greatest = percent.iter().copied().reduce(f64::max);
    match least.zip(greatest).map(|(least, greatest)| [least, greatest].map(|g| format!("{g:.1}")))
    {
        None => String::new(),
        Some([least, greatest]) if least == greatest => format!("{least} %"),
        Some([least, greatest]) => format!("{least} to {greatest} %"),
    }
}

#[cfg(test)]
mod tests {
    use reports::MethodResult;
    use schema::Nanos;

    use super::*;

    fn row(network: &str, options: &str, method: &str, iteration: Option<u64>) -> Row {
        let [network, options, method] = [network, options, method].map(String::from);
        let group = "sparse".into();
        let iteration = iteration.map(Nanos);
        let answer = MethodResult { method, iteration, ..MethodResult::default() };
        Row { group, network, options, answer, ..Row::default() }
    }

    #[test]
    fn methods_are_compared_question_by_question() {
        let known: Vec<_> = planner::methods::all();
        let known: Vec<&str> = known.iter().map(|method| method.name()).collect();
        let paper = scenarios::study("cswap", &known).expect("bundled").paper.expect("it has one");
        let rows = [
            row("small", "epoch 0", "vdnn-conv", Some(150)),
            row("small", "epoch 0", "cswap+", Some(100)),
            row("small", "epoch 1", "cswap+", Some(125)),
            row("small", "epoch 1", "vdnn-conv", Some(150)),
            row("large", "epoch 0", "vdnn-conv", Some(150)),
            row("large", "epoch 0", "cswap+", Some(200)),
            row("large", "epoch 1", "vdnn-conv", None),
            row("large", "epoch 1", "cswap+", Some(200)),
        ];
        let text = gains(&paper, &rows);
        let line =
            |network: &str| text.lines().find(|line| line.contains(network)).expect("a line");
        assert!(line("small").contains("20.0 to 50.0 %"), "{text}");
        assert!(line("large").contains("-25.0 %"), "{text}");
        let sentence =
            "Of 3 questions cswap+ is faster than vdnn-conv in 2, as fast in 0, slower in 1.";
        assert!(text.contains(sentence), "{text}");
        assert_eq!(gains(&paper, &rows[..1]), "");
    }
}
