//! How options of networks are written.

use std::str::FromStr;

use networks::suggest::instead;
use schema::{Bytes, BytesPerSec, Dtype, Lora};

use crate::percent::{Percent, percent};

/// What is found under a name, of those that there are.
pub fn named<T: 'static>(
    find: fn(&str) -> Option<T>,
    all: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |name| find(name).ok_or_else(|| instead(name, all.split(' ')))
}

/// A choice by its name in files, of those that there are.
pub fn choice<T: FromStr + 'static>(
    all: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    named(|name| name.parse().ok(), all)
}

/// An element type of a network or a codec's tensor.
pub fn float() -> impl Fn(&str) -> Result<Dtype, String> + Clone {
    named(Dtype::float_from_name, "f32 f16 bf16")
}

/// Height and width of an image.
///
/// # Errors
/// Where the text is neither a number of pixels nor two.
pub fn image(text: &str) -> Result<[u32; 2], String> {
    let (height, width) = text.split_once('x').unwrap_or((text, text));
    match (height.parse(), width.parse()) {
        (Ok(height), Ok(width)) => Ok([height, width]),
        _ => Err("write pixels as 224, or height and width as 224x160".into()),
    }
}

/// Low-rank adaptation: its rank, and the layers that it is beside.
///
/// # Errors
/// Where the text does not begin with a number.
pub fn lora(text: &str) -> Result<Lora, String> {
    let (rank, targets) = text.split_once(':').unwrap_or((text, "q,v"));
    let targets = targets.split(',').map(String::from).collect();
    let rank = rank.parse().map_err(|_| "write a rank, such as 16 or 16:q,k,v,out")?;
    Ok(Lora { rank, targets })
}

/// A share in whole percent.
///
/// # Errors
/// Where it is none from 1 % to 100 %.
pub fn whole(text: &str) -> Result<u8, String> {
    let Percent(percent) = percent(1.0..=100.0)(text)?;
    (percent.fract() == 0.0).then_some(percent as u8).ok_or_else(|| "write whole percent".into())
}

/// A bandwidth with its unit.
///
/// # Errors
/// Where it is none that a link may have.
pub fn bandwidth(text: &str) -> Result<BytesPerSec, String> {
    let amount = text.strip_suffix("/s").and_then(|amount| amount.parse::<Bytes>().ok());
    let amount = amount.filter(|amount| (1_000..=1_000_000_000_000).contains(&amount.0));
    amount.map(|amount| BytesPerSec(amount.0)).ok_or_else(|| {
        "write a bandwidth with its unit, such as 400MB/s, from 1kB/s to 1TB/s".into()
    })
}

/// How often something is done: once or more.
///
/// # Errors
/// Where it is no such number.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("write a whole number from 1".into()),
        Ok(count) => Ok(count),
    }
}
