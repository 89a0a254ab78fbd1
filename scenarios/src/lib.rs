//! Machines, networks and recorded traces that come with tidegate.
