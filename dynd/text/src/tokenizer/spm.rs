//! SentencePiece BPE by scores, as in Llama-2 and Gemma GGUF files: of all neighbours that form a
//! token, the best-scored pair merges first, the leftmost on a tie; what stays no token becomes
//! bytes.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use dynd_core::{GgufVocab, TokenId, TokenKind};

use super::TokenizerError;

/// How SentencePiece writes a blank.
const BLANK: &str = "▁";

pub(super) struct SpmEncoder {
    pieces: HashMap<Box<str>, (TokenId, f32)>,
    piece_bytes_max: usize,
    bytes: Box<[Option<TokenId>; 256]>,
    unknown: Option<TokenId>,
    add_space_prefix: bool,
}

/// A stretch of the text that is one token so far; `bytes == 0` once it was merged away.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    bytes: usize,
    before: Option<usize>,
    after: Option<usize>,
}

/// A merge that was possible when it was queued.
struct Candidate {
    score: f32,
    left: usize,
    right: usize,
    bytes: usize,
}

impl SpmEncoder {
    pub(super) fn new(gguf: &GgufVocab) -> Result<Self, TokenizerError> {
        if gguf.scores.len() != gguf.tokens.len() {
            return Err(TokenizerError::Vocabulary(format!(
                "{} tokens but {} scores",
                gguf.tokens.len(),
                gguf.scores.len()
            )));
        }
        let kinds = gguf.kinds.iter().copied().chain(std::iter::repeat(TokenKind::Normal));
        let mut pieces: HashMap<Box<str>, _> = HashMap::with_capacity(gguf.tokens.len());
        let mut bytes = Box::new([None; 256]);
        for (((text, score), kind), id) in gguf.tokens.iter().zip(&gguf.scores).zip(kinds).zip(0..)
        {
            match kind {
                TokenKind::Byte => {
                    if let Some(byte) = byte_piece(text) {
                        bytes[byte as usize] = Some(id);
                    }
                }
                // Control tokens are never made from text.
                TokenKind::Control | TokenKind::Unknown => {}
                TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused => {
                    pieces.entry(text.as_str().into()).or_insert((id, *score));
                }
            }
        }
        Ok(SpmEncoder {
            piece_bytes_max: pieces.keys().map(|text| text.len()).max().unwrap_or(0),
            pieces,
            bytes,
            unknown: gguf.unknown.filter(|id| (*id as usize) < gguf.tokens.len()),
            add_space_prefix: gguf.add_space_prefix.unwrap_or(true),
        })
    }

    /// Appends the ids of `text`, with the blank prefix of SentencePiece when it stands at a start.
    pub(super) fn encode(&self, text: &str, at_start: bool, ids: &mut Vec<TokenId>) {
        let prefix = if self.add_space_prefix && at_start { BLANK } else { "" };
        let text = [prefix, &text.replace(' ', BLANK)].concat();
        let mut symbols = characters(&text);
        let mut queue = BinaryHeap::new();
        for right in 1..symbols.len() {
            queue.extend(self.candidate(&text, &symbols, right - 1, right));
        }
        while let Some(Candidate { left, right, bytes, .. }) = queue.pop() {
            let (l, r) = (symbols[left], symbols[right]);
            if l.bytes == 0 || r.bytes == 0 || l.bytes + r.bytes != bytes {
                continue;
            }
            symbols[left].bytes = bytes;
            symbols[left].after = r.after;
            symbols[right].bytes = 0;
            if let Some(after) = r.after {
                symbols[after].before = Some(left);
                queue.extend(self.candidate(&text, &symbols, left, after));
            }
            if let Some(before) = l.before {
                queue.extend(self.candidate(&text, &symbols, before, left));
            }
        }
        for symbol in symbols.iter().filter(|symbol| symbol.bytes > 0) {
            self.emit(&text[symbol.start..symbol.start + symbol.bytes], ids);
        }
    }

    fn candidate(
        &self,
        text: &str,
        symbols: &[Symbol],
        left: usize,
        right: usize,
    ) -> Option<Candidate> {
        let bytes = symbols[left].bytes + symbols[right].bytes;
        if bytes > self.piece_bytes_max {
            return None;
        }
        let start = symbols[left].start;
        let (_, score) = *self.pieces.get(&text[start..start + bytes])?;
        Some(Candidate { score, left, right, bytes })
    }

    /// The id of a symbol, or of its bytes.
    fn emit(&self, text: &str, ids: &mut Vec<TokenId>) {
        match self.pieces.get(text) {
            Some((id, _)) => ids.push(*id),
            None => {
                let byte_ids = text.bytes().map(|byte| self.bytes[byte as usize].or(self.unknown));
                ids.extend(byte_ids.flatten());
            }
        }
    }
}

fn characters(text: &str) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = text
        .char_indices()
        .enumerate()
        .map(|(index, (start, c))| Symbol {
            start,
            bytes: c.len_utf8(),
            before: index.checked_sub(1),
            after: Some(index + 1),
        })
        .collect();
    if let Some(last) = symbols.last_mut() {
        last.after = None;
    }
    symbols
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The bytes an ordinary or byte token stands for.
pub(super) fn token_bytes(text: &str) -> Vec<u8> {
    match byte_piece(text) {
        Some(byte) => vec![byte],
        None => text.replace(BLANK, " ").into_bytes(),
    }
}

/// Reads `<0x0A>`.
fn byte_piece(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}
