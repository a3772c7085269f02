//! The state of each aggregate: what it keeps of the encountered items, and its result.

use liststore_contract::wire::AggregateFunction;
use serde_json::Value;

use super::memory::Memory;
use super::number::{Number, Spread, Sum, Total};
use super::room::NoValue;
use super::values::Form;

/// The value of a source in one item.
#[derive(Debug, Clone, Copy)]
pub struct Field<'v> {
    pub bytes: &'v [u8],
    /// If the source needs it, and the value is one.
    pub number: Option<Number>,
    /// The number of its value, if the source needs it.
    pub identity: u32,
    /// Whether the value is the first with this number.
    pub is_first: bool,
}

/// The state of one aggregate of a group.
#[derive(Debug, Clone)]
pub enum State {
    Count(u64),
    /// How often each value comes is in [`super::times::Times`].
    Distinct(u64),
    Top,
    Sum(Sum),
    Mean(Sum),
    Least(Option<Number>),
    Greatest(Option<Number>),
    Spread(Spread),
    First(Option<Edge>),
    Last(Option<Edge>),
}

/// The value of the first or last item.
#[derive(Debug, Clone)]
pub struct Edge {
    /// How many items came before, newest first.
    place: u64,
    value: Vec<u8>,
}

impl State {
    pub fn of(function: AggregateFunction) -> Self {
        match function {
            AggregateFunction::Count => Self::Count(0),
            AggregateFunction::CountDistinct => Self::Distinct(0),
            AggregateFunction::Sum => Self::Sum(Sum::default()),
            AggregateFunction::Mean => Self::Mean(Sum::default()),
            AggregateFunction::Min => Self::Least(None),
            AggregateFunction::Max => Self::Greatest(None),
            AggregateFunction::Stddev => Self::Spread(Spread::default()),
            AggregateFunction::First => Self::First(None),
            AggregateFunction::Last => Self::Last(None),
            AggregateFunction::Top => Self::Top,
        }
    }

    /// Takes the value of an item. `is_new` states that it has not come in its group before.
    #[inline]
    pub fn add(&mut self, field: &Field<'_>, is_new: bool, place: u64, memory: &mut Memory) {
        match self {
            Self::Count(count) => *count += 1,
            Self::Distinct(count) => *count += u64::from(is_new),
            Self::Top => {}
            Self::First(edge) => {
                let edge = edge.get_or_insert(Edge { place, value: Vec::new() });
                let before = edge.value.capacity();
                edge.place = place;
                edge.value.clear();
                edge.value.extend_from_slice(field.bytes);
                memory.grow_vec(before, &edge.value);
            }
            Self::Last(edge) => {
                if edge.is_none() {
                    let value = field.bytes.to_vec();
                    memory.grow_vec(0, &value);
                    *edge = Some(Edge { place, value });
                }
            }
            Self::Sum(sum) | Self::Mean(sum) => field.number.into_iter().for_each(|number| sum.add(number)),
            Self::Least(_) | Self::Greatest(_) | Self::Spread(_) => {
                field.number.into_iter().for_each(|number| self.add_number(number));
            }
        }
    }

    #[inline]
    fn add_number(&mut self, number: Number) {
        match self {
            Self::Sum(sum) | Self::Mean(sum) => sum.add(number),
            Self::Least(least) => {
                if least.is_none_or(|least| number.order(least).is_lt()) {
                    *least = Some(number);
                }
            }
            Self::Greatest(greatest) => {
                if greatest.is_none_or(|greatest| number.order(greatest).is_gt()) {
                    *greatest = Some(number);
                }
            }
            Self::Spread(spread) => spread.add(number),
            Self::Count(_) | Self::Distinct(_) | Self::Top | Self::First(_) | Self::Last(_) => {}
        }
    }

    /// Takes the state of another group, of the same function.
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(own), Self::Count(other)) => *own += other,
            (Self::Sum(own), Self::Sum(other)) | (Self::Mean(own), Self::Mean(other)) => own.merge(other),
            (state @ (Self::Least(_) | Self::Greatest(_)), Self::Least(Some(other)) | Self::Greatest(Some(other))) => {
                state.add_number(*other);
            }
            (Self::Spread(own), Self::Spread(other)) => own.merge(other),
            (Self::First(own), Self::First(Some(other))) if own.as_ref().is_none_or(|own| own.place < other.place) => {
                *own = Some(other.clone());
            }
            (Self::Last(own), Self::Last(Some(other))) if own.as_ref().is_none_or(|own| own.place > other.place) => {
                *own = Some(other.clone());
            }
            // Values are counted from their pairs.
            _ => {}
        }
    }

    /// The result of any function but `top`, whose values are ranked for the whole source.
    pub fn value(&self, form: Form) -> Result<Value, NoValue> {
        let double = |double: Option<f64>| match double {
            Some(double) if double.is_finite() => Ok(double.into()),
            Some(_) => Err(NoValue::OutOfRange),
            None => Ok(Value::Null),
        };
        Ok(match self {
            Self::Top => Value::Null,
            Self::Count(count) | Self::Distinct(count) => (*count).into(),
            Self::Sum(sum) => match sum.total() {
                Total::Int(int) => match i64::try_from(int) {
                    Ok(int) => form.int(int),
                    // JSON has no other numbers than doubles.
                    Err(_) if form.is_json() => double(Some(int as f64))?,
                    Err(_) => return Err(NoValue::OutOfRange),
                },
                Total::Double(sum) => double(Some(sum))?,
            },
            Self::Mean(sum) => double(sum.mean())?,
            Self::Least(number) | Self::Greatest(number) => {
                number.map_or(Value::Null, |number| form.number_to_json(number))
            }
            Self::Spread(spread) => double(spread.deviation())?,
            Self::First(edge) | Self::Last(edge) => match edge {
                Some(edge) => form.to_json(&edge.value).ok_or(NoValue::Damaged)?,
                None => Value::Null,
            },
        })
    }
}
