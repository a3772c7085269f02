//! Reads many lists: pages of items, or their aggregates.
//!
//! Pages in memory are read on the calling thread, list by list. Other pages are read through their actors, a bounded
//! number at once, each with a separate permit. Equal requests share a read.
//!
//! All pages together have at most the bytes of one page. A page that does not fit gets an error, and the caller
//! requests it again. The first page always fits, so repeated calls come to an end. Memory is reserved as pages arrive.
//! Without memory, the whole call is refused.

use std::cell::Cell;

use futures_util::StreamExt;
use futures_util::stream;
use hashbrown::HashTable;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::lists::{FIRST_BYTES, PageRead};
use super::super::page_cache::RenderedPage;
use super::super::requests::{GetItems, ListRead};
use super::super::{Caller, Service, ServiceError};
use super::{BatchPace, SetAside, in_time};
use crate::access::{ANSWER_BYTES_MIN, Permission};
use crate::actors::ListPool;

/// Lists of one call that are read concurrently through their actors. Enough to keep disks, or the nodes of a cluster,
/// busy for one caller. Few enough that one call does not use up the permits of an actor.
const READS_AT_ONCE: usize = 32;

/// Any budget has room for the reservation of a call before its reads.
const _: () = assert!(READS_AT_ONCE * FIRST_BYTES <= ANSWER_BYTES_MIN);

pub(super) type PageAnswer = Result<RenderedPage, ServiceError>;

/// The state of a request.
enum RequestState {
    Answered(PageAnswer),
    /// It needs a read through the list's actor.
    Waits,
    /// It shares the answer of an earlier request.
    As(usize),
}

/// The reads of a call, by which equal requests are found.
#[derive(Default)]
struct BatchReads {
    /// By request. `None` for refused requests.
    all: Vec<Option<PageRead>>,
    distinct: HashTable<usize>,
}

impl BatchReads {
    /// The position of an earlier equal read.
    fn find(&self, read: &PageRead) -> Option<usize> {
        self.distinct.find(read.hash(), |place| self.all[*place].as_ref() == Some(read)).copied()
    }

    /// Stores the read of the next request, which equals no earlier one.
    fn push(&mut self, read: PageRead) {
        let all = &self.all;
        let hash = |place: &usize| all[*place].as_ref().map_or(0, PageRead::hash);
        self.distinct.insert_unique(read.hash(), all.len(), hash);
        self.all.push(Some(read));
    }
}

/// The bytes that are left for the pages and other parts of an answer.
#[derive(Clone, Copy)]
pub(in crate::service) struct AnswerRoom {
    bytes: usize,
    is_untouched: bool,
}

impl AnswerRoom {
    pub fn of(bytes: usize) -> Self {
        Self { bytes, is_untouched: true }
    }

    /// Whether nothing has used it yet.
    pub fn is_untouched(self) -> bool {
        self.is_untouched
    }

    /// Allots bytes to a page. The first page always fits.
    fn take(room: &Cell<Self>, page: RenderedPage) -> PageAnswer {
        Self::take_bytes(room, page.text.len()).map(|()| page)
    }

    /// Allots bytes by the same rule.
    pub fn take_bytes(room: &Cell<Self>, wanted: usize) -> Result<(), ServiceError> {
        let Self { bytes, is_untouched } = room.get();
        if wanted > bytes && !is_untouched {
            return Err(ServiceError::NoRoomInAnswer);
        }
        room.set(Self { bytes: bytes.saturating_sub(wanted), is_untouched: false });
        Ok(())
    }

    /// Whether a page may still fit, before it is read.
    pub fn check(room: &Cell<Self>) -> Result<(), ServiceError> {
        if room.get().bytes > 0 { Ok(()) } else { Err(ServiceError::NoRoomInAnswer) }
    }
}

impl Service {
    pub(crate) async fn batch_get(
        &self,
        caller: &Caller,
        requests: Vec<Result<ListRead<'_>, ServiceError>>,
    ) -> Result<Vec<PageAnswer>, ServiceError> {
        caller.take_items(requests.len())?;
        let deadline = self.deadline(caller);
        let room = Cell::new(AnswerRoom::of(self.options.page_bytes_max));
        let (requests, refused) = SetAside::sort_out(requests);
        let answers = self.read_lists(caller, requests, &room, deadline).await?;
        Ok(refused.put_back(answers))
    }

    /// Reads lists, each with a separate result, together within the room. Pages of items have precedence over
    /// aggregates.
    pub(in crate::service) async fn read_lists(
        &self,
        caller: &Caller,
        requests: Vec<ListRead<'_>>,
        room: &Cell<AnswerRoom>,
        deadline: Instant,
    ) -> Result<Vec<PageAnswer>, ServiceError> {
        let (mut gets, mut aggregates, mut are_gets) = (Vec::with_capacity(requests.len()), Vec::new(), Vec::new());
        for request in requests {
            are_gets.push(matches!(request, ListRead::Items(_)));
            match request {
                ListRead::Items(get) => gets.push(get),
                ListRead::Aggregates(aggregate) => aggregates.push(aggregate),
            }
        }
        let pages = self.read_pages(caller, &gets, room, deadline).await?;
        if aggregates.is_empty() {
            return Ok(pages);
        }
        let mut aggregated = self.aggregate_lists(caller, &aggregates, room, deadline).await?.into_iter();
        let mut pages = pages.into_iter();
        Ok(are_gets.iter().filter_map(|is_get| if *is_get { pages.next() } else { aggregated.next() }).collect())
    }

    /// Reads pages of lists, each with a separate result, together within the room.
    async fn read_pages(
        &self,
        caller: &Caller,
        requests: &[GetItems<'_>],
        room: &Cell<AnswerRoom>,
        deadline: Instant,
    ) -> Result<Vec<PageAnswer>, ServiceError> {
        let lists = requests.iter().map(|request| &request.list);
        let versions = self.versions(caller, Permission::ListsRead, lists, deadline).await;
        let (mut states, mut turn) = (Vec::with_capacity(requests.len()), BatchPace::default());
        let mut reads = BatchReads { all: Vec::with_capacity(requests.len()), ..BatchReads::default() };
        for (index, request) in requests.iter().enumerate() {
            let found = self.check_moment(request.as_of).and_then(|()| versions.of(index).clone());
            let read = found.and_then(|found| PageRead::new(found, request));
            let same = read.as_ref().ok().and_then(|read| reads.find(read));
            let state = match (read, same) {
                (Ok(read), None) => {
                    let answer = self.answer_from_memory(caller, &read, room, deadline);
                    reads.push(read);
                    answer.map_or(RequestState::Waits, RequestState::Answered)
                }
                (Ok(_), Some(same)) => {
                    reads.all.push(None);
                    RequestState::As(same)
                }
                (Err(error), _) => {
                    reads.all.push(None);
                    RequestState::Answered(Err(error))
                }
            };
            let bytes = if let RequestState::Answered(Ok(page)) = &state { page.text.len() } else { 0 };
            states.push(state);
            turn.count(bytes).await;
        }
        self.read_the_rest(caller, &mut states, &reads, room, deadline).await?;
        let answers = self.answers(caller, states, room);
        if answers.iter().any(|answer| matches!(answer, Err(ServiceError::NoMemoryForAnswer))) {
            return Err(ServiceError::NoMemoryForAnswer);
        }
        let read = answers.iter().flatten().map(|page| page.items.saturating_sub(1));
        caller.charge_items(read.sum());
        Ok(answers)
    }

    /// `None` if the list must be read through its actor.
    fn answer_from_memory(
        &self,
        caller: &Caller,
        read: &PageRead,
        room: &Cell<AnswerRoom>,
        deadline: Instant,
    ) -> Option<PageAnswer> {
        if let Some(page) = self.kept_page(read) {
            return Some(self.take_room(caller, room, page));
        }
        if let Err(full) = AnswerRoom::check(room) {
            return Some(Err(full));
        }
        let bytes_max = self.options.page_bytes_max;
        let (page, validity) =
            self.lists.get_from_memory(&read.list, read.retention, &read.range(bytes_max), deadline)?;
        let page = self.render_page(caller, read, &page, validity);
        Some(page.and_then(|page| self.take_room(caller, room, page)))
    }

    /// Reads the pages that were not in memory, a bounded number of lists at once.
    async fn read_the_rest(
        &self,
        caller: &Caller,
        states: &mut [RequestState],
        reads: &BatchReads,
        room: &Cell<AnswerRoom>,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let waiting = states.iter().zip(&reads.all).enumerate().filter_map(|(place, known)| match known {
            (RequestState::Waits, Some(read)) => Some((place, read)),
            _ => None,
        });
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.reserve(caller, waiting.len().min(READS_AT_ONCE) * FIRST_BYTES)?;
        // Long pages of a call are read one at a time, so that it needs at most the memory of its answer.
        let (lists, long) = (self.lists_of(caller), Mutex::new(()));
        let (lists, long) = (&*lists, &long);
        let reading = waiting.into_iter().map(|(place, read)| async move {
            let answer = self.read_through_actor(caller, lists, read, room, long, deadline).await;
            (place, answer)
        });
        let mut reading = stream::iter(reading).buffer_unordered(READS_AT_ONCE);
        while let Some((place, answer)) = reading.next().await {
            states[place] = RequestState::Answered(answer);
        }
        Ok(())
    }

    async fn read_through_actor(
        &self,
        caller: &Caller,
        lists: &ListPool,
        read: &PageRead,
        room: &Cell<AnswerRoom>,
        long: &Mutex<()>,
        deadline: Instant,
    ) -> PageAnswer {
        AnswerRoom::check(room)?;
        in_time(deadline)?;
        if let Some(page) = self.read_first(lists, read, deadline).await? {
            return self.take_room(caller, room, self.render_page(caller, read, &page, None)?);
        }
        let _alone = long.lock().await;
        AnswerRoom::check(room)?;
        in_time(deadline)?;
        let page = self.read_in_full(caller, lists, read, deadline).await?;
        self.take_room(caller, room, self.render_page(caller, read, &page, None)?)
    }

    /// Allots bytes of the answer to a page, and reserves its memory.
    pub(super) fn take_room(&self, caller: &Caller, room: &Cell<AnswerRoom>, page: RenderedPage) -> PageAnswer {
        let page = AnswerRoom::take(room, page)?;
        self.reserve_room(caller, room)?;
        Ok(page)
    }

    /// Reserves memory for the allotted bytes.
    pub(in crate::service) fn reserve_room(
        &self,
        caller: &Caller,
        room: &Cell<AnswerRoom>,
    ) -> Result<(), ServiceError> {
        self.reserve_if_long(caller, self.bytes_taken(room))
    }

    /// The allotted bytes.
    pub(in crate::service) fn bytes_taken(&self, room: &Cell<AnswerRoom>) -> usize {
        self.options.page_bytes_max.saturating_sub(room.get().bytes)
    }

    /// The answers in the order of the requests. A shared answer counts for each request.
    fn answers(&self, caller: &Caller, states: Vec<RequestState>, room: &Cell<AnswerRoom>) -> Vec<PageAnswer> {
        let mut answers: Vec<PageAnswer> = Vec::with_capacity(states.len());
        for state in states {
            answers.push(match state {
                RequestState::Answered(answer) => answer,
                RequestState::As(place) => answers[place].clone().and_then(|page| self.take_room(caller, room, page)),
                RequestState::Waits => Err(ServiceError::DeadlineExceeded { outcome_unknown: false }),
            });
        }
        answers
    }
}
