//! Values as texts and tables of text, the same wherever they are shown.

use schema::{Bytes, Origin, Provenance};

pub(crate) fn op_times(provenance: Option<&Provenance>) -> String {
    let Some(Provenance { origin, device, source, .. }) = provenance else {
        return "where the op times come from is not known".into();
    };
    match origin {
        // A command that builds an example of ours says nothing to who reads a table.
        Origin::Measured | Origin::Scaled if source.starts_with("cargo ") => match origin {
            Origin::Measured => format!("op times measured on {device}"),
            _ => format!("op times scaled to {device} by a model"),
        },
        Origin::Measured => format!("op times measured on {device} ({source})"),
        Origin::Imported => format!("op times on {device}, imported from {source}"),
        Origin::Modelled => format!("op times modelled for {device} ({source}), not measured"),
        Origin::Scaled => format!("op times scaled to {device} by a model ({source})"),
    }
}

/// The value, or a dash where there is none.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_string(), |value| value.to_string())
}

/// So many tensors and their bytes, where these are known.
pub fn tensors(count: Option<u64>, bytes: Option<Bytes>) -> String {
    match (count, bytes) {
        (Some(0), _) => "none".into(),
        (Some(count), Some(bytes)) => format!("{bytes} ({count})"),
        _ => or_dash(count),
    }
}

/// `part` of `whole` in percent with one decimal, rounded half up.
pub(crate) fn percent_of(part: Bytes, whole: Bytes) -> String {
    let (part, whole) = (u128::from(part.0), u128::from(whole.0));
    if whole == 0 {
        return "- %".into();
    }
    let permille = (part * 2000 + whole) / (whole * 2);
    format!("{}.{} %", permille / 10, permille % 10)
}

/// A share in percent, to a tenth.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number without idle zeros.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
