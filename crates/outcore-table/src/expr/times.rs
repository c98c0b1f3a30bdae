//! The functions of dates and times.
//!
//! Contract: times are computed in UTC, in microseconds, or in nanoseconds if a column has them.
//! Widths, units and formats must be literals. Buckets of days or less start at Monday, 3 January
//! 2000, and buckets of months at 1 January 2000; a third argument sets another origin. Formats are
//! those of C, with `%f` for microseconds.

use std::fmt::Write;
use std::sync::Arc;

use arrow_arith::temporal::{DatePart, date_part};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, LargeStringArray, PrimitiveArray};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{DateTime, Datelike, NaiveDateTime, NaiveTime};
use outcore::key::expr::Function;
use outcore_io::Result;

use super::texts::as_text;
use super::value::{Value, cast, failed, in_utc, is_text, numbers_of, rows_of};
use super::wrong;
use crate::notation::notation;

const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY_NS: i64 = 86_400_000_000_000;
/// 3 January 2000, a Monday, and 1 January 2000, in seconds since 1970.
const MONDAY_S: i64 = 946_857_600;
const NEW_YEAR_S: i64 = 946_684_800;
/// Units of times: months, days, nanoseconds.
const UNITS: [(&str, i32, i32, i64); 10] = [
    ("millennium", 12_000, 0, 0),
    ("decade", 120, 0, 0),
    ("year", 12, 0, 0),
    ("quarter", 3, 0, 0),
    ("month", 1, 0, 0),
    ("week", 0, 7, 0),
    ("day", 0, 1, 0),
    ("hour", 0, 0, 3_600_000_000_000),
    ("minute", 0, 0, 60_000_000_000),
    ("second", 0, 0, 1_000_000_000),
];

/// Applies `function`, one of this file's, to `values`.
pub(super) fn call(function: Function, values: &[Value]) -> Result<Value> {
    match function {
        Function::TimeBucket => {
            let width = interval_of(&values[0])?;
            let buckets = Buckets::of(width, values.get(2))?;
            buckets.starts(&values[1])
        }
        Function::DateTrunc => {
            Buckets::of(unit_of(function, &values[0])?, None)?.starts(&values[1])
        }
        Function::DateDiff => {
            let buckets = Buckets::of(unit_of(function, &values[0])?, None)?;
            buckets.between(&values[1], &values[2])
        }
        Function::Epoch => seconds(&values[0]),
        Function::Strftime => written(function, values),
        Function::Strptime | Function::TryStrptime => read(function, values),
        _ => part_of(function, &values[0]),
    }
}

fn part_of(function: Function, value: &Value) -> Result<Value> {
    let part = match function {
        Function::Year => DatePart::Year,
        Function::Quarter => DatePart::Quarter,
        Function::Month => DatePart::Month,
        Function::Week => DatePart::Week,
        Function::Day => DatePart::Day,
        Function::Yearday => DatePart::DayOfYear,
        Function::Weekday => DatePart::DayOfWeekMonday0,
        Function::Hour => DatePart::Hour,
        Function::Minute => DatePart::Minute,
        _ => DatePart::Second,
    };
    let value = match is_text(value.data_type()) {
        true => value.cast(&NANOSECONDS)?,
        false => in_utc(value.clone())?,
    };
    let made = date_part(&value.array, part).map_err(|error| failed(&error))?;
    Ok(Value::computed(made, value.is_scalar))
}

/// Converts a date or time to a timestamp without a zone, in nanoseconds if it has them.
fn timestamps(value: &Value) -> Result<Value> {
    let value = in_utc(value.clone())?;
    let kind = match value.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => return Ok(value),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null => {
            MICROSECONDS
        }
        kind if is_text(kind) => MICROSECONDS,
        kind => {
            let kind = notation(kind);
            return Err(wrong(format!("expected a date or a time, found {kind}"))
                .hint("convert it with timestamp(...) or strptime(..., '%Y-%m-%d')"));
        }
    };
    value.cast(&kind)
}

/// Ticks of a timestamp per second.
fn ticks(kind: &DataType) -> i64 {
    match kind {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1_000_000_000,
        _ => 1_000_000,
    }
}

/// The stored integers of a timestamp.
fn stored(value: &Value) -> Result<Value> {
    value.cast(&DataType::Int64)
}

/// A text that is the same for all rows.
fn literal(function: Function, value: &Value, what: &str) -> Result<String> {
    let text = as_text(function, value)?;
    match text.is_scalar && text.array.is_valid(0) {
        true => Ok(text.array.as_string::<i64>().value(0).to_owned()),
        false => Err(wrong(format!(
            "the {what} of `{}` must be the same for all rows",
            function.name()
        ))
        .hint("write it in quotes")),
    }
}

fn interval_of(value: &Value) -> Result<IntervalMonthDayNano> {
    if matches!(
        value.data_type(),
        DataType::Timestamp(..) | DataType::Date32
    ) {
        let cause = "the width of a bucket comes first, and then the time";
        return Err(wrong(cause).hint("write for example time_bucket('15 minutes', t)"));
    }
    let value = value.cast(&INTERVAL)?;
    match value.is_scalar && value.array.is_valid(0) {
        true => Ok(value
            .array
            .as_primitive::<IntervalMonthDayNanoType>()
            .value(0)),
        false => Err(wrong("the width of a bucket must be the same for all rows")
            .hint("write for example time_bucket('15 minutes', t)")),
    }
}

fn unit_of(function: Function, value: &Value) -> Result<IntervalMonthDayNano> {
    let name = literal(function, value, "unit")?.to_lowercase();
    let known = |unit: &&(&str, i32, i32, i64)| unit.0 == name.trim_end_matches('s');
    match UNITS.iter().find(known) {
        Some((_, months, days, nanoseconds)) => {
            Ok(IntervalMonthDayNano::new(*months, *days, *nanoseconds))
        }
        None => {
            let units: Vec<&str> = UNITS.iter().map(|unit| unit.0).collect();
            Err(wrong(format!("there is no unit `{name}`"))
                .hint(format!("units are {}", units.join(", "))))
        }
    }
}

/// Periods of equal length.
struct Buckets {
    width: Width,
    /// Microseconds since 1970.
    origin_us: i64,
    /// Whether buckets are shorter than a day.
    has_times: bool,
}

#[derive(Clone, Copy)]
enum Width {
    Months(i64),
    Nanoseconds(i64),
}

impl Buckets {
    fn of(width: IntervalMonthDayNano, origin: Option<&Value>) -> Result<Self> {
        let ns = i64::from(width.days)
            .checked_mul(DAY_NS)
            .and_then(|days| days.checked_add(width.nanoseconds));
        let made = match (width.months, ns) {
            (1.., Some(0)) => Width::Months(i64::from(width.months)),
            (0, Some(ns @ 1..)) => Width::Nanoseconds(ns),
            _ => {
                return Err(wrong(
                    "the width of a bucket is either in months, or in days and smaller units",
                )
                .hint("write for example '1 month' or '15 minutes'"));
            }
        };
        let origin_us = match origin {
            Some(origin) => {
                let origin = timestamps(origin)?.cast(&MICROSECONDS)?;
                let is_fixed = origin.is_scalar && origin.array.is_valid(0);
                let array = origin.array.as_primitive::<TimestampMicrosecondType>();
                is_fixed.then(|| array.value(0)).ok_or_else(|| {
                    wrong("the origin of buckets must be the same for all rows")
                        .hint("write for example timestamp '2024-01-01'")
                })?
            }
            None => match made {
                Width::Months(_) => NEW_YEAR_S * 1_000_000,
                Width::Nanoseconds(_) => MONDAY_S * 1_000_000,
            },
        };
        Ok(Buckets {
            width: made,
            origin_us,
            has_times: width.nanoseconds % DAY_NS != 0,
        })
    }

    /// Returns the bucket number of a time, and the time at which a bucket starts.
    fn maker(&self, per_second: i64) -> Result<Maker> {
        let origin = self.origin_us * (per_second / 1_000_000);
        let width = match self.width {
            Width::Months(months) => Width::Months(months),
            Width::Nanoseconds(ns) => {
                let tick_ns = 1_000_000_000 / per_second;
                if ns % tick_ns != 0 {
                    return Err(wrong(
                        "the times are stored in microseconds, but the buckets are finer",
                    )
                    .hint("give a width of whole microseconds"));
                }
                Width::Nanoseconds(ns / tick_ns)
            }
        };
        Ok(Maker {
            width,
            origin,
            per_second,
        })
    }

    /// The start of each value's bucket: a date for dates, unless buckets are shorter than a day.
    fn starts(&self, value: &Value) -> Result<Value> {
        let is_date = matches!(value.data_type(), DataType::Date32);
        let times = timestamps(value)?;
        let kind = times.data_type().clone();
        let maker = self.maker(ticks(&kind))?;
        let number = numbers_of::<Int64Type>(&stored(&times)?);
        let rows = (0..times.array.len()).map(|row| maker.start(maker.number(number(row)?)?));
        let made: ArrayRef = Arc::new(rows.collect::<Int64Array>());
        let made = cast(&made, &kind)?;
        let made = match is_date && !self.has_times {
            true => cast(&made, &DataType::Date32)?,
            false => made,
        };
        Ok(Value::computed(made, times.is_scalar))
    }

    /// Counts the buckets that start after one time, up to another.
    fn between(&self, one: &Value, other: &Value) -> Result<Value> {
        let (one, other) = (timestamps(one)?, timestamps(other)?);
        let numbers = |value: &Value| -> Result<_> {
            let maker = self.maker(ticks(value.data_type()))?;
            let number = numbers_of::<Int64Type>(&stored(value)?);
            Ok(move |row: usize| maker.number(number(row)?))
        };
        let (from, to) = (numbers(&one)?, numbers(&other)?);
        let rows = (0..rows_of(&one, &other)).map(|row| Some(to(row)? - from(row)?));
        let made: Int64Array = rows.collect();
        Ok(Value::computed(
            Arc::new(made),
            one.is_scalar && other.is_scalar,
        ))
    }
}

/// Buckets in the ticks of a column.
struct Maker {
    width: Width,
    origin: i64,
    per_second: i64,
}

impl Maker {
    fn number(&self, at: i64) -> Option<i64> {
        match self.width {
            Width::Nanoseconds(ticks) => Some(at.checked_sub(self.origin)?.div_euclid(ticks)),
            Width::Months(months) => {
                let since =
                    months_of(at, self.per_second)? - months_of(self.origin, self.per_second)?;
                Some(since.div_euclid(months))
            }
        }
    }

    fn start(&self, number: i64) -> Option<i64> {
        match self.width {
            Width::Nanoseconds(ticks) => self.origin.checked_add(number.checked_mul(ticks)?),
            Width::Months(months) => {
                let month = months_of(self.origin, self.per_second)? + number * months;
                let year = i32::try_from(month.div_euclid(12)).ok()?;
                let month = u32::try_from(month.rem_euclid(12)).ok()? + 1;
                let date = chrono::NaiveDate::from_ymd_opt(year, month, 1)?;
                let seconds = date.and_time(NaiveTime::MIN).and_utc().timestamp();
                seconds.checked_mul(self.per_second)
            }
        }
    }
}

/// Months since the year 0.
fn months_of(at: i64, per_second: i64) -> Option<i64> {
    let date = datetime(at, per_second)?;
    Some(i64::from(date.year()) * 12 + i64::from(date.month0()))
}

fn datetime(at: i64, per_second: i64) -> Option<NaiveDateTime> {
    let seconds = at.div_euclid(per_second);
    let rest_ns = at.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let time = DateTime::from_timestamp(seconds, u32::try_from(rest_ns).ok()?)?;
    Some(time.naive_utc())
}

/// `epoch(t)`: seconds since 1970, or the seconds of a duration.
fn seconds(value: &Value) -> Result<Value> {
    let (value, per_second) = match value.data_type() {
        DataType::Duration(unit) => {
            let per_second = match unit {
                TimeUnit::Second => 1,
                TimeUnit::Millisecond => 1_000,
                TimeUnit::Microsecond => 1_000_000,
                TimeUnit::Nanosecond => 1_000_000_000,
            };
            (value.clone(), per_second)
        }
        _ => {
            let times = timestamps(value)?;
            let per_second = ticks(times.data_type());
            (times, per_second)
        }
    };
    let numbers = stored(&value)?;
    let numbers = numbers.array.as_primitive::<Int64Type>();
    let made: Float64Array = numbers.unary(|ticks| ticks as f64 / per_second as f64);
    Ok(Value::computed(Arc::new(made), value.is_scalar))
}

/// Checks a format and converts it to `chrono`'s form.
fn format_of(function: Function, value: &Value) -> Result<Vec<Item<'static>>> {
    let text = literal(function, value, "format")?;
    let is_read = function != Function::Strftime;
    // When times are read, the point and the digits after it are optional.
    let text = match is_read {
        true => text.replace(".%f", "%.f"),
        false => text,
    };
    let text = text
        .replace("%f", "%6f")
        .replace("%g", "%3f")
        .replace("%n", "%9f");
    let items: Vec<Item<'_>> = StrftimeItems::new(&text).map(Item::to_owned).collect();
    match items.contains(&Item::Error) {
        true => Err(wrong(format!("`{text}` is not a time format"))
            .hint("write for example '%Y-%m-%d %H:%M:%S'")),
        false => Ok(items),
    }
}

/// `strftime(t, format)`.
fn written(function: Function, values: &[Value]) -> Result<Value> {
    let times = timestamps(&values[0])?;
    let items = format_of(function, &values[1])?;
    let per_second = ticks(times.data_type());
    let number = numbers_of::<Int64Type>(&stored(&times)?);
    let mut text = String::new();
    let mut made: Vec<Option<String>> = Vec::with_capacity(times.array.len());
    for row in 0..times.array.len() {
        let time = number(row).and_then(|time| datetime(time, per_second));
        let Some(time) = time else {
            made.push(None);
            continue;
        };
        text.clear();
        let shown = time.and_utc().format_with_items(items.iter());
        write!(text, "{shown}").map_err(|_| {
            wrong("the format needs a field that the time does not have")
                .hint("leave its time zone out")
        })?;
        made.push(Some(text.clone()));
    }
    let made: ArrayRef = Arc::new(LargeStringArray::from(made));
    Ok(Value::computed(
        cast(&made, &DataType::Utf8)?,
        times.is_scalar,
    ))
}

/// `strptime(s, format)`: microseconds in UTC.
fn read(function: Function, values: &[Value]) -> Result<Value> {
    let text = as_text(function, &values[0])?;
    let items = format_of(function, &values[1])?;
    let is_tried = function == Function::TryStrptime;
    let texts = text.array.as_string::<i64>().iter();
    let times = texts.map(|text| {
        let Some(text) = text else {
            return Ok(None);
        };
        match time_in(text, &items) {
            None if !is_tried => {
                let format = literal(function, &values[1], "format")?;
                Err(
                    wrong(format!("`{text}` does not match the format `{format}`"))
                        .hint("use try_strptime to turn such values into null"),
                )
            }
            time => Ok(time),
        }
    });
    let made: PrimitiveArray<TimestampMicrosecondType> = times.collect::<Result<_>>()?;
    Ok(Value::computed(Arc::new(made), text.is_scalar))
}

/// Reads a time in microseconds. Parts that the format leaves out are taken from midnight on 1
/// January 1900.
fn time_in(text: &str, items: &[Item<'_>]) -> Option<i64> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    let offset = parsed
        .to_fixed_offset()
        .map_or(0, |offset| offset.local_minus_utc());
    if let Some(seconds) = parsed.timestamp() {
        return seconds.checked_mul(1_000_000);
    }
    let date = parsed.to_naive_date().or_else(|_| {
        let mut parsed = parsed.clone();
        // A part that is already set is kept.
        let _ = parsed.year().is_none().then(|| parsed.set_year(1900));
        let _ = parsed.month().is_none().then(|| parsed.set_month(1));
        let _ = parsed.day().is_none().then(|| parsed.set_day(1));
        parsed.to_naive_date()
    });
    let has_time = parsed.hour_mod_12().is_some();
    let time = match (parsed.to_naive_time(), has_time) {
        (Ok(time), _) => time,
        (Err(_), false) => NaiveTime::MIN,
        (Err(_), true) => {
            let _ = parsed.minute().is_none().then(|| parsed.set_minute(0));
            parsed.to_naive_time().ok()?
        }
    };
    let micros = date.ok()?.and_time(time).and_utc().timestamp_micros();
    micros.checked_sub(i64::from(offset) * 1_000_000)
}
