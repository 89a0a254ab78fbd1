//! Numbers that papers print, each beside the one that is predicted for it.

use reports::{PrintedNumber, columns};
use scenarios::Value;
use serde::{Deserialize, Serialize};

/// Numbers that differ by more than this share are marked.
pub(super) const TOLERANCE: f64 = 0.15;

/// What a prediction rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumptions {
    /// The one set that holds for all of a study.
    Base,
    /// That with something else supposed.
    WhatIf,
}

/// A number that a paper prints, and its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Printed {
    /// The paper's name.
    pub paper: String,
    /// Where the paper prints it, and of what.
    pub figure: String,
    /// The number, or the bounds that the paper states for it.
    pub printed: Value,
    /// Absent: nothing here predicts it, or the method has no plan.
    pub predicted: Option<f64>,
    /// By how much the prediction is off, as a share of what is printed; 0 within bounds.
    pub error: Option<f64>,
    /// What the prediction rests on.
    pub assumptions: Assumptions,
    /// What was supposed otherwise and brought the prediction nearer, and to what; or what else it rests on.
    pub reason: Option<String>,
    /// Whether the assumptions are chosen by it, so that it is no prediction: said where it is so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub input: bool,
    /// Both for people.
    #[serde(skip)]
    pub texts: [String; 2],
}

impl Printed {
    /// A number with its prediction, for people as `show` writes both.
    fn new(
        (paper, figure): (&str, String),
        (printed, predicted): (Value, Option<f64>),
        assumptions: Assumptions,
        reason: Option<String>,
        show: impl Fn(f64) -> String,
    ) -> Self {
        let text = match printed {
            Value::Number(number) => show(number),
            Value::Bounds([low, high]) => format!("{} to {}", show(low), show(high)),
        };
        let texts = [text, predicted.map_or("none".into(), show)];
        let error = predicted.map(|predicted| error(printed, predicted));
        let paper = paper.into();
        Self { paper, figure, printed, predicted, error, assumptions, reason, input: false, texts }
    }

    /// A number with its prediction, and what it comes to with each of what else was supposed. The reason of the first
    /// is what brings it nearer, then what is `stated`; where it is far and neither is there, what was tried.
    pub fn with_others(
        (paper, figure): (&str, String),
        (printed, predicted): (Value, Option<f64>),
        others: Vec<(String, f64)>,
        stated: impl IntoIterator<Item = String>,
        show: impl Fn(f64) -> String + Copy,
    ) -> (Self, Vec<Self>) {
        let off = |value| error(printed, value);
        let (mut reasons, mut tried, mut what_ifs) = (Vec::new(), Vec::new(), Vec::new());
        for (what, value) in others {
            let place = (paper, format!("{figure} ({what})"));
            let values = (printed, Some(value));
            what_ifs.push(Self::new(place, values, Assumptions::WhatIf, None, show));
            if predicted.is_none_or(|base| off(value) < off(base)) {
                reasons.push(format!("{what}: {}", show(value)));
            } else if predicted != Some(value) {
                tried.push(what);
            }
        }
        reasons.extend(stated);
        let far = predicted.is_some_and(|value| off(value) > TOLERANCE);
        if far && reasons.is_empty() && !tried.is_empty() {
            reasons.push(format!("no nearer with {}", tried.join(", ")));
        }
        let reason = Some(reasons.join("; ")).filter(|reason| !reason.is_empty());
        let values = (printed, predicted);
        (Self::new((paper, figure), values, Assumptions::Base, reason, show), what_ifs)
    }

    /// The number for charts, where it is one of the base: its figure is what stands before the colon.
    pub fn number(&self) -> Option<PrintedNumber> {
        let (at, what) = self.figure.split_once(": ").unwrap_or(("numbers", &self.figure));
        let printed = match self.printed {
            Value::Number(number) => [number; 2],
            Value::Bounds(bounds) => bounds,
        };
        let place = (self.paper.clone(), at.to_string());
        (self.assumptions == Assumptions::Base).then(|| PrintedNumber {
            place,
            what: what.into(),
            printed,
            predicted: self.predicted,
        })
    }

    /// Whether the prediction is there and near.
    pub fn holds(&self) -> bool {
        self.error.is_some_and(|error| error <= TOLERANCE)
    }
}

/// The share by which a prediction is off. Of a printed zero there is no share: the difference itself.
pub fn error(printed: Value, predicted: f64) -> f64 {
    let nearest = match printed {
        Value::Number(number) => number,
        Value::Bounds([low, high]) => predicted.clamp(low, high),
    };
    let unit = if nearest == 0.0 { 1.0 } else { nearest.abs() };
    (predicted - nearest).abs() / unit
}

/// How many numbers come out, how many of these the assumptions are chosen by, and how many nothing predicts, or
/// differ and nothing that was tried says why.
fn count(printed: &[&Printed]) -> String {
    let count = |holds: &dyn Fn(&Printed) -> bool| printed.iter().filter(|p| holds(p)).count();
    let percent = TOLERANCE * 100.0;
    let near = count(&Printed::holds);
    let mut text = format!("{near} of {} numbers within {percent:.0} %", printed.len());
    match count(&|printed| printed.input && printed.holds()) {
        0 => {}
        inputs => text += &format!(", {inputs} of them what assumptions are chosen by"),
    }
    match count(&|printed| printed.predicted.is_none()) {
        0 => {}
        missing => text += &format!("; nothing predicts {missing}"),
    }
    let unexplained = |p: &Printed| p.predicted.is_some() && !p.holds() && p.reason.is_none();
    match count(&|printed| printed.assumptions == Assumptions::Base && unexplained(printed)) {
        0 => {}
        1 => text += "; why 1 differs is not known",
        differ => text += &format!("; why {differ} differ is not known"),
    }
    text
}

/// How many of a paper's numbers come out under its study's assumptions.
pub fn counted(printed: &[Printed]) -> Option<String> {
    let base = printed.iter().filter(|printed| printed.assumptions == Assumptions::Base);
    let base: Vec<&Printed> = base.collect();
    Some(format!("{}: {}", base.first()?.paper, count(&base)))
}

/// A line for each number, under those of the base what other assumptions come to, and a count.
pub fn table(printed: &[Printed]) -> String {
    let section = |assumptions| {
        let of_section: Vec<&Printed> =
            printed.iter().filter(|printed| printed.assumptions == assumptions).collect();
        let mut lines = vec![["figure", "paper", "predicted", ""].map(String::from).to_vec()];
        let mut reasons: Vec<&String> = Vec::new();
        for printed in &of_section {
            let [paper, predicted] = printed.texts.clone();
            let differs = printed.predicted.is_some() && !printed.holds();
            let mut mark = vec![if differs { "differs" } else { "" }.to_string()];
            if let Some(reason) = &printed.reason {
                // One that several have is told once.
                let place = reasons.iter().position(|other| *other == reason);
                let place = place.unwrap_or(reasons.len());
                if place == reasons.len() {
                    reasons.push(reason);
                }
                mark.push(format!("[{}]", place + 1));
            }
            let mark = mark.join(" ").trim().to_string();
            lines.push(vec![printed.figure.clone(), paper, predicted, mark]);
        }
        let reasons = (1..).zip(reasons);
        let reasons = reasons.map(|(number, reason)| format!("  [{number}] {reason}\n"));
        (columns(&lines), count(&of_section), reasons.collect::<String>())
    };
    let (lines, count, reasons) = section(Assumptions::Base);
    let mut text = format!("{lines}\n{count}\n{reasons}");
    let (lines, count, _) = section(Assumptions::WhatIf);
    if printed.iter().any(|printed| printed.assumptions == Assumptions::WhatIf) {
        text += &format!("\nWhat if:\n\n{lines}\n{count}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_share_of_what_is_printed_and_none_within_bounds() {
        assert_eq!(error(Value::Number(20.0), 25.0), 0.25);
        assert_eq!(error(Value::Number(0.0), 0.5), 0.5);
        let bounds = Value::Bounds([2.0, 4.0]);
        assert_eq!([1.0, 3.0, 5.0].map(|x| error(bounds, x)), [0.5, 0.0, 0.25]);
    }

    #[test]
    fn a_number_is_an_object_of_the_contract() {
        let printed = |value, predicted| {
            let place = ("pooch", "table 3: kept".into());
            let show = |x: f64| format!("{x} maps");
            Printed::new(place, (value, predicted), Assumptions::Base, None, show)
        };
        let near = printed(Value::Number(66.0), Some(66.0));
        assert_eq!(
            serde_json::to_string(&near).expect("it can be written"),
            r#"{"paper":"pooch","figure":"table 3: kept","printed":66.0,"predicted":66.0,"error":0.0,"assumptions":"base","reason":null}"#
        );
        let missing = printed(Value::Bounds([0.0, 2.5]), None);
        let text = serde_json::to_string(&missing).expect("it can be written");
        assert!(text.contains(r#""printed":[0.0,2.5],"predicted":null,"error":null"#), "{text}");
        let text = table(&[Printed { input: true, ..near.clone() }, near.clone()]);
        let counted = "2 of 2 numbers within 15 %, 1 of them what assumptions are chosen by\n";
        assert!(text.contains(counted), "{text}");
        let reason = Some("why".to_string());
        let [first, second] =
            [near.clone(), near.clone()].map(|of| Printed { reason: reason.clone(), ..of });
        assert!(table(&[first, second]).ends_with("\n  [1] why\n"), "told once");
        let text = table(&[near, missing]);
        assert!(text.contains("1 of 2 numbers within 15 %; nothing predicts 1\n"), "{text}");
        assert!(text.contains("0 maps to 2.5 maps"), "{text}");
        let text = table(&[printed(Value::Number(66.0), Some(29.0))]);
        assert!(
            text.contains("0 of 1 numbers within 15 %; why 1 differs is not known\n"),
            "{text}"
        );
    }
}
