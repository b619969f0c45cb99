//! Commands of the host as tools.
