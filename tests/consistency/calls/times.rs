//! Times as the API reads and writes them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::history::NANOS_PER_SEC;

/// A timestamp in one of the API's forms, in turn.
pub fn timestamp_json(nanos: u64) -> String {
    match nanos % 3 {
        0 => nanos.to_string(),
        1 => format!("\"{nanos}\""),
        _ => format!("\"{}\"", rfc3339(nanos)),
    }
}

pub fn rfc3339(nanos: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(nanos)).expect("within the years of RFC 3339");
    moment.format(&Rfc3339).expect("a moment in UTC")
}

/// A timestamp as the API writes it.
pub fn nanos(timestamp: &str) -> Result<u64, Box<dyn std::error::Error>> {
    if timestamp.len() != "2024-08-29T16:44:05.430000000Z".len() || !timestamp.ends_with('Z') {
        return Err(format!("{timestamp} does not have nine decimals in UTC").into());
    }
    Ok(u64::try_from(OffsetDateTime::parse(timestamp, &Rfc3339)?.unix_timestamp_nanos())?)
}

/// The seconds of a TTL as the API writes it.
pub fn ttl_secs(text: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let (mut secs, mut number) = (0, String::new());
    for character in text.chars() {
        let unit = match character {
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            digit => {
                number.push(digit);
                continue;
            }
        };
        secs += number.parse::<u64>()? * unit;
        number.clear();
    }
    if number.is_empty() && secs < NANOS_PER_SEC { Ok(secs) } else { Err(format!("no ttl: {text}").into()) }
}
