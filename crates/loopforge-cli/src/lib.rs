//! What the `loopforge` command is made of.

pub mod demo;
