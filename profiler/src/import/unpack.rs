//! Recordings as they lie on disk: gzip around them, and a tar archive around or in that.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use super::error::ImportError;

/// No recording is larger unpacked; a few bytes of gzip can be made to hold far more.
const LARGEST: u64 = 1 << 30;

/// What a file holds, without the packing around it. An archive must hold one file that looks like a recording.
///
/// # Errors
///
/// Where the packing is damaged, or an archive holds no recording or more than one.
pub fn unpack<'a>(bytes: &'a [u8], file: &Path) -> Result<Cow<'a, [u8]>, ImportError> {
    let packed = |problem: String| ImportError::Packed(file.into(), problem);
    let bytes = inflate(bytes).map_err(packed)?;
    // Where the format's name stands in the header of the first file.
    if bytes.get(257..262) != Some(b"ustar") {
        return Ok(bytes);
    }
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    let damaged = |why: std::io::Error| {
        packed(format!("a damaged tar archive: {why}: copy or pack it again"))
    };
    for member in tar::Archive::new(&bytes[..]).entries().map_err(damaged)? {
        let mut member = member.map_err(damaged)?;
        let name = member.path().map_err(damaged)?.to_string_lossy().into_owned();
        let mut content = Vec::new();
        member.read_to_end(&mut content).map_err(damaged)?;
        let content = match inflate(&content).map_err(packed)? {
            Cow::Borrowed(_) => content,
            Cow::Owned(inflated) => inflated,
        };
        if super::format::detect(&content).is_some() {
            found.push((super::error::quoted(&name), content));
        }
    }
    let names = found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    match <[_; 1]>::try_from(found) {
        Ok([(_, content)]) => Ok(Cow::Owned(content)),
        Err(none) if none.is_empty() => {
            Err(packed("an archive without a recording: pack one into it".into()))
        }
        Err(_) => Err(packed(format!("an archive of several recordings: unpack one of {names}"))),
    }
}

fn inflate(bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut inflated = Vec::new();
    let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(LARGEST + 1);
    match reader.read_to_end(&mut inflated) {
        Err(why) => Err(format!("damaged gzip: {why}: copy or pack it again")),
        Ok(length) if length as u64 > LARGEST => {
            Err(format!("more than {LARGEST} bytes unpacked: record fewer steps"))
        }
        Ok(_) => Ok(Cow::Owned(inflated)),
    }
}
