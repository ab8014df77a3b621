//! Any bytes as an answer, in every format: what holds for the corpus holds for all.
#![no_main]

#[path = "../tests/answer/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The corpus is plain text, so where an answer is cut is taken from the text itself.
    let answer = String::from_utf8_lossy(data);
    let cuts: Vec<u16> = data.chunks(16).map(|chunk| u16::from(chunk[0]) * 257).collect();
    for (_, format) in check::formats() {
        check::check(format, true, "", &answer, &cuts);
        check::check(format, false, "<think>\n", &answer, &cuts);
    }
});
