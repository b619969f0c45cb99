//! The demonstration: a page patrol over a shop on this machine, killed in the middle and resumed.

pub mod shop;
