//! Numbers as people read them in a table. What was not measured is `–`, never 0.

pub(crate) const UNKNOWN: &str = "–";

/// `950`, `12.3k`, `4.5M`.
pub(crate) fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..999_950 => format!("{:.1}k", number as f64 / 1e3),
        999_950..999_950_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

/// `87.5%`; whole only when exact, so that 100% means all.
pub(crate) fn share(share: f64) -> String {
    if share == 0.0 || share == 1.0 {
        format!("{:.0}%", share * 100.0)
    } else {
        format!("{:.1}%", (share * 100.0).clamp(0.1, 99.9))
    }
}

/// `0.4ms`, `85ms`, `1.25s`, `2m05s`.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms < 9.95 {
        format!("{ms:.1}ms")
    } else if ms < 999.5 {
        format!("{ms:.0}ms")
    } else if ms < 59_995.0 {
        format!("{:.2}s", ms / 1e3)
    } else {
        let seconds = (ms / 1e3).round() as u64;
        format!("{}m{:02}s", seconds / 60, seconds % 60)
    }
}

/// Time since `then_ms`: `now`, `42s`, `3m`, `2h`, `5d`.
pub(crate) fn age(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) / 1000 {
        0 => "now".to_owned(),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// `640 B`, `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1023.95 {
            let digits = usize::from(unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

pub(crate) fn or_unknown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), show)
}

/// How many tokens of an output came of each step that was computed for it.
pub(crate) fn tokens_per_step(output: u64, guessed: u64) -> Option<f64> {
    let steps = output.checked_sub(guessed).filter(|steps| *steps > 0)?;
    Some(output as f64 / steps as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well_and_stay_narrow() {
        for (number, text) in [
            (0, "0"),
            (9_999, "9999"),
            (10_000, "10.0k"),
            (999_949, "999.9k"),
            (999_950, "1.0M"),
            (999_949_999, "999.9M"),
            (2_500_000_000, "2.5G"),
        ] {
            assert_eq!(count(number), text);
        }
        for (part, text) in
            [(0.0, "0%"), (1.0, "100%"), (0.875, "87.5%"), (0.9999, "99.9%"), (0.0001, "0.1%")]
        {
            assert_eq!(share(part), text);
        }
        for (ms, text) in [
            (0.42, "0.4ms"),
            (9.96, "10ms"),
            (999.4, "999ms"),
            (999.6, "1.00s"),
            (1250.0, "1.25s"),
            (59_996.0, "1m00s"),
            (125_000.0, "2m05s"),
        ] {
            assert_eq!(milliseconds(ms), text);
        }
        for (then_ms, text) in [(99_500, "now"), (58_000, "42s"), (0, "1m"), (200_000, "now")] {
            assert_eq!(age(100_000, then_ms), text, "a clock that went back is no surprise");
        }
        assert_eq!((age(7_200_000, 0), age(432_000_000, 0)), ("2h".into(), "5d".into()));
        assert_eq!((bytes(640), bytes(3 << 19)), ("640 B".into(), "1.5 MiB".into()));
        assert_eq!(bytes((1 << 30) - 1), "1.0 GiB");
        assert_eq!(or_unknown(None, count), "–");
    }
}
