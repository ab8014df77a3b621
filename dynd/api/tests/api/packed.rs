//! Packed request bodies, through a socket.

use std::io::Write;

use crate::support::{Rig, Setup};
use dynd_api::Settings;
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;

const CHAT: &str = "/v1/chat/completions";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(text).expect("a vector takes all");
    packer.finish().expect("a vector takes all")
}

#[tokio::test]
async fn gzip_and_zstd_bodies_are_read_like_plain_ones() {
    let rig = Rig::start().await;
    let body = json!({"messages": [{"role": "user", "content": "hi ".repeat(100)}]}).to_string();
    let plain = rig.send("POST", CHAT, &[], body.clone()).await.json();
    let zstd = compress_to_vec(body.as_bytes(), CompressionLevel::Fastest);
    for (name, packed) in [("gzip", gzip(body.as_bytes())), ("zstd", zstd)] {
        assert!(packed.len() < body.len());
        let reply = rig.send("POST", CHAT, &[("content-encoding", name)], packed).await.json();
        assert_eq!(reply["choices"], plain["choices"], "{name}");
        assert_eq!(reply["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"]);
    }
}

#[tokio::test]
async fn bombs_and_unknown_codings_are_refused() {
    let settings = Settings { body_bytes_max: 100_000, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    let bomb = gzip(&vec![b' '; 20 << 20]);
    assert!(bomb.len() < 100_000, "what comes over the wire is within the limit");
    let reply = rig.send("POST", CHAT, &[("content-encoding", "gzip")], bomb).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (413, "request_too_large"));
    let reply = rig.send("POST", CHAT, &[("content-encoding", "gzip")], "{}").await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (400, "invalid_json"));
    let reply = rig.send("POST", CHAT, &[("content-encoding", "br")], "{}").await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (415, "unsupported_encoding"));
    assert!(reply.message().contains("gzip, zstd"));
    assert_eq!(reply.header("accept-encoding"), "gzip, zstd");
}
