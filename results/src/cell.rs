//! How a field of a row becomes a column and back.

use polars::prelude::{
    Column as PolarsColumn, DataFrame, DataType, NamedFrom, PolarsResult, Series,
};
use schema::{Bytes, BytesPerSec, Nanos};

use crate::Status;

/// The values of one column, each perhaps empty.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    Text(Vec<Option<String>>),
    Count(Vec<Option<u64>>),
    Real(Vec<Option<f64>>),
}

impl Column {
    pub(crate) fn into_polars(self, name: &str) -> PolarsColumn {
        let series = match self {
            Self::Text(values) => Series::new(name.into(), values),
            Self::Count(values) => Series::new(name.into(), values),
            Self::Real(values) => Series::new(name.into(), values),
        };
        series.into()
    }

    /// The column of a name, as the type that `like` has. None where there is no such column.
    pub(crate) fn from_polars(
        frame: &DataFrame,
        name: &str,
        like: &Self,
    ) -> PolarsResult<Option<Self>> {
        let Ok(column) = frame.column(name) else { return Ok(None) };
        let column = match like {
            Self::Text(_) => {
                let column = column.cast(&DataType::String)?;
                let values = column.str()?.iter();
                Self::Text(values.map(|value| value.map(str::to_string)).collect())
            }
            Self::Count(_) => Self::Count(column.cast(&DataType::UInt64)?.u64()?.iter().collect()),
            Self::Real(_) => Self::Real(column.cast(&DataType::Float64)?.f64()?.iter().collect()),
        };
        Ok(Some(column))
    }
}

/// A table's rows, each of which has the same columns. [`Row`](crate::Row) and
/// [`CodecSample`](crate::CodecSample) are the ones there are: a column's type is not to be named
/// outside of this crate.
pub trait Table: Sized {
    /// The columns, in their order.
    const COLUMNS: &'static [&'static str];

    /// The rows as columns, in the order of [`Self::COLUMNS`].
    #[doc(hidden)]
    fn to_columns(rows: &[Self]) -> Vec<(&'static str, Column)>;

    /// The rows of columns. `column` finds one by its name, typed like the one it is given. Fails
    /// with the name and the row of a cell that is missing or of no use.
    #[doc(hidden)]
    fn from_columns<E>(
        height: usize,
        column: impl FnMut(&'static str, Column) -> Result<Option<Column>, E>,
        bad: impl Fn(&'static str, Option<usize>) -> E,
    ) -> Result<Vec<Self>, E>;
}

/// A field that has a column. An empty cell is `None`, and so is one that the type cannot hold.
pub(crate) trait Cell: Sized {
    fn column<'a>(values: impl Iterator<Item = &'a Self>) -> Column
    where
        Self: 'a;
    fn cell(column: &Column, row: usize) -> Option<Self>;
    /// What stands for a column that a file lacks, where that may be.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! cell {
    ($type:ty, $column:ident, $value:ident => $to:expr, $stored:ident => $from:expr) => {
        impl Cell for $type {
            fn column<'a>(values: impl Iterator<Item = &'a Self>) -> Column {
                Column::$column(values.map(|$value| Some($to)).collect())
            }

            fn cell(column: &Column, row: usize) -> Option<Self> {
                let Column::$column(values) = column else { return None };
                let $stored = values.get(row)?.as_ref()?;
                $from
            }
        }

        impl Cell for Option<$type> {
            fn column<'a>(values: impl Iterator<Item = &'a Self>) -> Column {
                Column::$column(values.map(|value| value.as_ref().map(|$value| $to)).collect())
            }

            fn cell(column: &Column, row: usize) -> Option<Self> {
                let Column::$column(values) = column else { return None };
                match values.get(row)? {
                    Some($stored) => $from.map(Some),
                    None => Some(None),
                }
            }

            fn absent() -> Option<Self> {
                Some(None)
            }
        }
    };
}

cell!(String, Text, v => v.clone(), v => Some(v.clone()));
cell!(Status, Text, v => v.name().to_string(), v => Status::from_name(v));
cell!(u64, Count, v => *v, v => Some(*v));
cell!(u32, Count, v => u64::from(*v), v => u32::try_from(*v).ok());
cell!(Bytes, Count, v => v.0, v => Some(Bytes(*v)));
cell!(Nanos, Count, v => v.0, v => Some(Nanos(*v)));
cell!(BytesPerSec, Count, v => v.0, v => Some(BytesPerSec(*v)));
cell!(f64, Real, v => *v, v => Some(*v));

/// Declares a row: its fields, and the name of each one's column.
macro_rules! columns {
    (
        $(#[$doc:meta])*
        pub struct $row:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $name:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $row {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Table for $row {
            const COLUMNS: &'static [&'static str] = &[$($name),*];

            fn to_columns(rows: &[Self]) -> Vec<(&'static str, Column)> {
                vec![$(($name, <$type as Cell>::column(rows.iter().map(|row| &row.$field)))),*]
            }

            fn from_columns<E>(
                height: usize,
                mut column: impl FnMut(&'static str, Column) -> Result<Option<Column>, E>,
                bad: impl Fn(&'static str, Option<usize>) -> E,
            ) -> Result<Vec<Self>, E> {
                $(
                    let empty = <$type as Cell>::column(std::iter::empty());
                    let $field = column($name, empty)?;
                )*
                let mut rows = Vec::with_capacity(height);
                for row in 0..height {
                    rows.push(Self {
                        $($field: match &$field {
                            Some(column) => {
                                <$type as Cell>::cell(column, row).ok_or_else(|| bad($name, Some(row)))?
                            }
                            None => <$type as Cell>::absent().ok_or_else(|| bad($name, None))?,
                        },)*
                    });
                }
                Ok(rows)
            }
        }
    };
}

pub(crate) use columns;
