//! A PostgreSQL server for tests that are not written in Rust: prints the URL of an empty database, and ends with its
//! input. The line `stop` stops it as a power cut would, `start` starts it again; each is printed once it is done.

use aye_testkit::postgres::Cluster;

fn main() {
    let cluster = Cluster::start();
    println!("{}", cluster.new_database());
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.as_str() {
            "stop" => cluster.stop_at_once(),
            "start" => cluster.start_again(),
            _ => continue,
        }
        println!("{line}");
    }
}
