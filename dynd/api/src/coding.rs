//! Packed request bodies: which codings are taken, and unpacking piece by piece.
//!
//! Knows no limit: whoever takes the pieces refuses the one that is too much.

use std::io::{ErrorKind, Read};

use dynd_protocol::ApiError;
use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use ruzstd::decoding::StreamingDecoder;

/// What a client may use, as the `accept-encoding` of a refusal says.
pub(crate) const TAKEN: &str = "gzip, zstd";

/// Bytes unpacked at once.
const PIECE_BYTES: usize = 32 << 10;
/// Largest window of a zstd frame, which is memory (RFC 9659 allows no more in HTTP).
const WINDOW_BYTES_MAX: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    /// What the headers say. One coding alone is taken: nobody packs twice.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let Some(value) = values.next() else { return Ok(Coding::Identity) };
        let name = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
        match &*name {
            _ if values.next().is_some() => Err(ApiError::unsupported_encoding(TAKEN)),
            "" | "identity" => Ok(Coding::Identity),
            "gzip" | "x-gzip" => Ok(Coding::Gzip),
            "zstd" => Ok(Coding::Zstd),
            _ => Err(ApiError::unsupported_encoding(TAKEN)),
        }
    }

    /// Hands the unpacked bytes to `take` in pieces, until it refuses one.
    pub(crate) fn unpack(
        self,
        mut packed: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        match self {
            Coding::Identity => take(packed),
            Coding::Gzip => self.pieces(MultiGzDecoder::new(packed), &mut take),
            Coding::Zstd => {
                // A body may be several frames, one after the other.
                while !packed.is_empty() {
                    let frame =
                        StreamingDecoder::new_with_max_window_size(&mut packed, WINDOW_BYTES_MAX)
                            .map_err(|_| self.malformed())?;
                    self.pieces(frame, &mut take)?;
                }
                Ok(())
            }
        }
    }

    fn pieces(
        self,
        mut from: impl Read,
        take: &mut impl FnMut(&[u8]) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => take(&piece[..length])?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(self.malformed()),
            }
        }
    }

    /// The refusal of a body that is not what its coding says.
    pub(crate) fn malformed(self) -> ApiError {
        let name = match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
        };
        ApiError::malformed(format!(
            "The request body is not whole and valid {name}, which its Content-Encoding says it is."
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn unpacked(coding: Coding, packed: &[u8]) -> Result<Vec<u8>, u16> {
        let mut all = Vec::new();
        let taken = coding.unpack(packed, |piece| {
            all.extend_from_slice(piece);
            Ok(())
        });
        taken.map(|()| all).map_err(|error| error.status)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(text).expect("a vector takes all");
        packer.finish().expect("a vector takes all")
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    #[test]
    fn what_was_packed_comes_out() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        assert_eq!(unpacked(Coding::Identity, &text), Ok(text.clone()));
        for (coding, pack) in [(Coding::Gzip, gzip as fn(&[u8]) -> Vec<u8>), (Coding::Zstd, zstd)] {
            assert_eq!(unpacked(coding, &pack(&text)).as_deref(), Ok(&*text));
            let (head, tail) = text.split_at(1000);
            let parts = [pack(head), pack(tail)].concat();
            assert_eq!(unpacked(coding, &parts).as_deref(), Ok(&*text), "{coding:?} in two parts");
            assert_eq!(unpacked(coding, &pack(b"")), Ok(Vec::new()));
        }
    }

    #[test]
    fn what_is_not_whole_or_not_packed_is_refused() {
        for (coding, packed) in [(Coding::Gzip, gzip(b"{\"a\": 1}")), (Coding::Zstd, zstd(b"{}"))] {
            for length in 1..packed.len() {
                assert_eq!(unpacked(coding, &packed[..length]), Err(400), "{coding:?} {length}");
            }
            assert_eq!(unpacked(coding, b"{\"messages\": []}"), Err(400));
            for at in 0..packed.len() {
                let mut bent = packed.clone();
                bent[at] ^= 0x55;
                // Some headers bear it; none may bring the decoder down.
                let _ = unpacked(coding, &bent);
            }
        }
    }

    /// A frame that wants more memory than HTTP allows: its head alone says so.
    #[test]
    fn a_window_of_a_gigabyte_is_refused() {
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0x00, 0x00];
        assert_eq!(unpacked(Coding::Zstd, &head), Err(400));
    }

    #[test]
    fn one_known_coding_is_taken() {
        let of = |values: &[&'static str]| {
            let value =
                |text: &&'static str| (CONTENT_ENCODING, http::HeaderValue::from_static(text));
            let headers = values.iter().map(value).collect();
            Coding::of(&headers).map_err(|error| (error.status, error.message))
        };
        assert_eq!(of(&[]), Ok(Coding::Identity));
        assert_eq!(of(&["identity"]), Ok(Coding::Identity));
        assert_eq!(of(&["GZIP"]), Ok(Coding::Gzip));
        assert_eq!(of(&[" zstd "]), Ok(Coding::Zstd));
        for values in [&["br"][..], &["gzip, zstd"], &["gzip", "gzip"], &["deflate"]] {
            let (status, message) = of(values).expect_err("not taken");
            assert_eq!(status, 415);
            assert!(message.contains("gzip, zstd"), "{message}");
        }
    }
}
