//! What must hold for any request body whatever: also the body of the fuzz targets.

use std::sync::LazyLock;

use dynd_protocol::{
    ApiError, Encoder, Endpoint, Notice, Prompt, Request, ResponseHead, Sealer, canonical_chain,
    chat_form,
};
use serde_json::Value;

/// Made once: the key takes longer than a body.
static SEALER: LazyLock<Sealer> = LazyLock::new(|| Sealer::new([0; 32]));

/// A file of the corpora may hold the body beside what is expected of it.
pub(crate) fn check(
    data: &[u8],
    endpoint: Endpoint,
    decode: impl Fn(&[u8]) -> Result<(Request, Vec<Notice>), ApiError>,
) {
    let case: Option<Value> = serde_json::from_slice(data).ok();
    let body =
        case.and_then(|case| Some(case.get("body").filter(|body| body.is_object())?.to_string()));
    let data = body.as_deref().map_or(data, str::as_bytes);
    match decode(data) {
        Ok((request, notices)) => {
            notices.iter().for_each(is_plain);
            is_usable(&request);
            is_spelled_otherwise(data, &request, &decode);
        }
        Err(error) => is_told(&error, endpoint),
    }
}

fn is_plain(notice: &Notice) {
    let text = notice.to_string();
    assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "no header: {text:?}");
}

/// The rest of the way finds nothing that it cannot deal with.
fn is_usable(request: &Request) {
    if let Prompt::Chat(chat) = &request.prompt {
        assert_eq!(canonical_chain(request).len(), chat.messages.len());
        for message in &chat.messages {
            chat_form(message);
        }
        for tool in &chat.tools {
            assert!(tool.definition.is_object(), "{tool:?}");
        }
    }
    assert!(request.n > 0);
    let head = ResponseHead {
        id: "0".to_owned(),
        created_s: 0,
        model: request.model.clone(),
        sealer: SEALER.clone(),
    };
    let encoder = Encoder::new(request, head);
    let body = encoder.body(&dynd_protocol::Answer::default());
    serde_json::from_slice::<Value>(&body).expect("an answer is JSON");
}

/// White space and escapes between the values of a body mean nothing.
fn is_spelled_otherwise(
    data: &[u8],
    request: &Request,
    decode: &impl Fn(&[u8]) -> Result<(Request, Vec<Notice>), ApiError>,
) {
    // Not read: halves of surrogate pairs, which the decoders replace.
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let (again, _) = decode(format!("{value:#}").as_bytes()).expect("the same body");
    assert_eq!(again.prompt, request.prompt);
    assert_eq!(
        (again.model, again.n, again.stop),
        (request.model.clone(), request.n, request.stop.clone())
    );
}

fn is_told(error: &ApiError, endpoint: Endpoint) {
    assert!((400..500).contains(&error.status), "{error:?}");
    let body = error.body_for(endpoint, "req_1");
    let body: Value = serde_json::from_str(&body).expect("an error body is JSON");
    assert!(body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
}
