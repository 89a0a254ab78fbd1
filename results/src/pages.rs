//! What a Parquet file says of its sizes, held to the bytes that are there: its reader believes it, and takes as
//! much memory before it looks.

use std::io::Cursor;

use polars::prelude::{ParquetReader, SerReader};
use polars_parquet_format::thrift::protocol::TCompactInputProtocol;
use polars_parquet_format::{CompressionCodec, PageHeader};

/// Says what is wrong where a file states more rows, or pages of more values, than a table of its size has:
/// a byte for each row, and one for each word of a dictionary. Pages that are compressed may become of any
/// size, and are none of ours.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let mut reader = ParquetReader::new(Cursor::new(bytes));
    let metadata = reader.get_metadata().map_err(|error| error.to_string())?.clone();
    let mut rows = 0usize;
    for group in &metadata.row_groups {
        rows = rows.saturating_add(group.num_rows());
        for column in group.parquet_columns() {
            if column.compression() as i32 != CompressionCodec::UNCOMPRESSED.0 {
                return Err("it is compressed: write it without".into());
            }
            let range = column.byte_range();
            let chunk = bytes.get(range.start as usize..range.end as usize);
            let chunk = chunk.ok_or("a column lies beyond its end")?;
            let values = usize::try_from(column.num_values()).ok();
            check_pages(chunk, values.filter(|values| *values <= group.num_rows()))?;
        }
    }
    match rows.max(metadata.num_rows) <= bytes.len() {
        true => Ok(()),
        false => Err(format!("it states {rows} rows in {} bytes", bytes.len())),
    }
}

/// Goes from page to page of a column of so many values, as its reader does.
fn check_pages(chunk: &[u8], values: Option<usize>) -> Result<(), String> {
    let values = values.ok_or("a column has more values than rows")?;
    let (mut at, mut seen) = (0, 0);
    while seen < values {
        let mut cursor = Cursor::new(&chunk[at..]);
        let mut protocol = TCompactInputProtocol::new(&mut cursor, chunk.len());
        let header = PageHeader::read_from_in_protocol(&mut protocol).map_err(|e| e.to_string())?;
        let of_data = header.data_page_header.map(|page| page.num_values);
        let of_data_v2 = header.data_page_header_v2.map(|page| page.num_values);
        let words = header.dictionary_page_header.map(|page| page.num_values);
        let count = |number: Option<i32>| usize::try_from(number.unwrap_or(0)).ok();
        let (Some(one), Some(two), Some(words), Some(size)) = (
            count(of_data),
            count(of_data_v2),
            count(words),
            count(Some(header.compressed_page_size)),
        ) else {
            return Err("a page has sizes below zero".into());
        };
        seen += one.max(two);
        at += cursor.position() as usize + size;
        if seen > values || words > chunk.len() || at > chunk.len() {
            return Err("a page is larger than its column".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use polars::prelude::{
        Column, DataFrame, NamedFrom, ParquetCompression, ParquetWriter, Series,
    };

    use super::*;

    fn written(compression: ParquetCompression) -> Vec<u8> {
        let numbers: Vec<Option<u64>> = (0..50).map(|n| (n % 3 > 0).then_some(n)).collect();
        let words: Vec<String> = (0..50).map(|n| format!("word {}", n % 4)).collect();
        let column = |series: Series| -> Column { series.into() };
        let columns = vec![
            column(Series::new("number".into(), numbers)),
            column(Series::new("word".into(), words)),
        ];
        let mut frame = DataFrame::new(50, columns).expect("of one height");
        let mut bytes = Vec::new();
        let writer = ParquetWriter::new(&mut bytes).with_compression(compression);
        writer.finish(&mut frame).expect("it is written to memory");
        bytes
    }

    #[test]
    fn what_is_compressed_is_refused() {
        assert_eq!(check(&written(ParquetCompression::Uncompressed)), Ok(()));
        let refused =
            check(&written(ParquetCompression::Snappy)).expect_err("it may become any size");
        assert!(refused.contains("compressed"), "{refused}");
    }

    #[test]
    fn pages_are_held_to_their_column() {
        let bytes = written(ParquetCompression::Uncompressed);
        let mut reader = ParquetReader::new(Cursor::new(bytes.as_slice()));
        let metadata = reader.get_metadata().expect("it was written").clone();
        for column in metadata.row_groups[0].parquet_columns() {
            let range = column.byte_range();
            let chunk = &bytes[range.start as usize..range.end as usize];
            assert_eq!(check_pages(chunk, Some(50)), Ok(()));
            assert!(check_pages(chunk, Some(49)).is_err(), "more values than the column has");
            assert!(check_pages(chunk, Some(51)).is_err(), "fewer than it says");
            assert!(check_pages(&chunk[..chunk.len() - 1], Some(50)).is_err(), "a page is cut off");
            assert!(check_pages(chunk, None).is_err());
        }
    }
}
