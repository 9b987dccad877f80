//! Prints what starting jobs costs: `cargo run --release -p xce-shim --example bench`.

#[path = "../../../tests/bench/shim.rs"]
mod shim;

fn main() {
    shim::run();
}
