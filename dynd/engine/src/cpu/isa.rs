//! Which instruction set the kernels use.
//!
//! All paths give the same bits, so the choice is about speed alone and no result names it.

use std::fmt;

/// A kernel path. Naming a path that this CPU lacks is safe: it computes with [`Isa::usable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512Vnni,
    /// AVX2, FMA and F16C.
    Avx2,
    /// Plain Rust, for any CPU.
    Portable,
}

impl Isa {
    pub const ALL: [Isa; 3] = [Isa::Avx512Vnni, Isa::Avx2, Isa::Portable];

    /// The fastest path of this CPU.
    pub fn detect() -> Isa {
        Self::ALL.into_iter().find(|isa| isa.supported()).unwrap_or(Isa::Portable)
    }

    /// Reads a name as [`Isa::name`] prints it.
    pub fn parse(name: &str) -> Option<Isa> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512Vnni => "avx512-vnni",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }

    /// Whether this CPU has the path's instructions.
    pub fn supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vnni")
                    && Isa::Avx2.supported()
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512Vnni | Isa::Avx2 => false,
            Isa::Portable => true,
        }
    }

    /// Itself where this CPU supports it, else the portable path.
    pub fn usable(self) -> Isa {
        if self.supported() { self } else { Isa::Portable }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_detection_names_a_supported_path() {
        for isa in Isa::ALL {
            assert_eq!(Isa::parse(isa.name()), Some(isa));
            assert!(isa.usable().supported());
        }
        assert_eq!(Isa::parse("sse9"), None);
        assert!(Isa::detect().supported());
    }
}
