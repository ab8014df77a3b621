//! A vocabulary that every byte string can be written in, filled up to a model's size.
//!
//! Byte-level BPE like Qwen's: 256 byte tokens, a few merges, filler that no merge reaches, and
//! the special tokens where Qwen3 has them.

use super::writer::{Header, Value};

/// Merges of frequent English pairs: enough for text to be shorter than its bytes.
const MERGES: [(&str, &str); 12] = [
    ("Ġ", "t"),
    ("h", "e"),
    ("i", "n"),
    ("Ġ", "a"),
    ("r", "e"),
    ("o", "n"),
    ("Ġt", "he"),
    ("e", "r"),
    ("Ġ", "s"),
    ("a", "t"),
    ("in", "g"),
    ("Ġa", "n"),
];

const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
/// How far the special tokens are from the end of the vocabulary (151643 of 151936).
const SPECIAL_FROM_END: usize = 293;

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

const TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
     message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}\
     {{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Adds the tokenizer section for `size` tokens.
pub(super) fn describe(size: usize, header: &mut Header) {
    let special = size - SPECIAL_FROM_END;
    let mut tokens: Vec<String> = byte_alphabet().iter().map(char::to_string).collect();
    tokens.extend(MERGES.iter().map(|(left, right)| format!("{left}{right}")));
    // Generated filler reads as words, so that streamed noise is easy on the eye.
    tokens.extend((tokens.len()..special).map(|id| format!("Ġw{id}")));
    tokens.extend(SPECIAL.map(str::to_owned));
    let mut kinds = vec![NORMAL; special];
    kinds.extend([CONTROL; SPECIAL.len()]);
    tokens.extend((tokens.len()..size).map(|id| format!("[PAD{id}]")));
    kinds.resize(size, UNUSED);

    let merges = MERGES.iter().map(|(left, right)| format!("{left} {right}")).collect();
    header.set("tokenizer.ggml.model", Value::Str("gpt2".into()));
    header.set("tokenizer.ggml.pre", Value::Str("qwen2".into()));
    header.set("tokenizer.ggml.tokens", Value::Strings(tokens));
    header.set("tokenizer.ggml.token_type", Value::I32s(kinds));
    header.set("tokenizer.ggml.merges", Value::Strings(merges));
    header.set("tokenizer.ggml.eos_token_id", Value::U32(special as u32 + 2));
    header.set("tokenizer.ggml.padding_token_id", Value::U32(special as u32));
    header.set("tokenizer.ggml.bos_token_id", Value::U32(special as u32));
    header.set("tokenizer.ggml.add_bos_token", Value::Bool(false));
    header.set("tokenizer.chat_template", Value::Str(TEMPLATE.into()));
}

/// GPT-2's printable stand-ins for the 256 bytes, in byte order.
fn byte_alphabet() -> Vec<char> {
    let mut stand_in = 256;
    (0..=255_u8)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                let character = char::from_u32(stand_in).unwrap_or(char::REPLACEMENT_CHARACTER);
                stand_in += 1;
                character
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::byte_alphabet;

    #[test]
    fn the_alphabet_has_a_distinct_visible_character_for_every_byte() {
        let alphabet = byte_alphabet();
        let distinct: BTreeSet<char> = alphabet.iter().copied().collect();
        assert_eq!((alphabet.len(), distinct.len()), (256, 256));
        assert_eq!((alphabet[usize::from(b' ')], alphabet[usize::from(b'\n')]), ('Ġ', 'Ċ'));
    }
}
