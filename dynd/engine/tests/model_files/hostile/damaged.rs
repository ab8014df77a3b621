//! Good files, cut off anywhere and with any bits flipped.

use proptest::prelude::*;

use super::{open_gguf, refused, touch};
use crate::gguf_file as g;

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let file = g::small_llama();
    let (header, bytes) = (file.header().len(), file.build());
    for length in 0..header + 64 {
        open_gguf(&bytes[..length]).map(|model| model.spec().clone()).unwrap_err();
    }
    let data = header.next_multiple_of(32);
    let mut end = data;
    for tensor in &file.tensors {
        for cut in [end, end + 1, end + tensor.data.len() - 1] {
            refused(&bytes[..cut], "is damaged or incomplete");
        }
        end += tensor.data.len().next_multiple_of(32);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn flipped_bits_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4)) {
        let file = g::small_llama();
        let header = file.header().len();
        let mut bytes = file.build();
        for (place, bit) in flips {
            // Most of the file is data, where any bit is as good as another.
            bytes[place.index(header)] ^= 1 << bit;
        }
        if let Ok(model) = open_gguf(&bytes) {
            touch(&model);
        }
    }

    #[test]
    fn overwritten_numbers_never_panic(
        place in any::<prop::sample::Index>(),
        number in prop_oneof![
            any::<u64>(),
            Just(u64::MAX),
            Just(0),
            (0u32..64).prop_map(|shift| 1 << shift),
            (0u32..64).prop_map(|shift| (1u64 << shift).wrapping_neg()),
        ],
        width in prop_oneof![Just(4usize), Just(8)],
    ) {
        let file = g::small_llama();
        let place = place.index(file.header().len() - 8);
        let mut bytes = file.build();
        bytes[place..place + width].copy_from_slice(&number.to_le_bytes()[..width]);
        if let Ok(model) = open_gguf(&bytes) {
            touch(&model);
        }
    }

    #[test]
    fn random_bytes_behind_the_magic_number_never_panic(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        let bytes = [b"GGUF\x03\0\0\0".as_slice(), &tail].concat();
        prop_assert!(open_gguf(&bytes).is_err());
    }
}
