//! JSON Schemas of the documents, for programs that read or write them.

use schemars::{JsonSchema, generate::SchemaSettings};

use crate::Document;

/// The JSON Schema (draft 2020-12) of a document as it stands in a file.
pub fn json_schema<D: Document + JsonSchema>() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<crate::file::Envelope<D>>().to_value();
    let title = D::FORMAT.replace('/', " ");
    schema["title"] = serde_json::Value::String(title);
    schema["properties"]["format"] = serde_json::json!({ "const": D::FORMAT });
    schema["properties"]["version"] =
        serde_json::json!({ "type": "integer", "minimum": 1, "maximum": D::VERSION });
    schema
}
