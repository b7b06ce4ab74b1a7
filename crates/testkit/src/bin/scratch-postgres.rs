//! A PostgreSQL server for tests that are not written in Rust: prints the URL of an empty database, and ends with its
//! input.

use aye_testkit::postgres::Cluster;
use std::io::Read;

fn main() {
    let cluster = Cluster::start();
    println!("{}", cluster.new_database());
    // Whatever comes, only its end counts.
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
}
