//! What a paper prints of lookups in tables, beside what is predicted here.

use codecs::ibp::{ChunkSize, Metadata, RowCoder, cluster_index_bytes};
use planner::inference::{
    Cache, Choice, Lookups, MAP_ENTRY_BYTES, Packing, Prediction, SECTOR_BYTES, Staging, choose,
    mean_sectors, mean_unaligned_sectors, row_mask_bytes,
};
use reports::columns;
use scenarios::{LookupFigure, LookupQuantity, LookupStudy, PackedTable, Served};
use schema::{Bytes, BytesPerSec, Machine};

use crate::Result;
use crate::sources::read_machine;

const LINK: Staging = Staging::ZeroCopy { link: true, cache: false };
const PLAIN: Staging = Staging::ZeroCopy { link: false, cache: false };

/// A number of the paper, and what is predicted for it.
pub struct Line<'a> {
    /// The number.
    pub figure: &'a LookupFigure,
    /// Absent where the paper does not print what it takes.
    pub predicted: Option<f64>,
    /// What else may be supposed, and what is predicted then.
    pub otherwise: Option<(&'static str, f64)>,
}

/// What a prediction rests on that the paper does not say, turned round.
fn otherwise(of: LookupQuantity) -> Option<&'static str> {
    match of {
        LookupQuantity::Transfer => Some("plain rows read in aligned lines"),
        LookupQuantity::Lookup | LookupQuantity::Gathered => Some("a host that gathers at no cost"),
        LookupQuantity::Inference => Some("weights loaded beside computing"),
        LookupQuantity::Participation => Some("no whole words, in which 50 bits take 64"),
        _ => None,
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
        let predicted = |is_otherwise| predicted(study, &machine, (figure, is_otherwise));
        let otherwise = match figure.of.and_then(otherwise) {
            Some(what) => predicted(true)?.map(|value| (what, value)),
            None => None,
        };
        lines.push(Line { figure, predicted: predicted(false)?, otherwise });
    }
    Ok(lines)
}

fn predicted(
    study: &LookupStudy,
    machine: &Machine,
    (figure, is_otherwise): (&LookupFigure, bool),
) -> Result<Option<f64>> {
    let Some(of) = figure.of else { return Ok(None) };
    if let Some(value) = of_format(of, figure, is_otherwise) {
        return Ok(Some(value));
    }
    let named = |table: &&PackedTable| figure.tables.contains(&table.name);
    let mut values: Vec<f64> = Vec::new();
    for table in study.tables.iter().filter(named) {
        values.extend(of_table(study, machine, (of, table, is_otherwise))?);
    }
    if let Some(row_bytes) = figure.row_bytes {
        // At 90 % saved.
        let table = PackedTable { name: String::new(), row_bytes, ratio: 10.0, cached: None };
        values.extend(of_table(study, machine, (of, &table, is_otherwise))?);
    }
    let count = values.len() as f64;
    let mean = (count > 0.0).then(|| values.iter().sum::<f64>() / count);
    Ok(match &figure.served {
        Some(served) => mean.map(|less| inference(served, machine, less, is_otherwise)),
        None => mean,
    })
}

/// By how much sooner a model answers, in percent, if loading its weights takes so much less: each pass first, or while
/// the pass before computes. Computing takes what the device can do at best: the prompts' products at its arithmetic,
/// and of each further token what its pass reads, weights and the keys and values so far, at its memory's bandwidth.
fn inference(served: &Served, machine: &Machine, less: f64, beside: bool) -> f64 {
    let Served { parameters, batch, prompt, generated, cache_bytes } = *served;
    let device = &machine.device.compute;
    let weights = 2.0 * parameters;
    let loading = weights / machine.link.h2d.at(Bytes(u64::MAX));
    let first = 2.0 * parameters * batch * prompt / device.f16_flops as f64;
    let cache = batch * (prompt + generated / 2.0) * cache_bytes;
    let next = (weights + cache) / device.memory_bandwidth.0 as f64;
    let whole = |loading: f64| {
        let pass =
            |computing: f64| if beside { loading.max(computing) } else { loading + computing };
        pass(first) + (generated - 1.0) * pass(next)
    };
    100.0 * (1.0 - whole(loading * (1.0 - less / 100.0)) / whole(loading))
}

/// What the packed format alone comes to, whatever is in the rows.
fn of_format(of: LookupQuantity, figure: &LookupFigure, is_otherwise: bool) -> Option<f64> {
    let row_bytes = usize::try_from(figure.row_bytes?).ok()?;
    match of {
        LookupQuantity::Participation => {
            if is_otherwise {
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

fn of_table(
    study: &LookupStudy,
    machine: &Machine,
    (of, table, is_otherwise): (LookupQuantity, &PackedTable, bool),
) -> Result<Option<f64>> {
    let packed_bytes = table.row_bytes as f64 / table.ratio;
    let lookups = |gather| {
        let (rows, row_bytes) = (study.rows, table.row_bytes);
        let access = planner::inference::Access::Uniform;
        Lookups {
            rows,
            row_bytes,
            rows_per_lookup: rows,
            access,
            cache: Bytes::ZERO,
            gather,
            machine,
        }
    };
    let spread = match of {
        LookupQuantity::Mock => vec![packed_bytes as u64],
        _ => sizes(packed_bytes, table.row_bytes),
    };
    let packing = Packing { chunk_bytes: 4, clusters: 1, metadata: Bytes::ZERO, sizes: spread };
    let copied = matches!(of, LookupQuantity::Copied | LookupQuantity::Inference);
    let at_once = is_otherwise || copied;
    let at_once = at_once.then_some(BytesPerSec(u64::MAX));
    let choice = choose(&lookups(at_once), &[packing])?;
    let over = |staging| {
        let [plain, packed] = [staging, LINK].map(|staging| staged(&choice, staging));
        Some(plain?.time.ratio(packed?.time))
    };
    let less = |over: f64| 100.0 * (1.0 - 1.0 / over);
    Ok(match of {
        LookupQuantity::Transfer if is_otherwise => over(PLAIN),
        LookupQuantity::Transfer => over(Staging::Unaligned),
        LookupQuantity::Lookup => over(Staging::Bulk),
        LookupQuantity::Gathered | LookupQuantity::Copied | LookupQuantity::Inference => {
            over(Staging::Bulk).map(less)
        }
        // Anywhere in memory, as elements of four bytes lie.
        LookupQuantity::Aligned => {
            let sectors = [mean_unaligned_sectors, mean_sectors].map(|of| of(4, table.row_bytes));
            Some(sectors[0] / sectors[1])
        }
        LookupQuantity::Mock => staged(&choice, LINK).map(|packed| {
            let moved = study.rows as f64 * mean_sectors(table.row_bytes, packed_bytes as u64);
            let bandwidth = machine.link.h2d.at(Bytes(u64::MAX));
            moved * SECTOR_BYTES as f64 * 1e9 / bandwidth / packed.time.0 as f64
        }),
        LookupQuantity::Participation | LookupQuantity::NetSaved | LookupQuantity::RowMask => None,
        LookupQuantity::Cached => table.cached.map(|cached| {
            let bytes = Bytes(cached.saturating_mul(table.row_bytes + MAP_ENTRY_BYTES));
            Cache { bytes, fixed: Bytes::ZERO }.rows(u64::MAX, packed_bytes) as f64
        }),
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
    fn tables_1_and_7_come_out() {
        let study = crate::study::read("ibp", &Over::default()).expect("bundled");
        let study = study.lookups.expect("it is of lookups");
        let lines = lines(&study).expect("bundled");
        let mut held = 0;
        for Line { figure, predicted, .. } in &lines {
            let most = match &figure.what {
                what if what.starts_with("table 1:") => 0.10,
                what if what.starts_with("table 7:") => 0.01,
                what if what.starts_with("figure 7:") => 0.001,
                _ => continue,
            };
            let predicted = predicted.expect("it is predicted");
            let off = predicted / figure.printed - 1.0;
            assert!(off.abs() <= most, "{}: {predicted}, {off:+.3}", figure.what);
            held += 1;
        }
        assert_eq!(held, 15);
    }
}
