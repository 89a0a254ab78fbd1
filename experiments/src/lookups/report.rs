//! The prediction as it is printed.

use planner::inference::{Choice, Limit, Lookups, Placement, Prediction, Staging};
use reports::columns;
use schema::{Bytes, Document, Nanos, Reference};
use serde::Serialize;

use super::packings::Learned;
use super::sample::Sample;

/// A table, how it is packed, and what lookups cost.
#[derive(Serialize)]
pub struct Report {
    table: String,
    rows: u64,
    row_bytes: Bytes,
    /// Rows that packing was learned from; it was measured on another draw of as many.
    sampled_rows: u64,
    rows_of_file: u64,
    machine: Reference,
    access: String,
    rows_per_lookup: u64,
    cache_bytes: Bytes,
    packing: Packing,
    best: &'static str,
    ways: Vec<Row>,
}

#[derive(Serialize)]
struct Packing {
    chunk_bytes: u64,
    clusters: u64,
    threshold_percent: Vec<u8>,
    metadata_bytes: Bytes,
    placement: &'static str,
    /// Uncompressed over packed bytes of a row.
    ratio: f64,
}

#[derive(Serialize)]
struct Row {
    staging: &'static str,
    cached_rows: u64,
    hit_rate: f64,
    link_bytes: Bytes,
    lookup_ns: Nanos,
    /// How much faster than the fastest way that packs nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    speedup: Option<f64>,
    limit: &'static str,
}

impl Report {
    /// What to print.
    pub fn new(
        table: String,
        access: String,
        sample: &Sample,
        lookups: &Lookups<'_>,
        packing: &Learned,
        choice: &Choice,
    ) -> Self {
        let plain = choice.predictions.iter().filter(|prediction| !packs(prediction.staging));
        let plain = plain.map(|prediction| prediction.time).min();
        let row = |prediction: &Prediction| Row {
            staging: name(prediction.staging),
            cached_rows: prediction.cached_rows,
            hit_rate: prediction.hit_rate,
            link_bytes: prediction.link_bytes,
            lookup_ns: prediction.time,
            speedup: plain.map(|plain| plain.ratio(prediction.time)),
            limit: match prediction.limit {
                Limit::Link => "link",
                Limit::Device => "device",
            },
        };
        let machine = lookups.machine;
        Self {
            table,
            rows: lookups.rows,
            row_bytes: Bytes(lookups.row_bytes),
            sampled_rows: sample.rows(),
            rows_of_file: sample.rows_of_file,
            machine: Reference { name: machine.name.clone(), digest: machine.digest() },
            access,
            rows_per_lookup: lookups.rows_per_lookup,
            cache_bytes: lookups.cache,
            packing: Packing {
                chunk_bytes: packing.input.chunk_bytes,
                clusters: packing.input.clusters,
                threshold_percent: packing.thresholds.clone(),
                metadata_bytes: packing.input.metadata,
                placement: match choice.placement {
                    Placement::InPlace => "in place",
                    Placement::Condensed => "condensed",
                },
                ratio: choice.ratio,
            },
            best: name(choice.predictions[choice.best].staging),
            ways: choice.predictions.iter().map(row).collect(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Self { table, rows, row_bytes, access, rows_per_lookup, machine, .. } = self;
        let sampled = match self.sampled_rows < self.rows_of_file {
            true => format!(
                "{} rows of {table}, measured on another draw of as many",
                self.sampled_rows
            ),
            false => format!("all {} rows of {table}, and measured on them", self.rows_of_file),
        };
        let Packing { chunk_bytes, clusters, metadata_bytes, placement, ratio, .. } = &self.packing;
        let mut thresholds = self.packing.threshold_percent.clone();
        thresholds.sort_unstable();
        thresholds.dedup();
        let thresholds: Vec<String> = thresholds.iter().map(|t| format!("{t} %")).collect();
        let size = Bytes(rows.saturating_mul(row_bytes.0));
        let clusters = match clusters {
            1 => "1 cluster".to_string(),
            more => format!("{more} clusters"),
        };
        let mut text = format!(
            "table    {rows} rows of {row_bytes}, {size}\n\
             lookups  {rows_per_lookup} rows each, {access}; {} of cache\n\
             machine  {} ({})\n\
             packing  learned from {sampled}\n\
             \x20        {ratio:.2}x: chunks of {chunk_bytes} B, {clusters} (threshold {}), \
             {placement}; {metadata_bytes} beside it\n\
             times    predicted; nothing was run\n\n",
            self.cache_bytes,
            machine.name,
            machine.digest.short(),
            thresholds.join(", "),
        );
        let head =
            ["staging", "cached rows", "hits", "over the link", "a lookup", "speed-up", "limit"];
        let mut lines = vec![head.map(str::to_string).to_vec()];
        lines.extend(self.ways.iter().map(|row| {
            vec![
                row.staging.to_string(),
                row.cached_rows.to_string(),
                format!("{:.1} %", row.hit_rate * 100.0),
                row.link_bytes.to_string(),
                row.lookup_ns.to_string(),
                row.speedup.map_or(String::new(), |speedup| format!("{speedup:.2}x")),
                row.limit.to_string(),
            ]
        }));
        text += &columns(&lines);
        let best = self.ways.iter().find(|row| row.staging == self.best);
        let speedup = best.and_then(|row| row.speedup).map(|speedup| {
            format!(": {speedup:.2}x as fast as the fastest staging that packs nothing")
        });
        text + &format!("\nfastest: {}{}\n", self.best, speedup.unwrap_or_default())
    }
}

fn packs(staging: Staging) -> bool {
    matches!(staging, Staging::ZeroCopy { link: true, .. } | Staging::ZeroCopy { cache: true, .. })
}

fn name(staging: Staging) -> &'static str {
    match staging {
        Staging::OneByOne => "a copy per row",
        Staging::Bulk => "one bulk copy",
        Staging::Unaligned => "zero-copy, unaligned",
        Staging::ZeroCopy { link: false, cache: false } => "zero-copy",
        Staging::ZeroCopy { link: true, cache: false } => "zero-copy, packed on the host",
        Staging::ZeroCopy { link: false, cache: true } => "zero-copy, packed in the cache",
        Staging::ZeroCopy { link: true, cache: true } => "zero-copy, packed in both",
    }
}
