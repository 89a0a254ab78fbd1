//! stub
use super::{ImportError, ImportOptions, Recording};
pub(super) fn import(_: &[u8], _: &std::path::Path, _: &ImportOptions) -> Result<Recording, ImportError> { todo!() }
