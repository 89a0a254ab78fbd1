//! Loss and accuracy of a network that was trained in several ways.

use super::figure::Figure;
use super::lines::{Lines, Point, Series};
use super::table::Table;
use crate::Trained;
use crate::text::percent;

/// Loss and accuracy, a line for each way: the mean of its seeds.
pub(super) fn figures(trainings: &[Trained]) -> Vec<Figure> {
    if trainings.is_empty() {
        return Vec::new();
    }
    let loss = figure(
        trainings,
        ["training-loss", "Loss by epoch", "mean loss of an epoch (square-root scale)"],
        "The mean loss of each epoch's iterations; lower is better, and a mean of all seeds. Every way had the same weights \
         to begin with and the same images, so that lines differ only by what codecs lost. Lines of \
         lossless codecs lie on each other.",
        |way| way.epoch_losses.clone(),
        |loss| format!("{loss:.4}"),
    );
    let accuracy = figure(
        trainings,
        ["training-accuracy", "Accuracy by epoch", "told right (%, square-root scale)"],
        "The share of images whose class the network tells, of images that it was not trained with, \
         after each epoch; higher is better. Guessing is right for one in ten.",
        |way| way.accuracies.iter().map(|share| 100.0 * share).collect(),
        |share| percent(share / 100.0),
    );
    vec![loss, accuracy]
}

fn figure(
    trainings: &[Trained],
    [id, title, y_axis]: [&str; 3],
    caption: &str,
    values: impl Fn(&Trained) -> Vec<f64>,
    text: impl Fn(f64) -> String,
) -> Figure {
    let mut ways: Vec<&str> = Vec::new();
    for way in trainings {
        if !ways.contains(&way.way.as_str()) {
            ways.push(&way.way);
        }
    }
    let series = ways.into_iter().enumerate().map(|(style, name)| {
        let seeds = trainings.iter().filter(|way| way.way == name).map(&values);
        let seeds: Vec<Vec<f64>> = seeds.collect();
        let epochs = 0..seeds.iter().map(Vec::len).min().unwrap_or(0);
        let mean = |epoch| seeds.iter().map(|of| of[epoch]).sum::<f64>() / seeds.len() as f64;
        let points = epochs.map(|epoch| Point {
            x: (epoch + 1) as f64,
            // A loss that left the finite numbers has no place on paper.
            y: Some(mean(epoch)).filter(|y| y.is_finite()),
            title: format!("{name}, epoch {}: {}", epoch + 1, text(mean(epoch))),
        });
        Series { name: name.into(), style, points: points.collect() }
    });
    let lines = Lines {
        name: title.into(),
        x_axis: "epoch".into(),
        y_axis: y_axis.into(),
        may_be_log: false,
        names: Vec::new(),
        series: series.collect(),
    };
    Figure::new(id, title, caption.into(), vec![lines.picture()])
}

pub(super) fn table(trainings: &[Trained]) -> Table {
    let row = |way: &Trained| {
        vec![
            ("way", way.way.clone()),
            ("seed", way.seed.to_string()),
            ("method", way.method.clone()),
            ("loss, last epoch", format!("{:.4}", way.final_loss())),
            ("accuracy", percent(way.final_accuracy())),
            ("memory", way.arena_bytes.to_string()),
            ("ratio", way.ratio().map_or("-".into(), |ratio| format!("{ratio:.2}x"))),
            ("copied", way.copied_bytes.to_string()),
            ("fallbacks", way.fallbacks.to_string()),
        ]
    };
    Table::of("Ways to train", 3, trainings.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::Bytes;

    fn trained(way: &str, losses: [f64; 2]) -> Trained {
        Trained {
            way: way.into(),
            seed: 1,
            method: "sc".into(),
            codecs: vec!["zvc".into()],
            losses: losses.map(|loss| loss as f32).into(),
            epoch_losses: losses.into(),
            accuracies: vec![0.25, 0.5],
            arena_bytes: Bytes(1000),
            copied_bytes: Bytes(300),
            ..Trained::default()
        }
    }

    #[test]
    fn every_way_has_a_line_and_what_is_not_finite_leaves_a_gap() {
        let figures = figures(&[trained("zvc", [2.0, 1.0]), trained("zfp", [2.0, f64::NAN])]);
        let ids: Vec<_> = figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(ids, ["training-loss", "training-accuracy"]);
        let svg = figures[0].pictures[0].svg();
        roxmltree::Document::parse(&svg).expect("XML");
        for (title, there) in [
            ("zvc, epoch 1: 2.0000", true),
            ("zvc, epoch 2: 1.0000", true),
            ("zfp, epoch 1: 2.0000", true),
            ("zfp, epoch 2", false),
        ] {
            assert_eq!(svg.contains(title), there, "{title}\n{svg}");
        }
        assert!(figures[1].pictures[0].svg().contains("zfp, epoch 2: 50"));
        assert!(super::figures(&[]).is_empty());
    }
}
