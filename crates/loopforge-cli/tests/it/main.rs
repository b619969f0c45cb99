//! Tests of the command line's parts from outside.

mod http;
mod shop;
