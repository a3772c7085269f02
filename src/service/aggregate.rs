//! Aggregates over windows of time: of one list of a call or of several.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Caller, ListName, Service, ServiceError};
use crate::access::{ANSWER_BYTES_MIN, SMALL_BYTES};
use crate::domain::{Int64As, JsonForm, ListKey};
use crate::items::{AggregateFailure, AggregateOutcome, Aggregation};
use crate::metadata::catalog::CatalogVersion;
use crate::wire::{AggregateInput, Aggregated, ErrorCode, Problem};

/// An aggregation may take as much memory as this many answers, if there is room.
const ANSWERS: usize = 4;

/// The most plans that a call keeps.
const PLANS_MAX: usize = 64;

/// The memory and plans that all aggregations of one call share.
#[derive(Default)]
pub(crate) struct SharedPlans<'r> {
    /// Of the one that has much memory.
    turn: Mutex<()>,
    /// The last plans.
    plans: RefCell<VecDeque<Plan<'r>>>,
}

struct Plan<'r> {
    input: &'r AggregateInput,
    form: JsonForm,
    made: Result<Arc<Aggregation>, Problem>,
}

impl<'r> SharedPlans<'r> {
    /// The plan of this input for values of this form, with little memory. It is made once for the lists that share the
    /// input.
    fn plan(&self, input: &'r AggregateInput, form: JsonForm, items_max: u64) -> Result<Arc<Aggregation>, Problem> {
        let mut plans = self.plans.borrow_mut();
        if let Some(known) = plans.iter().find(|known| std::ptr::eq(known.input, input) && known.form == form) {
            return known.made.clone();
        }
        if plans.len() == PLANS_MAX {
            plans.pop_front();
        }
        let made = Aggregation::new(input, form, items_max).map(|plan| Arc::new(plan.within(SMALL_BYTES)));
        plans.push_back(Plan { input, form, made: made.clone() });
        made
    }
}

impl Service {
    /// Aggregates items of one list, of a version that is known, to JSON. The caller has taken one item of it.
    ///
    /// Nearly all aggregations need little memory, so that it need not be reserved for each: one that needs more is
    /// begun again. Of the aggregations of one call, one at a time has more. They also share their plans.
    pub(crate) async fn aggregate<'r>(
        &self,
        caller: &Caller,
        list: &ListName<'_>,
        (found, input, int64_as): (CatalogVersion, &'r AggregateInput, Option<Int64As>),
        shared: &SharedPlans<'r>,
        deadline: Instant,
    ) -> Result<Vec<u8>, ServiceError> {
        self.check_moment(input.as_of)?;
        let form = found.properties.json_form(found.value_type, int64_as);
        let plan = shared.plan(input, form, self.options.aggregate_items_max);
        let plan = plan.map_err(|problem| ServiceError::malformed(&problem))?;
        let (list, retention) = (ListKey::new(found.feature_key, list.entity_id.clone()), found.properties.retention());
        let (lists, answer) = (self.lists_of(caller), self.options.page_bytes_max.max(ANSWER_BYTES_MIN));
        let (mut taken, mut alone) = (1, None);
        for bytes_max in [SMALL_BYTES, answer, answer.saturating_mul(ANSWERS)] {
            if bytes_max > SMALL_BYTES {
                alone = Some(if let Some(alone) = alone.take() { alone } else { shared.turn.lock().await });
                self.reserve(caller, bytes_max)?;
            }
            let plan = match bytes_max {
                SMALL_BYTES => Arc::clone(&plan),
                more => Arc::new(Aggregation::clone(&plan).within(more)),
            };
            let aggregated = lists.read(list.clone(), retention, deadline, async move |session, op, list| {
                session.aggregate(op, list, &plan).await
            });
            let AggregateOutcome { items_read, result } = aggregated.await?;
            caller.charge_items(usize::try_from(items_read).unwrap_or(usize::MAX).saturating_sub(taken));
            taken = 0;
            self.items_aggregated.inc_by(items_read);
            match result {
                Ok(aggregated) => return self.rendered(&aggregated),
                Err(AggregateFailure::TooLarge) => {}
                Err(failure) => return Err(refused(Some(input), failure)),
            }
        }
        Err(refused(None, AggregateFailure::TooLarge))
    }

    fn rendered(&self, aggregated: &Aggregated) -> Result<Vec<u8>, ServiceError> {
        // Nearly all answers fit.
        let mut text = Vec::with_capacity(1 << 10);
        serde_json::to_writer(&mut text, aggregated)
            .map_err(|error| ServiceError::Damaged(format!("cannot render aggregates: {error}")))?;
        if text.len() > self.options.page_bytes_max {
            return Err(refused(None, AggregateFailure::TooLarge));
        }
        Ok(text)
    }
}

fn refused(input: Option<&AggregateInput>, failure: AggregateFailure) -> ServiceError {
    let problem = match failure {
        AggregateFailure::OutOfRange { aggregate } => {
            let function =
                input.and_then(|input| input.aggregates.get(aggregate)).map_or("", |of| of.function.as_str());
            let detail =
                format!("the {function} is beyond the range of its type: use shorter windows, or smaller values");
            Problem::new(ErrorCode::OutOfRange, detail).at(format!("aggregates[{aggregate}]"))
        }
        AggregateFailure::TooLarge => Problem::new(
            ErrorCode::AggregateTooLarge,
            "the distinct values, groups and results need too much memory: use shorter windows, fewer aggregates or a \
             filter, or group by a property with fewer values",
        ),
        AggregateFailure::Late => return ServiceError::DeadlineExceeded { outcome_unknown: false },
        AggregateFailure::Damaged => return ServiceError::Damaged("a stored value is not of its type".to_owned()),
    };
    ServiceError::malformed(&problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ValueType;

    #[test]
    fn lists_of_one_input_and_form_share_a_plan() {
        let body = br#"{"windows":["1h"],"where":{"in":[1]},"aggregates":[{"name":"n","function":"count"}]}"#;
        let (input, other) = (AggregateInput::read(body).unwrap(), AggregateInput::read(body).unwrap());
        let form = |value_type| JsonForm { value_type, int64_as: Int64As::Number };
        let more: Vec<_> = (0..PLANS_MAX).map(|_| AggregateInput::read(body).unwrap()).collect();
        let shared = SharedPlans::default();
        let plan = |input, value_type| shared.plan(input, form(value_type), 10);
        let first = plan(&input, ValueType::Int64).unwrap();
        assert!(Arc::ptr_eq(&first, &plan(&input, ValueType::Int64).unwrap()));
        assert!(!Arc::ptr_eq(&first, &plan(&input, ValueType::Json).unwrap()));
        assert!(!Arc::ptr_eq(&first, &plan(&other, ValueType::Int64).unwrap()));
        for _ in 0..2 {
            assert!(plan(&input, ValueType::String).is_err(), "a number is no string");
        }
        assert_eq!(shared.plans.borrow().len(), 4);
        for input in &more {
            assert!(plan(input, ValueType::Int64).is_ok());
        }
        assert_eq!(shared.plans.borrow().len(), PLANS_MAX);
    }
}
