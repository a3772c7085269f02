//! Timestamps, values and bounds, drawn so that they coincide: ties, earlier requests, items that are about to expire.

use std::sync::atomic::Ordering;

use fastrand::Rng;

use super::world::{Kind, List, TTLS_SECS, World};
use crate::history::{GROUP_MEMBER, GroupBy, Item, NANOS_PER_SEC, Order, ValueType};

/// For a value; the limit of the API is slightly greater.
const VALUE_BYTES_MAX: usize = 60_000;
/// For aggregations.
const GROUPS_MAX: usize = 6;

impl World {
    /// A timestamp from a small grid, so that there are many ties and near ties, or one that is about to expire by one
    /// of the TTLs.
    pub(super) fn timestamp(&self, rng: &mut Rng, kind: Kind, wall: u64) -> u64 {
        if matches!(kind, Kind::Long | Kind::Bulky) {
            // Few, so that heads are full of ties, and change all the time.
            return self.epoch - rng.u64(0..3) * NANOS_PER_SEC;
        }
        if kind == Kind::Expiring && rng.u8(0..4) > 0 {
            let ttl = TTLS_SECS[rng.usize(0..TTLS_SECS.len())] * NANOS_PER_SEC;
            return wall - ttl + rng.u64(0..NANOS_PER_SEC) - NANOS_PER_SEC / 4;
        }
        self.on_grid(rng)
    }

    pub(super) fn on_grid(&self, rng: &mut Rng) -> u64 {
        let hour = 3_600 * NANOS_PER_SEC;
        self.epoch / hour * hour - 600 * NANOS_PER_SEC + rng.u64(0..24) * 60 * NANOS_PER_SEC / 4 + rng.u64(0..3)
    }

    /// An unused value; a few are large, so that stores have something to write.
    pub(super) fn value(&self, rng: &mut Rng, list: &List) -> String {
        let number = self.values.fetch_add(1, Ordering::Relaxed);
        let padding = match list.kind {
            Kind::Bulky => {
                let at_most = rng.usize(2_000..VALUE_BYTES_MAX);
                "x".repeat(rng.usize(1_000..at_most))
            }
            _ if rng.u8(0..20) == 0 => "·".repeat(rng.usize(100..2_000)),
            _ => String::new(),
        };
        match list.value_type {
            ValueType::String => format!("\"v-{number} é\\n{padding}\""),
            ValueType::Int64 => format!("-{number}"),
            // Some have no group.
            ValueType::Json => {
                let group = match number % 5 {
                    0 => String::new(),
                    group => format!("\"{GROUP_MEMBER}\":{group},"),
                };
                format!("{{{group}\"n\":[{number},null],\"t\":\"é{padding}\"}}")
            }
            ValueType::Bytes => {
                use base64::Engine;
                format!("\"{}\"", base64::engine::general_purpose::STANDARD.encode(number.to_be_bytes()))
            }
        }
    }

    pub(super) fn recent(rng: &mut Rng, list: &List) -> Option<Vec<Item>> {
        let sent = list.sent.lock().expect("no client panics");
        (!sent.is_empty()).then(|| sent[rng.usize(0..sent.len())].clone())
    }

    /// A recent value, or an unused one.
    pub(super) fn some_value(&self, rng: &mut Rng, list: &List) -> String {
        match Self::recent(rng, list) {
            Some(items) if rng.u8(0..10) > 0 => items[rng.usize(0..items.len())].value.clone(),
            _ => self.value(rng, list),
        }
    }

    /// Some items that were sent together, one of them twice, and one that was not sent.
    pub(super) fn some_items(&self, rng: &mut Rng, list: &List) -> Vec<Item> {
        let mut items = Self::recent(rng, list).unwrap_or_default();
        rng.shuffle(&mut items);
        items.truncate(rng.usize(0..=items.len()));
        items.extend(items.first().cloned().filter(|_| rng.bool()));
        if items.is_empty() || rng.bool() {
            items.push(Item { timestamp: self.on_grid(rng), value: self.value(rng, list) });
        }
        items
    }

    /// Bounds that exclude a part of a list, if it has been written to for a while. At least one.
    pub(super) fn narrow_bounds(&self, rng: &mut Rng, list: &List) -> (Option<u64>, Option<u64>) {
        let near = Self::recent(rng, list).map_or_else(|| self.on_grid(rng), |items| items[0].timestamp);
        if matches!(list.kind, Kind::Long | Kind::Bulky) {
            // Their timestamps are few.
            return (Some(near - rng.u64(0..NANOS_PER_SEC)), Some(near));
        }
        let span = rng.u64(0..3) * 15 * NANOS_PER_SEC + rng.u64(0..3);
        match rng.u8(0..8) {
            0 => (Some(near + 240 * NANOS_PER_SEC), None),
            1 => (None, Some(near - 240 * NANOS_PER_SEC)),
            _ => (Some(near), Some(near + span)),
        }
    }

    pub(super) fn bounds(&self, rng: &mut Rng, list: &List) -> (Option<u64>, Option<u64>) {
        let bound = |rng: &mut Rng| match Self::recent(rng, list) {
            // The exact moment of an item, as often as one near by.
            Some(items) if rng.bool() => items[0].timestamp,
            _ => self.on_grid(rng),
        };
        match rng.u8(0..10) {
            0..5 => (None, None),
            5..7 => (Some(bound(rng)), None),
            7..9 => (None, Some(bound(rng))),
            _ => {
                let (one, other) = (bound(rng), bound(rng));
                (Some(one.min(other)), Some(one.max(other)))
            }
        }
    }

    /// A few groups, of more values, for a part of aggregations.
    pub(super) fn grouping(rng: &mut Rng, value_type: ValueType) -> Option<GroupBy> {
        let by_member = value_type == ValueType::Json && rng.u8(0..3) > 0;
        (rng.u8(0..5) < 2).then(|| GroupBy { by_member, max_groups: rng.usize(1..=GROUPS_MAX) })
    }

    pub(super) fn order(rng: &mut Rng) -> Order {
        if rng.u8(0..4) == 0 { Order::Oldest } else { Order::Newest }
    }
}
