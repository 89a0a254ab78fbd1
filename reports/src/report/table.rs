//! A table of a report.

/// A table: names to the left, figures to the right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Row>,
    pub text_columns: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Row {
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
            let (names, row): (Vec<&str>, _) = row.into_iter().unzip();
            header = names.into_iter().map(String::from).collect();
            cells.push(Row::Cells(row));
        }
        Self { title: title.into(), header, rows: cells, text_columns }
    }

    /// A table with a column for each of some things, and a row for each of what is told of them.
    pub fn across(title: &str, header: Vec<String>, rows: Vec<Vec<String>>) -> Self {
        let rows = rows.into_iter().map(Row::Cells).collect();
        Self { title: title.into(), header, rows, text_columns: 1 }
    }
}
