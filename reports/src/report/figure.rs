//! A figure of a report.

use super::table::Table;
use crate::Picture;

/// A figure of a report: one picture, or several that are read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// A name for files and links, unique in its report.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What one sees, and what it rests on.
    pub caption: String,
    /// The pictures, one above the other.
    pub pictures: Vec<Picture>,
    /// What they show, or what explains it, for who reads rather than looks.
    pub(super) table: Option<Table>,
}

impl Figure {
    pub(super) fn new(id: &str, title: &str, caption: String, pictures: Vec<Picture>) -> Self {
        Self { id: id.into(), title: title.into(), caption, pictures, table: None }
    }

    pub(super) fn with_table(self, table: Table) -> Self {
        Self { table: Some(table), ..self }
    }

    /// Each picture with the stem of the name of its file.
    pub fn files(&self) -> Vec<(String, &Picture)> {
        let stem = |index: usize| match self.pictures.len() {
            1 => self.id.clone(),
            _ => format!("{}-{}", self.id, (b'a' + index as u8 % 26) as char),
        };
        self.pictures.iter().enumerate().map(|(index, picture)| (stem(index), picture)).collect()
    }
}
