//! Tests of the table of spellings, and of further cases.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Table {
    now: String,
    files: Vec<Spelling>,
    typed: Vec<Spelling>,
    bounds: Vec<Spelling>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelling {
    form: String,
    text: String,
    at: Option<String>,
    #[serde(default)]
    assumes_utc: bool,
    refused: Option<String>,
}

#[test]
fn a_bound_of_an_index_may_be_a_time_of_any_year() {
    let table: Table = serde_json::from_str(include_str!("../../../../tests/support/typed_times.json")).unwrap();
    let typed = TimeReader::at(Timestamp::parse(&table.now).unwrap());
    for Spelling { form, text, at, assumes_utc, refused } in table.bounds {
        match (typed.of_any_year(&text), at, refused) {
            (Ok((read, is_utc_assumed)), Some(at), None) => {
                assert_eq!((read, is_utc_assumed), (at, assumes_utc), "{form}: {text:?}");
            }
            (Err(error), None, Some(part)) => assert!(error.contains(&part), "{form}: {text:?}: {error}"),
            (read, at, refused) => panic!("{form}: {text:?}: {read:?}, expected {at:?} or {refused:?}"),
        }
    }
}

fn file() -> TimeReader {
    TimeReader::default()
}

fn read(reader: &TimeReader, text: &str) -> Result<String, String> {
    reader.text(text).map(|read| read.at.to_string())
}

/// Each spelling is the moment that it means, or is refused with a text that helps.
#[test]
fn every_spelling_of_the_table_is_read_or_refused_with_help() {
    let table: Table = serde_json::from_str(include_str!("../../../../tests/support/typed_times.json")).unwrap();
    let typed = TimeReader::at(Timestamp::parse(&table.now).unwrap());
    for (reader, spellings) in [(file(), table.files), (typed, table.typed)] {
        for Spelling { form, text, at, assumes_utc, refused } in spellings {
            match (reader.text(&text), at, refused) {
                (Ok(read), Some(at), None) => {
                    assert_eq!((read.at.to_string(), read.is_utc_assumed), (at, assumes_utc), "{form}: {text:?}");
                }
                (Err(error), None, Some(part)) => assert!(error.contains(&part), "{form}: {text:?}: {error}"),
                (read, at, refused) => panic!("{form}: {text:?}: {read:?}, expected {at:?} or {refused:?}"),
            }
        }
    }
}

#[test]
fn a_zone_applies_to_texts_without_one() {
    let reader = |zone: &str| TimeReader { zone: Some(Zone::parse(zone).unwrap()), ..file() };
    let india = reader("+05:30");
    let read_at = india.text("2026-11-20 16:44").unwrap();
    assert_eq!((read_at.at.to_string().as_str(), read_at.is_utc_assumed), ("2026-11-20T11:14:00.000000000Z", false));
    assert_eq!(read(&india, "2026-11-20 16:44Z").unwrap(), "2026-11-20T16:44:00.000000000Z");
    assert_eq!(read(&reader("UTC"), "2026-11-20").unwrap(), "2026-11-20T00:00:00.000000000Z");
    for unknown in ["", "Mars/Olympus", "+24:00", "+1", "01:00"] {
        assert!(Zone::parse(unknown).is_err(), "{unknown}");
    }
}

#[test]
fn times_in_clock_changes_are_refused() {
    // Machines without a time zone database have fixed offsets only.
    let Ok(paris) = Zone::parse("Europe/Paris") else { return };
    let reader = TimeReader { zone: Some(paris), ..file() };
    assert_eq!(read(&reader, "2026-07-01 12:00").unwrap(), "2026-07-01T10:00:00.000000000Z");
    assert_eq!(read(&reader, "2026-12-01 12:00").unwrap(), "2026-12-01T11:00:00.000000000Z");
    assert!(read(&reader, "2026-10-25 02:30").unwrap_err().contains("occurs twice in Europe/Paris"));
    assert!(read(&reader, "2026-03-29 02:30").unwrap_err().contains("does not exist in Europe/Paris"));
}

#[test]
fn a_given_format_is_the_only_accepted_form() {
    let reader = |format: &str| TimeReader { format: Some(TimeFormat::parse(format).unwrap()), ..file() };
    for (format, text, at) in [
        ("%m/%d/%Y %H:%M", "11/20/2026 16:44", "2026-11-20T16:44:00.000000000Z"),
        ("%d.%m.%y", "20.11.26", "2026-11-20T00:00:00.000000000Z"),
        ("%d/%m/%Y %I:%M %p", "20/11/2026 04:44 PM", "2026-11-20T16:44:00.000000000Z"),
        ("%Y-%m-%dT%H:%M:%S%.f%z", "2026-11-20T18:44:05.43+0200", "2026-11-20T16:44:05.430000000Z"),
        ("%s", "1795193045", "2026-11-20T16:44:05.000000000Z"),
        ("%s%.f", "1795193045.987654321", "2026-11-20T16:44:05.987654321Z"),
        ("%s.%f", "1795193045.43", "2026-11-20T16:44:05.430000000Z"),
        ("%Y-%m-%d %H:%M %Q", "2026-11-20 16:44 Asia/Tokyo", "2026-11-20T07:44:00.000000000Z"),
        ("%Y-%m-%d %H:%M %:Q", "2026-11-20 16:44 +09:00", "2026-11-20T07:44:00.000000000Z"),
    ] {
        assert_eq!(read(&reader(format), text).as_deref(), Ok(at), "{format}");
        // A row's own zone has precedence.
        let paris = TimeReader { zone: Zone::parse("Europe/Paris").ok(), ..reader(format) };
        assert!(!["%s", "%z", "Q"].iter().any(|zone| format.contains(zone)) || read(&paris, text).as_deref() == Ok(at));
    }
    let twice = reader("%Y-%m-%d %H:%M %Q").text("2026-10-25 02:30 Europe/Paris").unwrap_err();
    assert!(twice.contains("occurs twice in Europe/Paris"), "{twice}");
    let slashed = reader("%m/%d/%Y");
    assert!(slashed.text("11/20/2026").unwrap().is_utc_assumed);
    for refused in ["20/11/2026", "2026-11-20", "11/20/2026 16:44", "", "1795193045430000000"] {
        assert!(read(&slashed, refused).unwrap_err().contains("%m/%d/%Y"), "{refused}");
    }
    assert!(read(&reader("%Y-%m-%d %H:%M:%S"), "2016-12-31 23:59:60").unwrap_err().contains("leap seconds"));
    for bad in ["", "%Q%", "%H:%M", "%Y-%m", "date"] {
        assert!(TimeFormat::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn numbers_have_the_given_unit_with_decimals_up_to_nanoseconds() {
    let of = |unit| TimeReader { unit, ..file() };
    let expected = Ok("2026-11-20T16:44:05.430500000Z".to_owned());
    for (unit, text) in [
        (TimestampUnit::S, "1795193045.4305"),
        (TimestampUnit::Ms, "1795193045430.5"),
        (TimestampUnit::Us, "1795193045430500"),
        (TimestampUnit::Us, "1795193045430500.000"),
        (TimestampUnit::Ns, "1795193045430500000"),
        (TimestampUnit::S, "2026-11-20T16:44:05.4305Z"),
    ] {
        assert_eq!(read(&of(unit), text), expected, "{unit:?} {text}");
        assert_eq!(of(unit).json(&format!("\"{text}\"")).map(|read| read.at.to_string()), expected);
    }
    assert_eq!(of(TimestampUnit::S).json("1795193045.4305").map(|read| read.at.to_string()), expected);
    for (unit, text, part) in [
        (TimestampUnit::S, "1795193045.1234567891", "at most 9 decimals"),
        (TimestampUnit::S, "1.79e9", "may have lost digits: write seconds"),
        (
            TimestampUnit::S,
            "1795193045430",
            "is beyond 2286, read as seconds (--timestamp-unit s), but likely milliseconds",
        ),
        (TimestampUnit::Us, "1795193045430000000", "but likely nanoseconds: pass --timestamp-unit ns"),
        (TimestampUnit::Ms, "-1", "0 to 9999999999999 milliseconds since the Unix epoch (--timestamp-unit ms)"),
        (TimestampUnit::Ms, "99999999999999999999", "0 to 9999999999999 milliseconds"),
        (TimestampUnit::Ms, "soon", "milliseconds since the Unix epoch (--timestamp-unit ms)"),
    ] {
        let error = read(&of(unit), text).unwrap_err();
        assert!(error.contains(part), "{unit:?} {text}: {error}");
    }
    for raw in ["true", "null", "[1]", "{}"] {
        assert!(file().json(raw).unwrap_err().contains("a string or a number"), "{raw}");
    }
}

#[test]
fn numbers_near_1970_are_reported_in_the_given_unit() {
    use TimestampUnit::{Ms, Ns, S, Us};
    let likely = |unit: TimestampUnit, text: &str| {
        let at = TimeReader { unit, ..file() }.text(text).unwrap().at;
        unit.likely(at)
    };
    for (unit, number, expected) in [
        (Ns, "1795193045", Some(S)),
        (Us, "1795193045", Some(S)),
        (Ms, "1795193045", Some(S)),
        (Ns, "1795193045430", Some(Ms)),
        (Us, "1795193045430", Some(Ms)),
        (Ns, "1795193045430000", Some(Us)),
        (Ns, "1795193045430000000", None),
        (Us, "1795193045430000", None),
        (Ms, "1795193045430", None),
        (S, "1795193045", None),
        (Ms, "0", None),
        (Ns, "2026-11-20T16:44:05Z", None),
    ] {
        assert_eq!(likely(unit, number), expected, "{unit:?} {number}");
    }
    assert!(Ms.doubt(S).contains("--timestamp-unit ms), but likely seconds"));
}
