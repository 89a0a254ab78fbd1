//! Real layers and the devices that run a plan.
