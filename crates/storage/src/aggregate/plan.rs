//! The requested aggregates, checked against the type of the values.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use liststore_contract::domain::index::Pointer;
use liststore_contract::domain::{Invalid, JsonForm, Timestamp, ValueType, json};
use liststore_contract::wire::{
    Aggregate, AggregateFunction, AggregateGroupBy, AggregateInput, AggregateWindow, Problem,
};

use super::find::Ways;
use super::values::Form;

/// The requested aggregates of a list. Clones share the values of its filter.
#[derive(Debug, Clone)]
pub struct Aggregation {
    pub(super) windows: Vec<AggregateWindow>,
    pub(super) as_of: Option<Timestamp>,
    pub(super) form: Form,
    /// The different properties that are looked at, each once.
    pub(super) sources: Vec<Source>,
    /// The ways to them, if there are any in values.
    pub(super) ways: Option<Ways>,
    pub(super) filter: Option<Filter>,
    pub(super) group_by: Option<GroupBy>,
    pub(super) aggregates: Vec<Wanted>,
    /// The functions of the states that a group has.
    pub(super) states: Vec<AggregateFunction>,
    /// Items that are read at most.
    pub(super) items_max: u64,
    /// Memory that is taken at most.
    pub(super) bytes_max: usize,
}

/// The whole value, or a property of it, and what aggregates need of it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub property: Option<Pointer>,
    /// The places of the states of its aggregates among those of all sources.
    pub states: Range<usize>,
    pub needs_number: bool,
    /// Whether its values are distinguished.
    pub needs_identity: bool,
    /// Whether it matters how often each value comes.
    pub needs_times: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Filter {
    pub source: usize,
    values: Arc<HashSet<Vec<u8>>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct GroupBy {
    pub source: usize,
    pub groups_max: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub name: String,
    pub function: AggregateFunction,
    pub source: usize,
    /// The place of its state; none if it counts items, which every group does.
    pub state: Option<usize>,
    /// Of `top`.
    pub k: usize,
}

impl Aggregation {
    /// Refuses functions and properties that values of this type cannot have.
    pub fn new(input: &AggregateInput, form: JsonForm, items_max: u64) -> Result<Self, Problem> {
        let mut plan = Self {
            windows: input.windows.clone(),
            as_of: input.as_of,
            form: Form(form),
            sources: Vec::new(),
            ways: None,
            filter: None,
            group_by: None,
            aggregates: Vec::with_capacity(input.aggregates.len()),
            states: Vec::new(),
            items_max,
            bytes_max: usize::MAX,
        };
        if let Some(filter) = &input.filter {
            let source = plan.source(filter.property.as_ref()).map_err(|e| e.within("where"))?;
            let mut values = HashSet::with_capacity(filter.values.len());
            for (index, raw) in filter.values.iter().enumerate() {
                let value =
                    encode(form.value_type, raw).map_err(|e| Problem::from(e).at(format!("where.in[{index}]")))?;
                values.insert(value);
            }
            plan.filter = Some(Filter { source, values: Arc::new(values) });
        }
        if let Some(AggregateGroupBy { property, max_groups }) = &input.group_by {
            let source = plan.source(property.as_ref()).map_err(|e| e.within("group_by"))?;
            let groups_max = max_groups.unwrap_or(AggregateGroupBy::GROUPS_DEFAULT);
            plan.group_by = Some(GroupBy { source, groups_max });
        }
        for (index, aggregate) in input.aggregates.iter().enumerate() {
            let wanted = plan.wanted(aggregate).map_err(|e| e.within(&format!("aggregates[{index}]")))?;
            plan.aggregates.push(wanted);
        }
        plan.place_states();
        let properties = plan.sources.iter().enumerate();
        plan.ways = Ways::to(properties.filter_map(|(number, source)| Some((number, source.property.as_ref()?))));
        Ok(plan)
    }

    /// The same with a bound of the memory that it takes, about.
    pub fn within(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Whether the values of items are looked at, or only their timestamps.
    pub fn needs_values(&self) -> bool {
        self.filter.is_some() || self.group_by.is_some() || self.ways.is_some() || !self.states.is_empty()
    }

    fn source(&mut self, property: Option<&Pointer>) -> Result<usize, Problem> {
        if property.is_some() && !self.form.is_json() {
            let invalid = Invalid::value_type(format!(
                "only JSON values have properties, and the values of this feature are {}: leave property out",
                self.form.0.value_type
            ));
            return Err(Problem::from(invalid).at("property"));
        }
        let known = self.sources.iter().position(|source| source.property.as_ref() == property);
        Ok(known.unwrap_or_else(|| {
            let property = property.cloned();
            self.sources.push(Source {
                property,
                states: 0..0,
                needs_number: false,
                needs_identity: false,
                needs_times: false,
            });
            self.sources.len() - 1
        }))
    }

    fn wanted(&mut self, aggregate: &Aggregate) -> Result<Wanted, Problem> {
        let Aggregate { name, function, property, k } = aggregate;
        let has_numbers = matches!(self.form.0.value_type, ValueType::Int64 | ValueType::Double | ValueType::Json);
        if function.needs_numbers() && !has_numbers {
            let invalid = Invalid::value_type(format!(
                "{function} needs numbers, and the values of this feature are {}: use count, count_distinct, first, \
                 last or top",
                self.form.0.value_type
            ));
            return Err(Problem::from(invalid).at("function"));
        }
        let source = self.source(property.as_ref())?;
        let needs = &mut self.sources[source];
        needs.needs_number |= function.needs_numbers();
        needs.needs_identity |= matches!(function, AggregateFunction::CountDistinct | AggregateFunction::Top);
        needs.needs_times |= *function == AggregateFunction::Top;
        let k = k.unwrap_or(Aggregate::K_DEFAULT);
        Ok(Wanted { name: name.clone(), function: *function, source, state: None, k })
    }

    /// Puts the states of each source next to each other.
    fn place_states(&mut self) {
        for (place, source) in self.sources.iter_mut().enumerate() {
            let counts_items =
                |wanted: &Wanted| wanted.function == AggregateFunction::Count && source.property.is_none();
            let first = self.states.len();
            for wanted in self.aggregates.iter_mut().filter(|wanted| wanted.source == place) {
                if !counts_items(wanted) {
                    wanted.state = Some(self.states.len());
                    self.states.push(wanted.function);
                }
            }
            source.states = first..self.states.len();
        }
    }
}

/// The stored bytes of a value to compare with.
fn encode(value_type: ValueType, raw: &str) -> Result<Vec<u8>, Invalid> {
    if value_type == ValueType::Json {
        return json::canonicalize(raw);
    }
    value_type.encode(raw).map(|value| value.as_bytes().to_vec())
}

impl Filter {
    pub fn has(&self, value: &[u8]) -> bool {
        self.values.contains(value)
    }
}

#[cfg(test)]
mod tests {
    use liststore_contract::domain::Int64As;

    use super::*;

    fn plan(value_type: ValueType, members: &str) -> Result<Aggregation, (&'static str, String)> {
        let input = AggregateInput::read(format!(r#"{{"windows":["1h"],{members}}}"#).as_bytes()).unwrap();
        Aggregation::new(&input, JsonForm { value_type, int64_as: Int64As::Number }, 10)
            .map_err(|problem| (problem.code.name(), problem.field.unwrap_or_default().into_owned()))
    }

    #[test]
    fn aggregates_that_the_value_type_lacks_are_refused() {
        let sum = r#""aggregates":[{"name":"n","function":"count"},{"name":"s","function":"sum"}]"#;
        let of = r#""aggregates":[{"name":"n","function":"count","property":"/a"}]"#;
        let count = r#""aggregates":[{"name":"n","function":"count"}]"#;
        let mismatch = |field: &str| Some(("value_type_mismatch", field.to_owned()));
        assert_eq!(plan(ValueType::String, sum).err(), mismatch("aggregates[1].function"));
        assert_eq!(plan(ValueType::Int64, of).err(), mismatch("aggregates[0].property"));
        let grouped = format!(r#"{count},"group_by":{{"property":"/a"}}"#);
        assert_eq!(plan(ValueType::Double, &grouped).err(), mismatch("group_by.property"));
        let filtered = format!(r#"{count},"where":{{"in":[1,"x"]}}"#);
        assert_eq!(plan(ValueType::Int64, &filtered).err(), mismatch("where.in[1]"));
        assert!(plan(ValueType::Json, &filtered).is_ok());
        for value_type in [ValueType::Int64, ValueType::Double, ValueType::Json] {
            assert!(plan(value_type, sum).is_ok(), "{value_type}");
        }
    }

    #[test]
    fn values_are_needed_for_all_but_counts_of_items() {
        let needs = |members: &str| plan(ValueType::Json, members).unwrap().needs_values();
        assert!(!needs(r#""aggregates":[{"name":"n","function":"count"}]"#));
        assert!(needs(r#""aggregates":[{"name":"n","function":"count","property":"/a"}]"#));
        assert!(needs(r#""aggregates":[{"name":"n","function":"last"}]"#));
        assert!(needs(r#""aggregates":[{"name":"n","function":"count"}],"where":{"in":[1]}"#));
        assert!(needs(r#""aggregates":[{"name":"n","function":"count"}],"group_by":{}"#));
    }
}
