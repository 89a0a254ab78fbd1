//! A table of a report.

/// A table: names to the left, figures to the right.
pub(super) struct Table {
    pub title: String,
    pub header: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// How many columns are text.
    pub text_columns: usize,
}

pub(super) enum Row {
    /// A cell for each column.
    Cells(Vec<String>),
    /// A name, and a sentence over all other columns.
    Sentence(String, String),
}

impl Table {
    /// A table of rows that say what their cells are.
    pub fn of(
        title: impl Into<String>,
        text_columns: usize,
        rows: impl IntoIterator<Item = Vec<(&'static str, String)>>,
    ) -> Self {
        let (mut header, mut cells) = (Vec::new(), Vec::new());
        for row in rows {
            let (names, row) = row.into_iter().unzip();
            header = names;
            cells.push(Row::Cells(row));
        }
        Self { title: title.into(), header, rows: cells, text_columns }
    }
}
