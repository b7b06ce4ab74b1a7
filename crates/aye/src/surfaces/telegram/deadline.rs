//! The time left for a request, in words that are kept up to date by edits: the nearer the end, the finer.

use jiff::SignedDuration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// From this many seconds on, the words count in steps of that many seconds.
const STEPS: [(i64, i64); 5] =
    [(2 * DAY, DAY), (3 * HOUR, HOUR), (HOUR, 10 * MINUTE), (15 * MINUTE, 5 * MINUTE), (MINUTE, MINUTE)];

/// The time left in words, and the time until the words may change.
pub fn time_left(left: SignedDuration) -> (String, SignedDuration) {
    let seconds = left.as_secs().max(0);
    let Some((from, step)) = STEPS.into_iter().find(|(from, _)| seconds >= *from) else {
        return ("less than 1 min left".to_owned(), SignedDuration::from_secs(seconds + 1));
    };
    let rounded = (seconds + step / 2) / step * step;
    let until = (rounded - step / 2).max(from);
    (format!("{} left", in_words(rounded)), SignedDuration::from_secs(seconds - until + 1))
}

fn in_words(seconds: i64) -> String {
    let parts = [(seconds / DAY, "d"), (seconds % DAY / HOUR, "h"), (seconds % HOUR / MINUTE, "min")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, unit)| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(seconds: i64) -> String {
        time_left(SignedDuration::from_secs(seconds)).0
    }

    #[test]
    fn the_words_are_near_what_is_left() {
        let cases = [
            (3 * DAY, "3 d left"),
            (5 * HOUR + 100, "5 h left"),
            (2 * HOUR - 1, "2 h left"),
            (80 * MINUTE, "1 h 20 min left"),
            (HOUR - 1, "1 h left"),
            (43 * MINUTE, "45 min left"),
            (12 * MINUTE + 10, "12 min left"),
            (MINUTE, "1 min left"),
            (MINUTE - 1, "less than 1 min left"),
            (-5, "less than 1 min left"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(words(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn the_words_stay_true_until_they_are_looked_at_again() {
        for seconds in 0..(3 * DAY) {
            let (words, next) = time_left(SignedDuration::from_secs(seconds));
            assert!(next.is_positive());
            // One second before it is due, it still says the same.
            let last = seconds - next.as_secs() + 1;
            assert_eq!(time_left(SignedDuration::from_secs(last.max(0))).0, words, "{seconds}");
        }
    }
}
