//! Numbers as they are written in JSON, compared digit by digit.

use serde_json::Number;

/// Whether this number is the same after it was read and written again: an integer of 64 bits, or one that a float
/// holds and writes with the same digits.
pub fn is_kept(written: &str) -> bool {
    if written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok() {
        return true;
    }
    let read = written.parse().ok().and_then(Number::from_f64);
    read.is_some_and(|read| {
        let ours = read.to_string();
        let (theirs, ours) = (Decimal::read(written), Decimal::read(&ours));
        theirs.is_some() && theirs == ours
    })
}

/// `0.digits` times ten to the power of `exponent`, without zeros at either end; zero has no digits and no sign.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn read(written: &str) -> Option<Self> {
        let (negative, rest) = match written.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, written),
        };
        let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let leading = i64::try_from(all.len() - digits.len()).ok()?;
        let exponent = i64::try_from(whole.len()).ok()?.checked_sub(leading)?;
        let exponent = exponent.checked_add(power.parse::<i64>().ok()?)?;
        Some(Self { negative, digits: digits.trim_end_matches('0').to_owned(), exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number without an exponent, and without zeros that say nothing: another way to the same end.
    fn plain(written: &str) -> String {
        let (sign, rest) = written.strip_prefix('-').map_or(("", written), |rest| ("-", rest));
        let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let power: i32 = power.parse().unwrap();
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let zeros = "0".repeat(power.unsigned_abs() as usize);
        let (whole, fraction) = match power < 0 {
            true => {
                let all = format!("{zeros}{whole}");
                let (whole, moved) = all.split_at(all.len() - zeros.len());
                (whole.to_owned(), format!("{moved}{fraction}"))
            }
            false => {
                let all = format!("{fraction}{zeros}");
                let (moved, fraction) = all.split_at(zeros.len());
                (format!("{whole}{moved}"), fraction.to_owned())
            }
        };
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if whole.is_empty() && fraction.is_empty() { "0".into() } else { format!("{sign}{whole}.{fraction}") }
    }

    fn written() -> impl Strategy<Value = String> {
        let whole = prop_oneof!["0", "[1-9][0-9]{0,30}"];
        let fraction = prop_oneof![Just(String::new()), "\\.[0-9]{1,25}"];
        let power = prop_oneof![Just(String::new()), "[eE][+-]?[0-9]{1,2}"];
        ("-?", whole, fraction, power)
            .prop_map(|(sign, whole, fraction, power)| sign + &whole + &fraction + &power)
    }

    proptest! {
        /// What a person is shown, and what is signed for, is what was written, to the last digit; or it is refused.
        #[test]
        fn a_number_is_read_to_its_last_digit_or_not_at_all(number in written()) {
            if let Ok(read) = crate::json::parse(number.as_bytes()) {
                prop_assert_eq!(plain(&read.to_string()), plain(&number));
                prop_assert_eq!(plain(&crate::digest::canonical(&read)), plain(&number));
            }
        }

        /// Whatever a program writes that has the number as a float or as an integer of 64 bits is taken.
        #[test]
        fn what_a_float_or_an_integer_writes_is_kept(float in any::<f64>(), integer in any::<i64>(), natural in any::<u64>()) {
            if let Some(number) = Number::from_f64(float) {
                prop_assert!(is_kept(&number.to_string()));
                prop_assert!(is_kept(ryu_js::Buffer::new().format(float)));
            }
            prop_assert!(is_kept(&integer.to_string()) && is_kept(&natural.to_string()));
        }
    }
}
