//! The models as `GET /v1/models` lists them: the fields that each family of clients reads, side by
//! side in one object.

use serde_json::{Value, json};

/// What a client may know of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    pub id: String,
    pub owned_by: String,
    /// Seconds since the Unix epoch.
    pub created_s: u64,
    /// Tokens of prompt and answer together.
    pub context_tokens: u32,
}

/// The list, at most `limit` of it.
pub fn models_body(cards: &[ModelCard], limit: Option<usize>) -> String {
    let shown = &cards[..limit.unwrap_or(cards.len()).min(cards.len())];
    json!({
        "object": "list",
        "data": shown.iter().map(describe).collect::<Vec<_>>(),
        "has_more": shown.len() < cards.len(),
        "first_id": shown.first().map(|card| &card.id),
        "last_id": shown.last().map(|card| &card.id),
    })
    .to_string()
}

pub fn model_body(card: &ModelCard) -> String {
    describe(card).to_string()
}

fn describe(card: &ModelCard) -> Value {
    json!({
        "id": card.id,
        "object": "model",
        "created": card.created_s,
        "owned_by": card.owned_by,
        "context_length": card.context_tokens,
        "max_model_len": card.context_tokens,
        "type": "model",
        "display_name": card.id,
        "created_at": rfc3339(card.created_s),
        "lifecycle": "active",
        "max_input_tokens": card.context_tokens,
        "max_tokens": card.context_tokens,
    })
}

/// A time as `2026-11-29T18:31:00Z`.
fn rfc3339(unix_s: u64) -> String {
    let unix_s = unix_s.min(LAST_SECOND);
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Counted in years that begin in March, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// The format has four digits for a year.
const LAST_SECOND: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(unix_s), text);
        }
    }

    #[test]
    fn a_list_says_whether_there_is_more() {
        let card = |id: &str| ModelCard {
            id: id.to_owned(),
            owned_by: "dynd".to_owned(),
            created_s: 0,
            context_tokens: 2048,
        };
        let cards = [card("MiniMaxAI/MiniMax-M2.5"), card("b")];
        let list =
            |limit| -> Value { serde_json::from_str(&models_body(&cards, limit)).expect("JSON") };
        let all = list(Some(1000));
        assert_eq!(all["data"].as_array().map(Vec::len), Some(2));
        assert_eq!((&all["has_more"], &all["last_id"]), (&json!(false), &json!("b")));
        let one = list(Some(1));
        assert_eq!(one["has_more"], true);
        assert_eq!(one["first_id"], one["last_id"]);
        assert_eq!(list(Some(0))["first_id"], Value::Null);
        let model: Value = serde_json::from_str(&model_body(&cards[0])).expect("JSON");
        assert_eq!(model, all["data"][0]);
        assert_eq!(
            model,
            json!({
                "id": "MiniMaxAI/MiniMax-M2.5", "object": "model", "created": 0, "owned_by": "dynd",
                "context_length": 2048, "max_model_len": 2048, "type": "model",
                "display_name": "MiniMaxAI/MiniMax-M2.5", "created_at": "1970-01-01T00:00:00Z",
                "lifecycle": "active", "max_input_tokens": 2048, "max_tokens": 2048,
            })
        );
    }
}
