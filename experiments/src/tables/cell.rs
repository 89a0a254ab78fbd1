//! How a field of a row becomes a cell and back.

use reports::Status;
use schema::{Bytes, BytesPerSec, Nanos};

/// What the cells of a column hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number.
    Count,
    /// A number with a fraction.
    Real,
}

/// A cell that is not empty.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)]
pub enum Value {
    Text(String),
    Count(u64),
    Real(f64),
    /// What no column of ours holds.
    Other,
}

/// A table's rows, each of which has the same columns.
pub trait Table: Sized {
    /// The columns, in their order.
    const COLUMNS: &'static [(&'static str, Kind)];

    /// The row's cells, in the order of [`Self::COLUMNS`].
    #[doc(hidden)]
    fn cells(&self) -> Vec<Option<Value>>;

    /// The row of cells, or the column whose cell is empty or of no use.
    #[doc(hidden)]
    fn from_cells(cells: impl Iterator<Item = Option<Value>>) -> Result<Self, &'static str>;
}

/// A field that has a column.
pub trait Cell: Sized {
    const KIND: Kind;
    fn put(&self) -> Option<Value>;
    fn take(value: Option<Value>) -> Option<Self>;
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;

    fn put(&self) -> Option<Value> {
        self.as_ref().and_then(T::put)
    }

    fn take(value: Option<Value>) -> Option<Self> {
        match value {
            None => Some(None),
            some => T::take(some).map(Some),
        }
    }
}

macro_rules! cell {
    ($type:ty, $kind:ident, $value:ident => $put:expr, $stored:pat => $take:expr) => {
        impl Cell for $type {
            const KIND: Kind = Kind::$kind;

            fn put(&self) -> Option<Value> {
                let $value = self;
                Some(Value::$kind($put))
            }

            fn take(value: Option<Value>) -> Option<Self> {
                match value? {
                    Value::$kind($stored) => $take,
                    _ => None,
                }
            }
        }
    };
}

cell!(String, Text, v => v.clone(), v => Some(v));
cell!(Status, Text, v => status_name(*v).into(), v => status_of(&v));
cell!(u64, Count, v => *v, v => Some(v));
cell!(u32, Count, v => u64::from(*v), v => u32::try_from(v).ok());
cell!(Bytes, Count, v => v.0, v => Some(Bytes(v)));
cell!(Nanos, Count, v => v.0, v => Some(Nanos(v)));
cell!(BytesPerSec, Count, v => v.0, v => Some(BytesPerSec(v)));
cell!(f64, Real, v => *v, v => Some(v));

const STATUS: [(Status, &str); 2] = [(Status::Ok, "ok"), (Status::Infeasible, "infeasible")];

/// A method that ran out of time has no plan that fits, either.
fn status_name(status: Status) -> &'static str {
    if status == Status::Ok { STATUS[0].1 } else { STATUS[1].1 }
}

fn status_of(name: &str) -> Option<Status> {
    STATUS.into_iter().find(|(_, known)| *known == name).map(|(status, _)| status)
}

/// Says which column has which of a row's fields.
macro_rules! table {
    ($row:ty { $($($field:ident).+: $type:ty = $name:literal,)* }) => {
        impl Table for $row {
            const COLUMNS: &'static [(&'static str, Kind)] =
                &[$(($name, <$type as Cell>::KIND)),*];

            fn cells(&self) -> Vec<Option<Value>> {
                vec![$(self.$($field).+.put()),*]
            }

            fn from_cells(
                mut cells: impl Iterator<Item = Option<Value>>,
            ) -> std::result::Result<Self, &'static str> {
                let mut row = Self::default();
                $(row.$($field).+ = Cell::take(cells.next().flatten()).ok_or($name)?;)*
                Ok(row)
            }
        }
    };
}

pub(crate) use table;
