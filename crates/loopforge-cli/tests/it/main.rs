//! Tests of the command line's parts from outside.

mod cases;
mod crash;
mod examples;
mod fleet;
mod http;
mod look;
mod notices;
mod patrol;
mod patrols;
mod shop;
