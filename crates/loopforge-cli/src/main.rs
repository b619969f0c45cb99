//! The `loopforge` command.

fn main() {}
