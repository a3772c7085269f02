//! Histories that are written call by call, to be judged.

use super::{Violation, check};
use crate::history::{
    Aggregated, Aggregates, AskedWindow, Call, Group, GroupBy, Groups, History, Item, Key, ListName, Moment,
    NANOS_PER_SEC, Order, Outcome, Promises, Request, Results, ValueType, VersionName,
};

pub const DAY: u64 = 86_400;
/// The moment at which scripts begin, in seconds since the Unix epoch.
const BASE_SECS: u64 = 1_800_000_000;

/// A history being written, call by call; moments are milliseconds.
pub struct Script {
    pub history: History,
}

pub fn version(label: &str) -> VersionName {
    VersionName { feature: "seen".into(), label: label.into() }
}

pub fn list() -> ListName {
    ListName { version: version(""), entity: "u".into() }
}

/// `a@5` is the value "a" at 5 ns.
pub fn item(text: &str) -> Item {
    let (value, timestamp) = text.split_once('@').unwrap();
    let timestamp = timestamp.parse::<u64>().unwrap();
    // Small numbers are offsets from a moment that no TTL of a script has expired.
    Item { timestamp: BASE_SECS * NANOS_PER_SEC + timestamp, value: format!("{value:?}") }
}

pub fn items(text: &str) -> Vec<Item> {
    text.split_whitespace().map(item).collect()
}

/// `a*2 b: b a` is "a" twice and "b" once, the oldest item being a "b", and the newest an "a".
pub fn results(text: &str) -> Results {
    let (values, ends) = text.split_once(':').unwrap_or((text, ""));
    let value = |text: &str| {
        let (value, count) = text.split_once('*').unwrap_or((text, "1"));
        (format!("{value:?}"), count.parse::<u64>().unwrap())
    };
    let values: Vec<_> = values.split_whitespace().map(value).collect();
    let mut ends = ends.split_whitespace().map(|text| format!("{text:?}"));
    Results {
        count: values.iter().map(|(_, count)| count).sum(),
        distinct: values.len() as u64,
        values,
        first: ends.next(),
        last: ends.next(),
        sum: None,
    }
}

/// A complete window with [`results`].
pub fn aggregated(min: u64, max: u64, text: &str) -> Aggregated {
    let at = |nanos: u64| BASE_SECS * NANOS_PER_SEC + nanos;
    Aggregated { min: at(min), max: at(max), reason: None, skipped: 0, results: results(text), groups: None }
}

/// The groups of a window by value, each with [`results`]. The group `""` has the remaining groups.
pub fn by_value(min: u64, max: u64, max_groups: usize, shown: &[(&str, &str)]) -> Aggregated {
    let group = |(value, text): &(&str, &str)| {
        let (value, results) = ((!value.is_empty()).then(|| format!("{value:?}")), results(text));
        Group { value, count: results.count, results }
    };
    let shown: Vec<Group> = shown.iter().map(group).collect();
    let results = Results::of_all(shown.iter().map(|group| &group.results));
    let groups = Some(Groups { by: GroupBy { by_member: false, max_groups }, shown });
    Aggregated { results, groups, ..aggregated(min, max, "") }
}

pub fn key(text: &str) -> Key {
    ValueType::String.key(&item(text)).unwrap()
}

impl Script {
    pub fn new() -> Self {
        Self {
            history: History {
                epoch: BASE_SECS * NANOS_PER_SEC,
                value_types: [("seen".to_owned(), ValueType::String)].into(),
                versions: vec![(version(""), DAY)],
                ..History::default()
            },
        }
    }

    pub fn call(mut self, span: (u64, u64), request: Request, outcome: Outcome) -> Self {
        let incarnation = self.history.ends.len();
        let client = self.history.calls.len();
        let (from, to) = (ms(span.0), ms(span.1));
        self.history.calls.push(Call { client, incarnation, from, to, batch: None, request, outcome });
        self
    }

    /// The last call was made by the client of the one before.
    pub fn by_the_same_client(mut self) -> Self {
        let [.., before, last] = self.history.calls.as_mut_slice() else { panic!("two calls are needed") };
        last.client = before.client;
        self
    }

    /// The server is gone from this moment on, and started again.
    pub fn killed(mut self, at: u64) -> Self {
        self.history.ends.push(ms(at));
        self
    }

    pub fn add(self, span: (u64, u64), sent: &str) -> Self {
        let sent = items(sent);
        let outcome = Outcome::Added { added: sent.len() as u64, already_expired: 0 };
        self.call(span, Request::Add { list: list(), items: sent }, outcome)
    }

    pub fn add_unknown(self, span: (u64, u64), sent: &str) -> Self {
        self.call(span, Request::Add { list: list(), items: items(sent) }, unknown())
    }

    pub fn get(self, span: (u64, u64), page: &str) -> Self {
        self.page(span, None, None, page, false)
    }

    pub fn page(self, span: (u64, u64), after: Option<&str>, limit: Option<usize>, page: &str, more: bool) -> Self {
        let request =
            Request::Get { list: list(), min: None, max: None, order: Order::Newest, limit, after: after.map(key) };
        self.call(span, request, Outcome::Page { items: items(page), more })
    }

    pub fn remove(self, span: (u64, u64), value: &str, outcome: Outcome) -> Self {
        self.call(span, Request::RemoveValue { list: list(), value: format!("{value:?}") }, outcome)
    }

    /// Windows from and to a moment, with their values as [`results`] reads them.
    pub fn aggregate(self, span: (u64, u64), windows: &[(u64, u64, &str)]) -> Self {
        self.aggregated(span, windows.iter().map(|(min, max, text)| aggregated(*min, *max, text)).collect())
    }

    /// One window has the items of every other window.
    pub fn aggregated(self, span: (u64, u64), windows: Vec<Aggregated>) -> Self {
        let items_read = windows.iter().map(|window| window.results.count + window.skipped).max().unwrap_or(0);
        self.aggregated_of(span, windows, items_read)
    }

    pub fn aggregated_of(self, span: (u64, u64), windows: Vec<Aggregated>, items_read: u64) -> Self {
        let asked = windows.iter().map(|window| AskedWindow::Between { min: window.min, max: window.max }).collect();
        let group_by = windows.iter().find_map(|window| Some(window.groups.as_ref()?.by));
        let request = Request::Aggregate { list: list(), windows: asked, is_of_numbers: false, group_by };
        let as_of = self.history.epoch + ms(span.0);
        self.call(span, request, Outcome::Aggregated(Aggregates { as_of, windows, items_read }))
    }

    pub fn clear(self, span: (u64, u64), outcome: Outcome) -> Self {
        self.call(span, Request::RemoveAll { list: list() }, outcome)
    }

    pub fn delete(self, span: (u64, u64), outcome: Outcome) -> Self {
        self.call(span, Request::DeleteFeature { feature: "seen".into() }, outcome)
    }

    pub fn create(self, span: (u64, u64), outcome: Outcome) -> Self {
        self.call(span, Request::CreateFeature { feature: "seen".into(), ttl_secs: DAY }, outcome)
    }

    pub fn change_ttl(self, span: (u64, u64), ttl_secs: u64) -> Self {
        self.call(span, Request::ChangeTtl { version: version(""), ttl_secs }, Outcome::Done)
    }

    pub fn read_ttl(self, span: (u64, u64), ttl_secs: u64) -> Self {
        self.call(span, Request::ReadTtl { version: version("") }, Outcome::Ttl(ttl_secs))
    }

    pub fn violations(&self, promises: Promises) -> Vec<Violation> {
        check(&History { promises, ..self.history.clone() }).unwrap()
    }

    #[track_caller]
    pub fn forbidden(self, promise: &str) {
        let found = self.violations(Promises::Linearizable);
        let text: Vec<String> = found.iter().map(|violation| violation.explain(&self.history).to_string()).collect();
        assert!(found.iter().any(|violation| violation.promise == promise), "{promise:?} is not among {text:#?}");
    }

    #[track_caller]
    pub fn allowed(self) {
        self.allowed_by(Promises::Linearizable);
    }

    #[track_caller]
    pub fn allowed_by(self, promises: Promises) {
        let found = self.violations(promises);
        let text: Vec<String> = found.iter().map(|violation| violation.explain(&self.history).to_string()).collect();
        assert!(found.is_empty(), "{}", text.join("\n"));
    }

    #[track_caller]
    pub fn forbidden_at_quorum(self, promise: &str) {
        let found = self.violations(Promises::Quorum);
        assert!(found.iter().any(|violation| violation.promise == promise), "{promise:?} is not among {found:#?}");
    }
}

pub fn ms(moment: u64) -> Moment {
    // Nothing happens at moment 0, before which the state is the history's initial one.
    (moment + 1) * 1_000_000
}

pub fn unknown() -> Outcome {
    Outcome::Unknown { why: "the connection broke".into() }
}

/// A case, by the name that it is run under.
pub type Case = (&'static str, fn());
