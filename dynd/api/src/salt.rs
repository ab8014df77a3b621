//! What a request's salt parts: what is cached, and whose sessions these are. Requests with
//! different salts share neither blocks nor sessions, transcripts or kept conversations.

use dynd_core::Domain;
use dynd_session::Tenant;
use sha2::{Digest, Sha256};

use crate::Serving;

/// Bytes of a salt's digest that name its tenant.
const NAME_BYTES: usize = 8;

/// What block ids of a request with this salt are made with.
pub(crate) fn domain_of(serving: &Serving, salt: Option<&str>) -> Domain {
    match salt {
        None | Some("") => serving.domain,
        Some(salt) => serving.domain.salted(salt.as_bytes()),
    }
}

/// Whose sessions the requests with this salt belong to. Goes by a digest: a salt may be a secret,
/// and tenants are shown.
pub(crate) fn tenant_of(salt: Option<&str>) -> Tenant {
    let Some(salt) = salt.filter(|salt| !salt.is_empty()) else { return Tenant::default() };
    let digest = Sha256::digest(salt);
    let name: String = digest[..NAME_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    Tenant(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_tells_salts_apart_and_does_not_show_them() {
        assert_eq!(tenant_of(None), Tenant::default());
        assert_eq!(tenant_of(Some("")), Tenant::default());
        assert_ne!(tenant_of(Some("secret")), tenant_of(Some("other")));
        assert!(!tenant_of(Some("secret")).0.contains("secret"));
    }
}
