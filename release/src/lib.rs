//! The files of a release, from the repository and the built programs. The same inputs give the same bytes: times are the
//! time of the release, owners are root, and files are in order.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for developers

pub mod address;
pub mod archive;
pub mod chart;
pub mod checksums;
pub mod command;
pub mod feed;
pub mod generated;
pub mod hive;
pub mod image;
pub mod krew;
pub mod manifest;
