//! The contract of [`crate::Store`], as a suite.
