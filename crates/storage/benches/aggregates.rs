//! Aggregates of a list's items without a store: nanoseconds of each item.
//!
//! `cargo bench -p liststore-storage`, or with `-- PART` for the cases that contain a text.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints what it measures, and fails by panicking"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use liststore_contract::domain::{Identity, Int64As, JsonForm, Timestamp, Ttl, ValueDigest, ValueType, json};
use liststore_contract::wire::AggregateInput;
use liststore_storage::collect::{Collect, Next, Offered};
use liststore_storage::{Aggregation, Aggregator, OpContext};
use tokio::time::Instant;

const DAY: u64 = 86_400_000_000_000;
/// The moment of the last item.
const NOW: u64 = 20_000 * DAY;
const LENGTH: u64 = 1_000;
const CALLS: u32 = 1_000;
const WINDOWS: &str = r#""windows":["10m","1h","6h","24h"]"#;

struct Payment {
    timestamp: u64,
    value: Bytes,
}

impl Offered for Payment {
    fn timestamp(&self) -> u64 {
        self.timestamp
    }

    fn expires_at(&self) -> u64 {
        u64::MAX
    }

    fn is_deleted(&self) -> bool {
        false
    }

    fn digest(&self) -> ValueDigest {
        ValueDigest::of(&self.value)
    }

    fn value(&self) -> &[u8] {
        &self.value
    }

    fn value_bytes(&self) -> Bytes {
        self.value.clone()
    }
}

/// Payments of a day, with amounts that look random, and 200 cards.
fn payments(value_type: ValueType) -> Vec<Payment> {
    let payment = |n: u64| {
        let amount = (n * 7_919 + 13) * 104_729 % 99_991;
        let value = match value_type {
            ValueType::Json => json::canonicalize(&format!(r#"{{"amount":{amount},"card":"c{:03}"}}"#, n * 31 % 200)),
            other => other.encode(&amount.to_string()).map(|value| value.as_bytes().to_vec()),
        };
        Payment { timestamp: NOW - n * (DAY / LENGTH), value: value.unwrap().into() }
    };
    (0..LENGTH).map(payment).collect()
}

fn measure(value_type: ValueType, members: &str) {
    let case = format!("{value_type}, {members}");
    let mut parts = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    if !parts.all(|part| case.contains(&part)) {
        return;
    }
    let payments = payments(value_type);
    let input = AggregateInput::read(format!("{{{WINDOWS},{members}}}").as_bytes()).unwrap();
    let plan = Aggregation::new(&input, JsonForm { value_type, int64_as: Int64As::Number }, 100_000).unwrap();
    let plan = Arc::new(plan);
    let now = Timestamp::from_nanos(NOW).unwrap();
    let op = OpContext::new(now, Ttl::MAX, Instant::now() + Duration::from_secs(60));
    let began = Instant::now();
    for _ in 0..CALLS {
        let mut aggregator = Aggregator::new(&plan, &op, Identity::Item);
        assert!(payments.iter().all(|payment| aggregator.offer(payment) == Next::Wanted));
        black_box(aggregator.finish().result.unwrap());
    }
    let nanos = began.elapsed().as_nanos() as f64 / f64::from(CALLS) / LENGTH as f64;
    println!("{nanos:6.1} ns an item: {case}");
}

fn main() {
    let count = r#"{"name":"n","function":"count"}"#;
    let of = |function: &str, property: &str| format!(r#"{{"name":"{function}","function":"{function}"{property}}}"#);
    let (amount, card) = (r#","property":"/amount""#, r#","property":"/card""#);
    let three =
        |amount, card| format!(r#""aggregates":[{count},{},{}]"#, of("sum", amount), of("count_distinct", card));
    measure(ValueType::Json, &three(amount, card));
    measure(ValueType::Int64, &three("", ""));
    measure(ValueType::Int64, &format!(r#""aggregates":[{count}]"#));
    measure(ValueType::Json, &format!(r#""aggregates":[{},{}]"#, of("top", card), of("stddev", amount)));
    let grouped = format!(r#"{},"group_by":{{"property":"/card"}}"#, three(amount, amount));
    measure(ValueType::Json, &grouped);
    measure(ValueType::Json, &format!(r#"{},"where":{{"property":"/card","in":["c007"]}}"#, three(amount, card)));
}
