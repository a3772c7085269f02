//! The states that the row of a bag was in, by which a repeated attempt of a swap recognises its own earlier success.
//!
//! A row keeps the mark of its state, and behind it the marks of the states that it replaced, newest first. An attempt
//! that is not applied finds them in its answer. A release before this column leaves it as it is: then it does not
//! begin with the mark of the row's state, and counts for nothing.

use bytes::Bytes;
use uuid::Uuid;

/// Replaced states that a row keeps: more swaps of one bag than a cluster makes while an attempt waits for its answer.
const REPLACED_MAX: usize = 32;
const MARK_BYTES: usize = 8;

type Mark = [u8; MARK_BYTES];

/// The mark of a state, or of the lack of a row. The half of a random UUID that has its variant is never zero
/// (RFC 9562, section 4.1).
fn mark(state: Option<Uuid>) -> Mark {
    state.map_or([0; MARK_BYTES], |state| state.as_u64_pair().1.to_be_bytes())
}

/// The outcome of a swap of which an earlier attempt may have been applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Made,
    /// Other swaps replaced the state that it names, and none of its attempts can be applied any more.
    NotMade,
    /// More swaps followed than the row remembers, or another release changed the row.
    Unknown,
}

/// The states of a row as another swap leaves them, which replaces `before`.
pub fn after(state: Uuid, before: Option<Uuid>, states: Option<&[u8]>) -> Bytes {
    let mut all = mark(Some(state)).to_vec();
    match known(before, states) {
        Some(known) => all.extend_from_slice(known),
        None => all.extend_from_slice(&mark(before)),
    }
    all.truncate((1 + REPLACED_MAX) * MARK_BYTES);
    all.into()
}

/// The outcome of the swap that replaces `before` with `own`, by the state and the states that the row has now.
pub fn fate(own: Uuid, before: Option<Uuid>, present: Option<Uuid>, states: Option<&[u8]>) -> Fate {
    if present == Some(own) {
        return Fate::Made;
    }
    if present == before {
        return Fate::NotMade;
    }
    let Some(known) = known(present, states) else { return Fate::Unknown };
    let has = |state| known.chunks_exact(MARK_BYTES).any(|known| known == mark(state));
    match (has(Some(own)), has(before)) {
        (true, _) => Fate::Made,
        (false, true) => Fate::NotMade,
        (false, false) => Fate::Unknown,
    }
}

/// The states of a row, if they led to this one.
fn known(state: Option<Uuid>, states: Option<&[u8]>) -> Option<&[u8]> {
    states.filter(|states| state.is_some() && states.starts_with(&mark(state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row, as swaps of both releases leave it.
    #[derive(Clone, Default)]
    struct Row {
        state: Option<Uuid>,
        states: Option<Bytes>,
    }

    impl Row {
        fn swapped(&self) -> Self {
            let state = Uuid::new_v4();
            Self { state: Some(state), states: Some(after(state, self.state, self.states.as_deref())) }
        }

        fn swapped_by_an_older_release(&self) -> Self {
            Self { state: Some(Uuid::new_v4()), states: self.states.clone() }
        }

        fn after_others(&self, others: usize) -> Self {
            (0..others).fold(self.clone(), |row, _| row.swapped())
        }

        fn fate_of(&self, own: &Self, before: &Self) -> Fate {
            fate(own.state.unwrap(), before.state, self.state, self.states.as_deref())
        }
    }

    #[test]
    fn a_swap_is_found_among_replaced_states() {
        for before in [Row::default(), Row::default().swapped(), Row::default().after_others(50)] {
            let own = before.swapped();
            for others in 0..=REPLACED_MAX {
                assert_eq!(own.after_others(others).fate_of(&own, &before), Fate::Made, "{others}");
            }
            assert_eq!(own.after_others(REPLACED_MAX + 1).fate_of(&own, &before), Fate::Unknown);
            let states = own.after_others(100).states.unwrap();
            assert_eq!(states.len(), (REPLACED_MAX + 1) * MARK_BYTES);
        }
    }

    #[test]
    fn an_unapplied_swap_finds_its_expected_state() {
        for before in [Row::default(), Row::default().swapped(), Row::default().after_others(50)] {
            let own = before.swapped();
            for others in 0..=REPLACED_MAX {
                let expected = Fate::NotMade;
                assert_eq!(before.after_others(others).fate_of(&own, &before), expected, "{others}");
            }
            assert_eq!(before.after_others(REPLACED_MAX + 1).fate_of(&own, &before), Fate::Unknown);
        }
    }

    #[test]
    fn incomplete_states_of_older_releases_decide_nothing() {
        let before = Row::default().swapped();
        let own = before.swapped();
        for made in [own.clone(), before.clone()] {
            let older = made.swapped_by_an_older_release();
            assert_eq!(older.fate_of(&own, &before), Fate::Unknown);
            assert_eq!(older.after_others(3).fate_of(&own, &before), Fate::Unknown);
        }
        // A row that knows of no states, and one that is gone.
        let bare = Row { state: Some(Uuid::new_v4()), states: None };
        assert_eq!(bare.fate_of(&own, &before), Fate::Unknown);
        assert_eq!(Row::default().fate_of(&own, &before), Fate::Unknown);
        // The next swap begins again.
        let next = bare.swapped();
        assert_eq!(next.after_others(2).fate_of(&next, &bare), Fate::Made);
    }
}
