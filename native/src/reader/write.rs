//! Numbers, times and money as the record has them.

/// Decimals of the unit that prices are computed in (`gateway.usage.pricing.rates`).
const DECIMALS: usize = 15;
const HEX: &[u8; 16] = b"0123456789abcdef";
const MS_PER_DAY: i64 = 86_400_000;

pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

pub fn number(out: &mut Vec<u8>, value: i128) {
    match u64::try_from(value) {
        Ok(value) => digits(out, value),
        Err(_) => out.extend_from_slice(value.to_string().as_bytes()),
    }
}

fn digits(out: &mut Vec<u8>, mut value: u64) {
    let mut text = [0u8; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}

/// *total* of 1e-15 units as a decimal, without exponent or idle zeros; false where it is negative.
pub fn money(out: &mut Vec<u8>, total: i128) -> bool {
    if total < 0 {
        return false;
    }
    let unit = 10i128.pow(DECIMALS as u32);
    let (whole, part) = (total / unit, total % unit);
    number(out, whole);
    if part == 0 {
        return true;
    }
    let mut text = [b'0'; DECIMALS];
    let (mut rest, mut at) = (part as u64, DECIMALS);
    while rest > 0 {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let end = text
        .iter()
        .rposition(|digit| *digit != b'0')
        .map_or(0, |last| last + 1);
    out.push(b'.');
    out.extend_from_slice(&text[..end]);
    true
}

/// *ms* since the epoch as RFC 3339 UTC with milliseconds; false outside the years 1 to 9999.
pub fn time(out: &mut Vec<u8>, ms: i128) -> bool {
    let Ok(ms) = i64::try_from(ms) else {
        return false;
    };
    let (day, in_day) = (ms.div_euclid(MS_PER_DAY), ms.rem_euclid(MS_PER_DAY));
    let (year, month, day) = civil(day);
    if !(1..=9999).contains(&year) {
        return false;
    }
    let seconds = in_day / 1000;
    padded(out, year, 4);
    for (before, value) in [
        (b'-', month),
        (b'-', day),
        (b'T', seconds / 3600),
        (b':', seconds / 60 % 60),
        (b':', seconds % 60),
    ] {
        out.push(before);
        padded(out, value, 2);
    }
    out.push(b'.');
    padded(out, in_day % 1000, 3);
    out.push(b'Z');
    true
}

fn padded(out: &mut Vec<u8>, value: i64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (value / 10i64.pow(place) % 10) as u8);
    }
}

/// Year, month and day of a day since the epoch (Howard Hinnant, "chrono-compatible low-level date
/// algorithms", civil_from_days).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl Fn(&mut Vec<u8>) -> bool) -> String {
        let mut out = Vec::new();
        assert!(write(&mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(shown(|out| time(out, 0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            shown(|out| time(out, 951_782_400_001)),
            "2000-02-29T00:00:00.001Z"
        );
        assert_eq!(
            shown(|out| time(out, 4_102_444_799_999)),
            "2099-12-31T23:59:59.999Z"
        );
    }

    #[test]
    fn money_has_no_idle_zeros() {
        assert_eq!(shown(|out| money(out, 0)), "0");
        assert_eq!(shown(|out| money(out, 1_500_000_000_000_000)), "1.5");
        assert_eq!(shown(|out| money(out, 75_000_000)), "0.000000075");
        assert_eq!(shown(|out| money(out, 1)), "0.000000000000001");
    }
}
