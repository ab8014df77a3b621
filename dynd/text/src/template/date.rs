//! `strftime_now` without a clock: the time is an argument, in UTC.

use std::fmt::Write;

use dynd_core::WallMs;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment in the proleptic Gregorian calendar, UTC.
struct Civil {
    year: i64,
    /// 1..=12
    month: usize,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// 0 = Sunday
    weekday: usize,
    day_of_year: i64,
}

impl Civil {
    fn new(now: WallMs) -> Self {
        let seconds = i64::try_from(now.0 / 1000).unwrap_or(i64::MAX);
        let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Howard Hinnant's civil_from_days: eras of 400 years, years that begin in March.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_march_year =
            day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_march_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day = day_of_march_year - (153 * march_month + 2) / 5 + 1;
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let month = usize::try_from(month).unwrap_or(1).clamp(1, 12);
        Civil {
            year,
            month,
            day,
            hour: time / 3600,
            minute: time / 60 % 60,
            second: time % 60,
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            day_of_year: before[month - 1] + day + i64::from(leap && month > 2),
        }
    }
}

/// Python's `strftime` for the codes that templates use; other codes stay as they are.
pub(super) fn strftime(format: &str, now: WallMs) -> String {
    let civil = Civil::new(now);
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let unpadded = rest.starts_with('-');
        let code = rest[usize::from(unpadded)..].chars().next();
        let Some(written) = code.and_then(|code| field(&civil, code, unpadded)) else {
            out.push('%');
            continue;
        };
        out.push_str(&written);
        rest = &rest[usize::from(unpadded) + 1..];
    }
    out + rest
}

fn field(civil: &Civil, code: char, unpadded: bool) -> Option<String> {
    let number = |value: i64, width: usize| {
        let mut text = String::new();
        let width = if unpadded { 0 } else { width };
        let _ = write!(text, "{value:0width$}");
        text
    };
    let hour12 = (civil.hour + 11) % 12 + 1;
    let (month, day) = (MONTHS[civil.month - 1], DAYS[civil.weekday]);
    Some(match code {
        'Y' => civil.year.to_string(),
        'y' => number(civil.year.rem_euclid(100), 2),
        'm' => number(civil.month as i64, 2),
        'd' => number(civil.day, 2),
        'e' if unpadded => civil.day.to_string(),
        'e' => format!("{:2}", civil.day),
        'H' => number(civil.hour, 2),
        'I' => number(hour12, 2),
        'M' => number(civil.minute, 2),
        'S' => number(civil.second, 2),
        'j' => number(civil.day_of_year, 3),
        'p' => if civil.hour < 12 { "AM" } else { "PM" }.to_owned(),
        'B' => month.to_owned(),
        'b' | 'h' => month[..3].to_owned(),
        'A' => day.to_owned(),
        'a' => day[..3].to_owned(),
        'F' => format!("{}-{:02}-{:02}", civil.year, civil.month, civil.day),
        'T' => format!("{:02}:{:02}:{:02}", civil.hour, civil.minute, civil.second),
        '%' => "%".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from Python's datetime in UTC.
    #[test]
    fn dates_equal_pythons() {
        let all = "%Y-%m-%d %H:%M:%S %a %b %j %I %p %y";
        for (ms, expected) in [
            (0, "1970-01-01 00:00:00 Thu Jan 001 12 AM 70"),
            (951_782_400_000, "2000-02-29 00:00:00 Tue Feb 060 12 AM 00"),
            (1_732_874_399_000, "2024-11-29 09:59:59 Fri Nov 334 09 AM 24"),
            (1_735_689_599_999, "2024-12-31 23:59:59 Tue Dec 366 11 PM 24"),
            (4_107_542_400_000, "2100-03-01 00:00:00 Mon Mar 060 12 AM 00"),
        ] {
            assert_eq!(strftime(all, WallMs(ms)), expected);
        }
        assert_eq!(strftime("%-d %B %-m|%e|%Q|%", WallMs(0)), "1 January 1| 1|%Q|%");
        assert!(!strftime("%Y", WallMs(u64::MAX)).is_empty());
    }
}
