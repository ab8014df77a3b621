//! Compiles `dynd/v1/control.proto` without a system `protoc`.

use std::error::Error;

const FILES: [&str; 1] = ["dynd/v1/control.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["."])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
