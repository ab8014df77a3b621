//! The checks of the fuzz targets on their corpora, and on the corpora damaged in every kind of
//! way: what was found once stays found. `dynd/protocol/fuzz` runs the same on anything.

mod answers;
mod bodies;
mod socket;
mod stream;

use std::fs;
use std::path::Path;

use dynd_protocol::{
    Endpoint, Sealer, decode_chat, decode_compaction, decode_count_tokens, decode_messages,
    decode_responses,
};
use proptest::prelude::*;

/// The files of a corpus, by name.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora").join(name);
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name} is empty");
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
}

fn check_body(data: &[u8]) {
    let sealer = Sealer::new([0; 32]);
    bodies::check(data, Endpoint::Chat, decode_chat);
    bodies::check(data, Endpoint::Messages, decode_messages);
    bodies::check(data, Endpoint::Messages, decode_count_tokens);
    bodies::check(data, Endpoint::Responses, |data| decode_responses(data, &sealer));
    bodies::check(data, Endpoint::Compaction, |data| decode_compaction(data, &sealer));
}

#[test]
fn every_body_of_the_corpora_passes() {
    for data in ["chat", "messages", "responses"].into_iter().flat_map(corpus) {
        check_body(&data);
        socket::check(&data);
    }
}

#[test]
fn every_socket_message_of_the_corpus_passes() {
    corpus("socket").iter().for_each(|data| socket::check(data));
}

#[test]
fn every_answer_of_the_corpus_passes() {
    corpus("encoders").iter().for_each(|data| answers::check(data));
}

/// What a body of the corpora becomes when a stretch of it is lost or told twice.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let all: Vec<Vec<u8>> =
        ["chat", "messages", "responses", "socket"].into_iter().flat_map(corpus).collect();
    let places = (any::<prop::sample::Index>(), 0usize..40, any::<bool>());
    (prop::sample::select(all), prop::collection::vec(places, 1..4)).prop_map(
        |(mut data, places)| {
            for (at, length, is_lost) in places {
                let start = at.index(data.len() + 1);
                let end = (start + length).min(data.len());
                let stretch = data[start..end].to_vec();
                if is_lost {
                    data.drain(start..end);
                } else {
                    data.splice(start..start, stretch);
                }
            }
            data
        },
    )
}

proptest! {
    #[test]
    fn damaged_bodies_are_answered(data in damaged()) {
        check_body(&data);
        socket::check(&data);
    }

    #[test]
    fn any_answer_is_written_whole(data in prop::collection::vec(any::<u8>(), 0..160)) {
        answers::check(&data);
    }
}
