//! Views of results and timelines: tables, figures, Perfetto.
