//! How options of networks are written.

use networks::suggest::instead;
use schema::{Dtype, Framework, Lora};

/// What is found under a name, of those that there are.
pub fn named<T: 'static>(
    find: fn(&str) -> Option<T>,
    all: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |name| find(name).ok_or_else(|| instead(name, all.split(' ')))
}

/// An element type of a network or a codec's tensor.
pub fn float() -> impl Fn(&str) -> Result<Dtype, String> + Clone {
    named(Dtype::float_from_name, "f32 f16 bf16")
}

/// A framework whose conventions there are.
pub fn framework(name: &str) -> Option<Framework> {
    match name {
        "pytorch" => Some(Framework::Pytorch),
        "caffe" => Some(Framework::Caffe),
        "tidegate" => Some(Framework::Tidegate),
        _ => None,
    }
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
