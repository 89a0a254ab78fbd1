//! What a plan assumes of codecs, in words.

use codecs::claims::Claims;
use schema::CodecRef;

/// What nobody can know of compressed sizes before the data is there, and what makes it safe.
pub fn assumptions(claims: &Claims) -> String {
    let names =
        |codecs: &[CodecRef]| codecs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    if !claims.varying.is_empty() {
        let (count, bytes) = claims.fallbacks;
        text += &format!(
            "sizes by {} depend on the data: what outgrows its buffer goes to the host instead \
             ({count} of its buffers, {bytes})\n",
            names(&claims.varying),
        );
    }
    if !claims.unknown.is_empty() {
        text += &format!("sizes by {} are taken as stated\n", names(&claims.unknown));
    }
    text
}
