//! Random requests for aggregates, and their items.

use liststore::domain::ValueType;
use serde_json::{Map, Value, json};

use super::aggregate_model::{Case, Known, Model, as_returned};
use super::probe::SECOND;

const MINUTE: i64 = 60 * SECOND;

/// Chooses cases.
pub struct Chooser(pub fastrand::Rng);

impl Chooser {
    pub fn seeded() -> Self {
        let seed = uuid::Uuid::new_v4().as_u64_pair().1;
        eprintln!("random aggregates: seed {seed}");
        Self(fastrand::Rng::with_seed(seed))
    }

    pub fn one_of<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.0.usize(..among.len())].clone()
    }

    pub fn offset(&mut self) -> i64 {
        -self.0.i64(-5..240) * MINUTE + self.0.i64(-1..=1)
    }

    fn number(&mut self) -> Value {
        let (int, quarters) = (self.0.i32(-3..9), self.0.i32(-40..40));
        self.one_of(&[json!(int), json!(f64::from(quarters) / 4.0), json!(9_007_199_254_740_992_i64)])
    }

    pub fn value(&mut self, value_type: ValueType) -> Value {
        let text = self.one_of(&["", "a", "a!", "b", "é", "\"quoted\""]);
        let (int, quarters) = (self.0.i32(-3..9), self.0.i32(-40..40));
        match value_type {
            ValueType::String => json!(text),
            ValueType::Int64 => {
                let small = json!(int);
                self.one_of(&[small.clone(), small, json!(i64::MAX), json!(i64::MIN), json!(1_i64 << 40)])
            }
            ValueType::Double => json!(f64::from(quarters) / 4.0),
            ValueType::Bool => json!(int > 0),
            ValueType::Bytes => json!(self.one_of(&["AP8=", "", "AAAA"])),
            ValueType::Json => self.object(text),
        }
    }

    fn object(&mut self, text: &str) -> Value {
        let mut object = Map::new();
        let number = self.number();
        let amount = self.one_of(&[number.clone(), number.clone(), number, json!(null), json!(text), json!(true)]);
        for (name, value) in [("amount", amount), ("kind", json!(text)), ("nested", json!({"x": [1, text]}))] {
            if self.0.u8(..10) > 0 {
                object.insert(name.to_owned(), value);
            }
        }
        self.one_of(&[object.clone().into(), object.into(), json!(7)])
    }

    fn property(&mut self, value_type: ValueType) -> Map<String, Value> {
        let mut of = Map::new();
        if value_type == ValueType::Json {
            of.insert("property".to_owned(), self.one_of(&["/amount", "/kind", "/nested/x/1", "/none"]).into());
        }
        of
    }

    fn aggregates(&mut self, value_type: ValueType) -> Value {
        let has_numbers = matches!(value_type, ValueType::Int64 | ValueType::Double | ValueType::Json);
        let functions = ["count", "count_distinct", "first", "last", "top", "sum", "mean", "stddev", "min", "max"];
        let functions = if has_numbers { &functions[..] } else { &functions[..5] };
        let count = self.0.usize(1..6);
        (0..count)
            .map(|index| {
                let function = self.one_of(functions);
                let mut aggregate = self.property(value_type);
                aggregate.insert("name".to_owned(), format!("{function}-{index}").into());
                aggregate.insert("function".to_owned(), function.into());
                if function == "top" {
                    aggregate.insert("k".to_owned(), self.0.u32(1..4).into());
                }
                Value::Object(aggregate)
            })
            .collect()
    }

    /// A case on items of this type. `base` is the present, in nanoseconds since the Unix epoch.
    pub fn case(&mut self, value_type: ValueType, items: Vec<Known>, base: i64) -> Case {
        let windows: Vec<_> = (0..self.0.usize(1..7))
            .map(|_| {
                let (one, other) = (self.offset(), self.offset());
                let between = json!({"min_timestamp": base + one.min(other), "max_timestamp": base + one.max(other)});
                let last = json!(format!("{}s", self.0.i64(1..20_000)));
                self.one_of(&[between, last.clone(), last])
            })
            .collect();
        let mut body = json!({"windows": windows, "aggregates": self.aggregates(value_type)});
        if self.0.u8(..3) == 0 {
            body["as_of"] = (base + self.offset().min(0)).into();
        }
        if self.0.u8(..3) == 0 && !items.is_empty() {
            let mut filter = self.property(value_type);
            let some: Vec<_> = (0..3).map(|_| self.one_of(&items).json).collect();
            let found = some.iter().filter_map(|json| Model::property(&Value::Object(filter.clone()), json));
            let mut values: Vec<_> = found.cloned().collect();
            values.push(as_returned(value_type, &self.value(value_type)));
            filter.insert("in".to_owned(), values.into());
            body["where"] = filter.into();
        }
        if self.0.u8(..3) == 0 {
            let mut group_by = self.property(value_type);
            group_by.insert("max_groups".to_owned(), self.0.u32(1..5).into());
            body["group_by"] = group_by.into();
        }
        let ttl = self.one_of(&[86_400, 86_400, 3_600, 7_200]);
        let (max_items, items_max) = (self.0.u64(1..40), self.0.u64(1..40));
        let max_items = self.one_of(&[None, None, Some(max_items)]);
        let items_max = self.one_of(&[100_000, 100_000, items_max]);
        Case { value_type, items, body, ttl, max_items, items_max }
    }
}
