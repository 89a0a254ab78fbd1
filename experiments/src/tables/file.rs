//! Tables as files.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::types::Type;
use schema::PendingFile;
use schema::file::read_bytes;

use super::TableError;
use super::cell::{Kind, Table, Value};
use super::quietly::quietly;

/// The cells of a table, row by row.
type Cells = Vec<Vec<Option<Value>>>;

/// Writes a table as Parquet.
pub fn write_parquet<T: Table>(rows: &[T], file: PendingFile) -> Result<(), TableError> {
    let bytes = parquet_of(T::COLUMNS, &rows.iter().map(T::cells).collect());
    let bytes = bytes.map_err(|source| TableError::Layout { file: file.path().into(), source })?;
    Ok(file.finish(&bytes)?)
}

fn parquet_of(columns: &[(&str, Kind)], rows: &Cells) -> Result<Vec<u8>, ParquetError> {
    let field = |(name, kind): &(&str, Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Real => (Physical::DOUBLE, None),
        };
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        Ok(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?))
    };
    let fields = columns.iter().map(field).collect::<Result<_, ParquetError>>()?;
    let schema = Type::group_type_builder("table").with_fields(fields).build()?;
    // A report often opens hundreds of files of one row: what a larger table gains by is left out.
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    let mut bytes = Vec::new();
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), properties)?;
    let mut group = writer.next_row_group()?;
    for (index, (_, kind)) in columns.iter().enumerate() {
        let Some(mut column) = group.next_column()? else { break };
        let cells = || rows.iter().map(|row| row[index].as_ref());
        match kind {
            Kind::Text => put::<ByteArrayType>(&mut column, cells(), |value| match value {
                Value::Text(text) => text.as_str().into(),
                _ => Default::default(),
            })?,
            Kind::Count => put::<Int64Type>(&mut column, cells(), |value| match value {
                Value::Count(count) => count.cast_signed(),
                _ => 0,
            })?,
            Kind::Real => put::<DoubleType>(&mut column, cells(), |value| match value {
                Value::Real(real) => *real,
                _ => 0.0,
            })?,
        }
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

fn put<'a, D: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<&'a Value>> + Clone,
    stored: impl Fn(&Value) -> D::T,
) -> Result<(), ParquetError> {
    let is_there: Vec<i16> = cells.clone().map(|cell| cell.is_some().into()).collect();
    let values: Vec<D::T> = cells.flatten().map(stored).collect();
    column.typed::<D>().write_batch(&values, Some(&is_there), None)?;
    Ok(())
}

/// Writes a table as CSV, under a header. An empty text is `""`, an empty cell is nothing.
pub fn write_csv<T: Table>(rows: &[T], file: PendingFile) -> Result<(), TableError> {
    let cell = |value: Option<Value>| match value {
        None | Some(Value::Other) => String::new(),
        Some(Value::Count(count)) => count.to_string(),
        Some(Value::Real(real)) => format!("{real:?}"),
        Some(Value::Text(text)) if text.is_empty() || text.contains(['"', ',', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(Value::Text(text)) => text,
    };
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let names = T::COLUMNS.iter().map(|(name, _)| name.to_string());
    let mut text = line(names.collect());
    text.extend(rows.iter().map(|row| line(row.cells().into_iter().map(cell).collect())));
    Ok(file.finish(text.as_bytes())?)
}

/// Reads a table that [`write_parquet`] wrote. Columns that it does not know are left aside.
pub fn read_parquet<T: Table>(file: &Path) -> Result<Vec<T>, TableError> {
    let bytes = read_bytes(file)?;
    // Texts that run beyond their page are a panic of the reader.
    quietly(|| read(bytes, file)).unwrap_or_else(|| {
        let why = "a text runs beyond its page".into();
        Err(TableError::Unreadable { file: file.to_path_buf(), why })
    })
}

fn read<T: Table>(bytes: Vec<u8>, file: &Path) -> Result<Vec<T>, TableError> {
    let unreadable = |why: String| TableError::Unreadable { file: file.to_path_buf(), why };
    let damaged = |error: ParquetError| unreadable(error.to_string());
    let size = bytes.len();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(damaged)?;
    check(&reader, size).map_err(unreadable)?;
    let stored = reader.metadata().file_metadata().schema().get_fields();
    let place_of = |name: &str| stored.iter().position(|field| field.name() == name);
    let places: Vec<Option<usize>> = T::COLUMNS.iter().map(|(name, _)| place_of(name)).collect();
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None).map_err(damaged)? {
        let row = row.map_err(damaged)?.into_columns();
        let cells = places.iter().zip(T::COLUMNS).map(|(place, (_, kind))| {
            place.and_then(|place| row.get(place)).and_then(|(_, field)| value(field, *kind))
        });
        rows.push(T::from_cells(cells).map_err(|column| match place_of(column) {
            None => TableError::MissingColumn { file: file.to_path_buf(), column },
            Some(_) => {
                TableError::BadCell { file: file.to_path_buf(), row: rows.len() + 1, column }
            }
        })?);
    }
    Ok(rows)
}

/// What a field holds, as its column has it. Other programs write whole numbers with and without a
/// sign, and as fractions.
fn value(field: &Field, kind: Kind) -> Option<Value> {
    const END: f64 = u64::MAX as f64;
    Some(match (field, kind) {
        (Field::Null, _) => return None,
        (Field::Str(text), Kind::Text) => Value::Text(text.clone()),
        (Field::ULong(count), Kind::Count) => Value::Count(*count),
        (Field::UInt(count), Kind::Count) => Value::Count((*count).into()),
        (Field::Long(count), Kind::Count) if *count >= 0 => Value::Count(count.unsigned_abs()),
        (Field::Int(count), Kind::Count) if *count >= 0 => {
            Value::Count(count.unsigned_abs().into())
        }
        (Field::Double(real), Kind::Count) if real.fract() == 0.0 && (0.0..END).contains(real) => {
            Value::Count(*real as u64)
        }
        (Field::Double(real), Kind::Real) => Value::Real(*real),
        (Field::Float(real), Kind::Real) => Value::Real((*real).into()),
        (Field::ULong(count), Kind::Real) => Value::Real(*count as f64),
        (Field::Long(count), Kind::Real) => Value::Real(*count as f64),
        _ => Value::Other,
    })
}

/// Holds what a file says of its sizes to the bytes that are there: its reader believes it, and
/// takes memory for it before it looks. Each row has a byte at least, and so has each word of a
/// dictionary. Pages that are compressed may become of any size, and are none of ours.
fn check(reader: &SerializedFileReader<bytes::Bytes>, size: usize) -> Result<(), String> {
    let mut rows = 0i64;
    for (index, group) in reader.metadata().row_groups().iter().enumerate() {
        rows = rows.saturating_add(group.num_rows());
        for column in group.columns() {
            if column.compression() != Compression::UNCOMPRESSED {
                return Err("it is compressed: write it without".into());
            }
            let begin = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            if begin.min(column.compressed_size()).min(group.num_rows()) < 0 {
                return Err("it states sizes below zero".into());
            }
        }
        let group_reader = reader.get_row_group(index).map_err(|error| error.to_string())?;
        for column in 0..group_reader.num_columns() {
            let pages = group_reader.get_column_page_reader(column);
            for page in pages.map_err(|error| error.to_string())? {
                let page = page.map_err(|error| error.to_string())?;
                let most = match page.is_dictionary_page() {
                    true => page.buffer().len() as i64,
                    false => group.num_rows(),
                };
                if i64::from(page.num_values()) > most {
                    return Err("a page is larger than its column".into());
                }
            }
        }
    }
    let stated = rows.max(reader.metadata().file_metadata().num_rows());
    match usize::try_from(stated).is_ok_and(|stated| stated <= size) {
        true => Ok(()),
        false => Err(format!("it states {stated} rows in {size} bytes")),
    }
}
