//! What a paper prints of lookups in tables, beside what is predicted here.

mod serving;
mod training;

use codecs::ibp::{ChunkSize, Metadata, RowCoder, cluster_index_bytes};
use planner::inference::{
    Access, Cache, Choice, GATHER, Lookups, MAP_ENTRY_BYTES, Packing, Prediction, SECTOR_BYTES,
    Staging, choose, mean_sectors, mean_unaligned_sectors, row_mask_bytes,
};
use reports::columns;
use scenarios::{LookupFigure, LookupQuantity, LookupStudy, PackedTable};
use schema::{Bytes, BytesPerSec, Machine};

use crate::Result;
use crate::sources::read_machine;
use training::Way;

const LINK: Staging = Staging::ZeroCopy { link: true, cache: false };
const PLAIN: Staging = Staging::ZeroCopy { link: false, cache: false };

/// A number of the paper, and what is predicted for it.
pub struct Line<'a> {
    pub figure: &'a LookupFigure,
    /// Absent where the paper does not print what it takes.
    pub predicted: Option<f64>,
    /// What else may be supposed, and what is predicted then.
    pub others: Vec<(String, f64)>,
}

/// What the predictions rest on that the paper does not say.
#[derive(Debug, Clone, Copy)]
struct Supposed {
    what: &'static str,
    /// Whether plain rows are read from wherever they begin.
    unaligned: bool,
    /// How fast the host gathers rows; where it is not stated, as was published of another host.
    gather: Option<BytesPerSec>,
    /// Whether what is loaded for a pass, or a batch, is loaded while the one before computes.
    beside: bool,
    /// Whether chunks are filled up to whole words.
    words: bool,
    /// The share of its arithmetic that the device has for training.
    arithmetic: f64,
    /// Whether the link moves whole sectors.
    sectors: bool,
}

const BASE: Supposed = Supposed {
    what: "",
    unaligned: true,
    gather: None,
    beside: false,
    words: true,
    arithmetic: 1.0,
    sectors: true,
};

/// What else may be supposed where a figure is of such a quantity.
fn otherwise(of: LookupQuantity) -> Vec<Supposed> {
    use LookupQuantity::*;
    let aligned = Supposed { what: "plain rows read in aligned lines", unaligned: false, ..BASE };
    let gather = |what, rate| Supposed { what, gather: Some(BytesPerSec(rate)), ..BASE };
    let free = gather("a host that gathers at no cost", u64::MAX);
    let threefold = gather("a host that gathers three times as fast", 3 * GATHER.0);
    let half = Supposed { what: "half of the device's arithmetic", arithmetic: 0.5, ..BASE };
    match of {
        Transfer => vec![aligned],
        Trained | TrainedLink => vec![aligned, half],
        TrainedInTurn => {
            vec![half, Supposed { what: "rows fetched beside computing", beside: true, ..BASE }]
        }
        Lookup | Gathered | Decoding => vec![free, threefold],
        Packed => vec![Supposed { what: "bytes moved as they are", sectors: false, ..BASE }],
        Inference => {
            vec![Supposed { what: "weights loaded beside computing", beside: true, ..BASE }]
        }
        Participation => vec![Supposed {
            what: "no whole words, in which 50 bits take 64",
            words: false,
            ..BASE
        }],
        _ => Vec::new(),
    }
}

/// Every figure of a study of lookups.
///
/// # Errors
/// If there is no such machine, or a table's lookups cannot be predicted.
pub fn lines(study: &LookupStudy) -> Result<Vec<Line<'_>>> {
    let machine = read_machine(&study.machine)?;
    let mut lines = Vec::with_capacity(study.figures.len());
    for figure in &study.figures {
        let mut others = Vec::new();
        for supposed in figure.of.map(otherwise).unwrap_or_default() {
            let value = predicted(study, &machine, figure, supposed)?;
            others.extend(value.map(|value| (supposed.what.to_string(), value)));
        }
        let predicted = predicted(study, &machine, figure, BASE)?;
        lines.push(Line { figure, predicted, others });
    }
    Ok(lines)
}

fn predicted(
    study: &LookupStudy,
    machine: &Machine,
    figure: &LookupFigure,
    supposed: Supposed,
) -> Result<Option<f64>> {
    let Some(of) = figure.of else { return Ok(None) };
    if let Some(value) = of_format(of, figure, supposed) {
        return Ok(Some(value));
    }
    let named = |table: &&PackedTable| figure.tables.contains(&table.name);
    let tables: Vec<&PackedTable> = study.tables.iter().filter(named).collect();
    if let Some(of) = Way::of(of) {
        return training::speedup(study, machine, &tables, of, supposed);
    }
    let mut values: Vec<f64> = Vec::new();
    for table in tables {
        values.extend(of_table(study, machine, (of, table, supposed))?);
    }
    if let Some(row_bytes) = figure.row_bytes {
        // At 90 % saved.
        let table =
            PackedTable { name: String::new(), row_bytes, ratio: 10.0, cached: None, graph: None };
        values.extend(of_table(study, machine, (of, &table, supposed))?);
    }
    let count = values.len() as f64;
    let mean = (count > 0.0).then(|| values.iter().sum::<f64>() / count);
    let Some(less) = mean.filter(|_| !figure.served.is_empty()) else { return Ok(mean) };
    let shares =
        figure.served.iter().map(|served| serving::share(of, served, machine, less, supposed));
    Ok(shares.reduce(f64::max))
}

/// What the packed format alone comes to, whatever is in the rows.
fn of_format(of: LookupQuantity, figure: &LookupFigure, supposed: Supposed) -> Option<f64> {
    let row_bytes = usize::try_from(figure.row_bytes?).ok()?;
    match of {
        LookupQuantity::Participation => {
            if !supposed.words {
                return Some(100.0 / 8.0 / figure.chunk_bytes? as f64);
            }
            // Of a row that is all invariant nothing else is left.
            let metadata = Metadata::new(vec![u8::MAX; row_bytes], vec![0; row_bytes]).ok()?;
            let chunk = ChunkSize::from_bytes(figure.chunk_bytes?).ok()?;
            let coder = RowCoder::new(metadata, chunk).ok()?;
            let bits = coder.compressed_bytes(&vec![0; row_bytes])?;
            Some(100.0 * bits as f64 / row_bytes as f64)
        }
        LookupQuantity::NetSaved => {
            let (rows, clusters) = (figure.rows?, figure.clusters?);
            let metadata = (2 * row_bytes * clusters) as u64 + cluster_index_bytes(clusters, rows);
            let table = rows as f64 * row_bytes as f64;
            Some(figure.saved? - 100.0 * metadata as f64 / table)
        }
        LookupQuantity::RowMask => Some(row_mask_bytes(figure.rows?).0 as f64 / 1e6),
        _ => None,
    }
}

/// Looking up all rows of a table once.
fn looked_up<'a>(study: &LookupStudy, machine: &'a Machine, table: &PackedTable) -> Lookups<'a> {
    Lookups {
        rows: study.rows,
        row_bytes: table.row_bytes,
        rows_per_lookup: study.rows,
        access: Access::Uniform,
        cache: Bytes::ZERO,
        gather: None,
        machine,
    }
}

/// The bytes of a cache that holds so many rows as they are.
fn cache_of(table: &PackedTable, rows: u64) -> Bytes {
    Bytes(rows.saturating_mul(table.row_bytes + MAP_ENTRY_BYTES))
}

/// Packing by which rows come to so many bytes each.
fn packed_to(sizes: Vec<u64>) -> Packing {
    Packing { chunk_bytes: 4, clusters: 1, metadata: Bytes::ZERO, sizes }
}

fn of_table(
    study: &LookupStudy,
    machine: &Machine,
    (of, table, supposed): (LookupQuantity, &PackedTable, Supposed),
) -> Result<Option<f64>> {
    use LookupQuantity::*;
    let packed_bytes = table.row_bytes as f64 / table.ratio;
    let spread = match of {
        Mock => vec![packed_bytes as u64],
        _ => sizes(packed_bytes, table.row_bytes),
    };
    let at_once = matches!(of, Copied | Inference).then_some(BytesPerSec(u64::MAX));
    let lookups =
        Lookups { gather: at_once.or(supposed.gather), ..looked_up(study, machine, table) };
    let choice = choose(&lookups, &[packed_to(spread)])?;
    let over = |staging| {
        let [plain, packed] = [staging, LINK].map(|staging| staged(&choice, staging));
        Some(plain?.time.ratio(packed?.time))
    };
    let less = |over: f64| 100.0 * (1.0 - 1.0 / over);
    Ok(match of {
        Transfer if supposed.unaligned => over(Staging::Unaligned),
        Transfer => over(PLAIN),
        Packed if supposed.sectors => over(PLAIN).map(less),
        Lookup => over(Staging::Bulk),
        Gathered | Copied | Inference | Decoding | Prefill => over(Staging::Bulk).map(less),
        // Anywhere in memory, as elements of four bytes lie.
        Aligned => {
            let sectors = [mean_unaligned_sectors, mean_sectors].map(|of| of(4, table.row_bytes));
            Some(sectors[0] / sectors[1])
        }
        Mock => staged(&choice, LINK).map(|packed| {
            let moved = study.rows as f64 * mean_sectors(table.row_bytes, packed_bytes as u64);
            let bandwidth = machine.link.h2d.at(Bytes(u64::MAX));
            moved * SECTOR_BYTES as f64 * 1e9 / bandwidth / packed.time.0 as f64
        }),
        Packed | Saved => Some(less(table.ratio)),
        // Legion cuts its cache's memory into a hundred parts, counts whole rows in each, and adds one
        // (`UnifiedCache::CostModel` of its authors' code).
        Hundredth => table.graph.map(|graph| (100 * (graph.nodes / 100 / 100) + 1) as f64),
        Cached => table.cached.map(|cached| {
            let cache = Cache { bytes: cache_of(table, cached), fixed: Bytes::ZERO };
            cache.rows(u64::MAX, packed_bytes) as f64
        }),
        Participation | NetSaved | RowMask | Trained | TrainedLink | TrainedInTurn => None,
    })
}

fn staged(choice: &Choice, staging: Staging) -> Option<&Prediction> {
    choice.predictions.iter().find(|prediction| prediction.staging == staging)
}

/// Sizes of packed rows of which a paper prints the mean alone: spread evenly over a sector, so that
/// no figure hangs on where the mean lies within one.
fn sizes(mean: f64, row_bytes: u64) -> Vec<u64> {
    let half = SECTOR_BYTES as f64 / 2.0;
    let size = |step: u64| (mean - half + step as f64 + 0.5).max(1.0).round() as u64;
    (0..SECTOR_BYTES).map(|step| size(step).min(row_bytes)).collect()
}

/// What the paper prints of other codecs, in a table.
pub fn others(study: &LookupStudy) -> String {
    if study.others.is_empty() {
        return String::new();
    }
    let numbers = |numbers: &[f64]| -> Vec<String> { numbers.iter().map(f64::to_string).collect() };
    let lines = study.others.iter().map(|other| {
        let cells = [numbers(&other.transfer), numbers(&other.saved)].concat();
        [vec![other.name.clone()], cells].concat()
    });
    let names = ["sparse", "dense", "DLRM", "KV FP16", "KV BF16", "weights"];
    let head = [vec!["codec"], names.to_vec(), names.to_vec()].concat();
    let head = head.into_iter().map(String::from).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(lines).collect();
    format!(
        "\nOther codecs, as printed there: throughput over that without packing, and space saved in \
         percent:\n\n{}",
        columns(&lines)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Over;

    /// Figures by the beginnings of their names, with how far each may be off.
    #[test]
    fn tables_1_and_7_and_training_come_out() {
        let study = crate::study::read("ibp", &Over::default()).expect("bundled");
        let study = study.lookups.expect("it is of lookups");
        let lines = lines(&study).expect("bundled");
        let mut held = 0;
        for Line { figure, predicted, .. } in &lines {
            let most = match &figure.what {
                what if what.starts_with("table 1:") => 0.10,
                what if what.ends_with("packed rows cached") => 0.01,
                what if what.starts_with("figure 8:") => 0.15,
                what if what.starts_with("figure 7:") => 0.001,
                _ => continue,
            };
            let predicted = predicted.expect("it is predicted");
            let off = super::super::printed::error(figure.printed, predicted);
            assert!(off <= most, "{}: {predicted}, {off:.3}", figure.what);
            held += 1;
        }
        assert_eq!(held, 18);
    }
}
