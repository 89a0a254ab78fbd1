//! Views of results and timelines: tables, figures, a page, Perfetto.
//!
//! Every function here goes from values to text or pixels: it computes no result and touches no
//! file, and all but the painting of pixels cannot fail. The same values give the same bytes.

mod axis;
mod breakdown;
mod checked;
mod columns;
mod comparison;
mod comparison_advice;
mod comparison_table;
mod differences;
mod explanation;
mod frontier;
mod frontier_table;
mod perfetto;
mod picture;
mod png;
mod report;
mod text;
mod timeline_svg;
mod trained;

#[cfg(test)]
mod examples;

pub use breakdown::breakdown;
pub use checked::Checked;
pub use columns::columns;
pub use comparison::{
    Comparison, Copied, Jitter, MethodResult, Moved, Status, Sufficient, json_schema,
};
pub use comparison_table::table;
pub use differences::{Cause, Difference, differences, task_name};
pub use explanation::{Certainty, Changes, DeviceMemory, Explanation, Part, Peak, Remedy};
pub use frontier::{Frontier, FrontierPoint, Smallest};
pub use frontier_table::frontier_table;
pub use perfetto::perfetto;
pub use picture::Picture;
pub use png::{PngError, png};
pub use report::{
    Figure, Predictions, PrintedNumber, Report, Run, Search, Setting, Sought, frontier_figure,
    held_out,
};
pub use text::tensors;
pub use timeline_svg::timeline_svg;
pub use trained::{Applied, Trained};
