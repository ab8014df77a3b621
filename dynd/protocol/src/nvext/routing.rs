//! Headers that say the same as hints in the body. A header wins; a malformed one leaves what the
//! body says.

use std::collections::BTreeMap;

use super::outcome::HintResult;
use super::reader::Reader;

/// Which worker and rank a request would like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pins {
    pub backend_instance_id: Option<u64>,
    pub prefill_worker_id: Option<u64>,
    pub decode_worker_id: Option<u64>,
    pub dp_rank: Option<u32>,
    pub prefill_dp_rank: Option<u32>,
}

/// Entries and bytes of the `x-dynamo-meta-` headers of one request.
const METADATA_MAX: usize = 64;
const METADATA_BYTES_MAX: usize = 64 * 1024;
const METADATA_PREFIX: &str = "x-dynamo-meta-";

/// Each hint with the headers that say it; of several the first counts.
const NUMBERS: [(&str, &[&str]); 6] = [
    ("agent_hints.priority", &["x-dynamo-request-priority"]),
    ("agent_hints.strict_priority", &["x-dynamo-request-strict-priority"]),
    ("backend_instance_id", &["x-dynamo-worker-instance-id", "x-worker-instance-id"]),
    ("prefill_worker_id", &["x-dynamo-prefill-instance-id", "x-prefill-instance-id"]),
    ("dp_rank", &["x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank"]),
    ("prefill_dp_rank", &["x-dynamo-prefill-dp-rank", "x-prefill-dp-rank"]),
];

/// What the headers of one request say.
#[derive(Debug, Default)]
pub(super) struct RoutingHeaders {
    numbers: [Option<(&'static str, String)>; NUMBERS.len()],
    pub(super) tenant: Option<String>,
    pub(super) metadata: BTreeMap<String, String>,
    is_cut: bool,
}

impl RoutingHeaders {
    pub(super) fn read<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut read = RoutingHeaders::default();
        let mut bytes = 0;
        // The rank of the alias a value came from: an earlier alias wins over a later one.
        let mut ranks = [usize::MAX; NUMBERS.len()];
        for (name, value) in headers {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            if name.eq_ignore_ascii_case("x-tenant-id") {
                read.tenant = Some(value.to_owned());
            }
            for (at, (_, aliases)) in NUMBERS.iter().enumerate() {
                let rank = aliases.iter().position(|alias| alias.eq_ignore_ascii_case(name));
                if let Some(rank) = rank.filter(|rank| *rank < ranks[at]) {
                    ranks[at] = rank;
                    read.numbers[at] = Some((aliases[rank], value.to_owned()));
                }
            }
            if let Some(key) = metadata_key(name, value)
                && !read.metadata.contains_key(&key)
            {
                bytes += key.len() + value.len();
                if read.metadata.len() < METADATA_MAX && bytes <= METADATA_BYTES_MAX {
                    read.metadata.insert(key, value.to_owned());
                } else {
                    read.is_cut = true;
                }
            }
        }
        read
    }

    /// The number of a header for hint `name`; one that is none is told, and the body counts.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        name: &str,
        reader: &mut Reader,
    ) -> Option<T> {
        let at = NUMBERS.iter().position(|(known, _)| *known == name)?;
        let (header, value) = self.numbers[at].as_ref()?;
        let number = value.parse().ok();
        if number.is_none() {
            reader.tell(header, HintResult::Rejected, "not a whole number");
        }
        number
    }

    pub(super) fn tell_cut(&self, reader: &mut Reader) {
        if self.is_cut {
            let most = format!("{} kept", self.metadata.len());
            reader.tell("x-dynamo-meta", HintResult::Clipped, most);
        }
    }
}

/// The key of a metadata header; none for what might be a credential.
fn metadata_key(name: &str, value: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let key = name.strip_prefix(METADATA_PREFIX).filter(|key| !key.is_empty())?;
    let is_secret =
        key == "authorization" || value.get(..7).is_some_and(|w| w.eq_ignore_ascii_case("bearer "));
    (!is_secret).then(|| key.to_owned())
}

/// The pins, each from its header or the body.
pub(super) fn pins(headers: &RoutingHeaders, reader: &mut Reader) -> Pins {
    let mut id = |name: &str| -> (Option<u64>, Option<u64>) {
        let from_header = headers.number(name, reader);
        if from_header.is_some() {
            reader.take(name);
            reader.took(name);
        }
        (from_header, from_header.or_else(|| reader.id(name)))
    };
    // One header names the worker of two fields.
    let (worker_header, backend_instance_id) = id("backend_instance_id");
    let (_, decode_worker_id) = id("decode_worker_id");
    let (_, prefill_worker_id) = id("prefill_worker_id");
    let mut rank = |name: &str| id(name).1.and_then(|rank| u32::try_from(rank).ok());
    Pins {
        backend_instance_id,
        prefill_worker_id,
        decode_worker_id: worker_header.or(decode_worker_id),
        dp_rank: rank("dp_rank"),
        // The largest number is how Dynamo spells none.
        prefill_dp_rank: rank("prefill_dp_rank").filter(|rank| *rank != u32::MAX),
    }
}
