//! What is told of a network that comes with tidegate.

/// A network that comes with tidegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkInfo {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub description: &'static str,
    /// The network that it is another size of: nothing else differs.
    pub size_of: Option<&'static str>,
}
