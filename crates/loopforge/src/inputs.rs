//! Reading the inputs of a run from files and from what a person gave.
