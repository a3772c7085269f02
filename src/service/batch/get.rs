//! Get List Items of many lists.
//!
//! What is in memory is answered on the calling thread, list by list. The others are read through their
//! actors, a bounded number at once, each by a permit of its own as any get. Equal requests are one read.
//!
//! All pages together have the bytes that one page may have. Pages get their room as they come; one that
//! does not fit is told so, and is to be asked for again. The first page always fits, so that whoever asks
//! again for what did not fit comes to an end. Their memory is reserved as they come; where there is none, the whole
//! call is refused.

use std::cell::Cell;

use futures_util::StreamExt;
use futures_util::stream;
use hashbrown::HashTable;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::lists::{FIRST_BYTES, PageRead};
use super::super::page_cache::RenderedPage;
use super::super::requests::GetItems;
use super::super::{Caller, Service, ServiceError};
use super::{SetAside, Turn, in_time};
use crate::access::{ANSWER_BYTES_MIN, Permission};
use crate::actors::ListPool;

/// Lists of one call that are read through their actors at once. Enough to keep disks, and the nodes of a
/// cluster, busy for one caller; few enough that one call takes no actor's permits from all others.
const READS_AT_ONCE: usize = 32;

/// What a call reserves for its reads before they begin has room in any budget.
const _: () = assert!(READS_AT_ONCE * FIRST_BYTES <= ANSWER_BYTES_MIN);

type PageResult = Result<RenderedPage, ServiceError>;

/// What is known of a request.
enum State {
    Answered(PageResult),
    /// To be read through the list's actor.
    Waits,
    /// Has the answer of an earlier one.
    As(usize),
}

/// The reads of a call, so that equal ones are found.
#[derive(Default)]
struct Reads {
    /// By request; none of those that are refused.
    all: Vec<Option<PageRead>>,
    distinct: HashTable<usize>,
}

impl Reads {
    /// The place of an earlier read that equals this one.
    fn find(&self, read: &PageRead) -> Option<usize> {
        self.distinct.find(read.hash(), |place| self.all[*place].as_ref() == Some(read)).copied()
    }

    /// Keeps the read of the next request, which equals no earlier one.
    fn push(&mut self, read: PageRead) {
        let all = &self.all;
        let hash = |place: &usize| all[*place].as_ref().map_or(0, PageRead::hash);
        self.distinct.insert_unique(read.hash(), all.len(), hash);
        self.all.push(Some(read));
    }
}

/// The bytes that are left for pages, and for whatever else stands in an answer.
#[derive(Clone, Copy)]
pub(in crate::service) struct Room {
    bytes: usize,
    is_untouched: bool,
}

impl Room {
    pub fn of(bytes: usize) -> Self {
        Self { bytes, is_untouched: true }
    }

    /// Whether nothing has room yet.
    pub fn is_untouched(self) -> bool {
        self.is_untouched
    }

    /// Gives a page its room. The first has it, however large it is.
    fn take(room: &Cell<Self>, page: RenderedPage) -> PageResult {
        Self::take_bytes(room, page.text.len()).map(|()| page)
    }

    /// Gives as many bytes their room, as it does a page.
    pub fn take_bytes(room: &Cell<Self>, wanted: usize) -> Result<(), ServiceError> {
        let Self { bytes, is_untouched } = room.get();
        if wanted > bytes && !is_untouched {
            return Err(ServiceError::NoRoomInAnswer);
        }
        room.set(Self { bytes: bytes.saturating_sub(wanted), is_untouched: false });
        Ok(())
    }

    /// To be asked before a page is read: whether there may be room for it.
    pub fn check(room: &Cell<Self>) -> Result<(), ServiceError> {
        if room.get().bytes > 0 { Ok(()) } else { Err(ServiceError::NoRoomInAnswer) }
    }
}

impl Service {
    pub(crate) async fn batch_get(
        &self,
        caller: &Caller,
        requests: Vec<Result<GetItems<'_>, ServiceError>>,
    ) -> Result<Vec<PageResult>, ServiceError> {
        caller.take_items(requests.len())?;
        let deadline = self.deadline(caller);
        let room = Cell::new(Room::of(self.options.page_bytes_max));
        let (requests, refused) = SetAside::sort_out(requests);
        let pages = self.read_pages(caller, &requests, &room, deadline).await?;
        Ok(refused.put_back(pages))
    }

    /// Reads pages of lists: each by itself, and together within the room.
    pub(in crate::service) async fn read_pages(
        &self,
        caller: &Caller,
        requests: &[GetItems<'_>],
        room: &Cell<Room>,
        deadline: Instant,
    ) -> Result<Vec<PageResult>, ServiceError> {
        let lists = requests.iter().map(|request| &request.list);
        let versions = self.versions(caller, Permission::ListsRead, lists, deadline).await;
        let (mut states, mut turn) = (Vec::with_capacity(requests.len()), Turn::default());
        let mut reads = Reads { all: Vec::with_capacity(requests.len()), ..Reads::default() };
        for (index, request) in requests.iter().enumerate() {
            let found = self.check_moment(request.as_of).and_then(|()| versions.of(index).clone());
            let read = found.and_then(|found| PageRead::new(found, request));
            let same = read.as_ref().ok().and_then(|read| reads.find(read));
            let state = match (read, same) {
                (Ok(read), None) => {
                    let answer = self.answer_from_memory(caller, &read, room, deadline);
                    reads.push(read);
                    answer.map_or(State::Waits, State::Answered)
                }
                (Ok(_), Some(same)) => {
                    reads.all.push(None);
                    State::As(same)
                }
                (Err(error), _) => {
                    reads.all.push(None);
                    State::Answered(Err(error))
                }
            };
            let bytes = if let State::Answered(Ok(page)) = &state { page.text.len() } else { 0 };
            states.push(state);
            turn.count(bytes).await;
        }
        self.read_the_rest(caller, &mut states, &reads, room, deadline).await?;
        let answers = self.answers(caller, states, room);
        if answers.iter().any(|answer| matches!(answer, Err(ServiceError::NoMemoryForAnswer))) {
            return Err(ServiceError::NoMemoryForAnswer);
        }
        let read = answers.iter().flatten().map(|page| page.items.saturating_sub(1));
        caller.owe_items(read.sum());
        Ok(answers)
    }

    /// None if the list has to be read through its actor.
    fn answer_from_memory(
        &self,
        caller: &Caller,
        read: &PageRead,
        room: &Cell<Room>,
        deadline: Instant,
    ) -> Option<PageResult> {
        if let Some(page) = self.kept_page(read) {
            return Some(self.take_room(caller, room, page));
        }
        if let Err(full) = Room::check(room) {
            return Some(Err(full));
        }
        let bytes_max = self.options.page_bytes_max;
        let (page, validity) =
            self.lists.get_from_memory(&read.list, read.retention, &read.range(bytes_max), deadline)?;
        let page = self.render_page(caller, read, &page, validity);
        Some(page.and_then(|page| self.take_room(caller, room, page)))
    }

    /// Reads what was not in memory, a bounded number of lists at once.
    async fn read_the_rest(
        &self,
        caller: &Caller,
        states: &mut [State],
        reads: &Reads,
        room: &Cell<Room>,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let waiting = states.iter().zip(&reads.all).enumerate().filter_map(|(place, known)| match known {
            (State::Waits, Some(read)) => Some((place, read)),
            _ => None,
        });
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.reserve(caller, waiting.len().min(READS_AT_ONCE) * FIRST_BYTES)?;
        // Of a call's long pages one is read at a time, so that it needs no more memory than its answer may have.
        let (lists, long) = (self.lists_of(caller), Mutex::new(()));
        let (lists, long) = (&*lists, &long);
        let reading = waiting.into_iter().map(|(place, read)| async move {
            let answer = self.read_through_actor(caller, lists, read, room, long, deadline).await;
            (place, answer)
        });
        let mut reading = stream::iter(reading).buffer_unordered(READS_AT_ONCE);
        while let Some((place, answer)) = reading.next().await {
            states[place] = State::Answered(answer);
        }
        Ok(())
    }

    async fn read_through_actor(
        &self,
        caller: &Caller,
        lists: &ListPool,
        read: &PageRead,
        room: &Cell<Room>,
        long: &Mutex<()>,
        deadline: Instant,
    ) -> PageResult {
        Room::check(room)?;
        in_time(deadline)?;
        if let Some(page) = self.read_first(lists, read, deadline).await? {
            return self.take_room(caller, room, self.render_page(caller, read, &page, None)?);
        }
        let _alone = long.lock().await;
        Room::check(room)?;
        in_time(deadline)?;
        let page = self.read_in_full(caller, lists, read, deadline).await?;
        self.take_room(caller, room, self.render_page(caller, read, &page, None)?)
    }

    /// Gives a page its room in the answer, and memory with it.
    fn take_room(&self, caller: &Caller, room: &Cell<Room>, page: RenderedPage) -> PageResult {
        let page = Room::take(room, page)?;
        self.reserve_room(caller, room)?;
        Ok(page)
    }

    /// Reserves memory for what has its room in the answer so far.
    pub(in crate::service) fn reserve_room(&self, caller: &Caller, room: &Cell<Room>) -> Result<(), ServiceError> {
        self.reserve_if_long(caller, self.bytes_taken(room))
    }

    /// What has its room in the answer so far.
    pub(in crate::service) fn bytes_taken(&self, room: &Cell<Room>) -> usize {
        self.options.page_bytes_max.saturating_sub(room.get().bytes)
    }

    /// The answers in the order of the requests. What has the answer of another one needs room of its own.
    fn answers(&self, caller: &Caller, states: Vec<State>, room: &Cell<Room>) -> Vec<PageResult> {
        let mut answers: Vec<PageResult> = Vec::with_capacity(states.len());
        for state in states {
            answers.push(match state {
                State::Answered(answer) => answer,
                State::As(place) => answers[place].clone().and_then(|page| self.take_room(caller, room, page)),
                State::Waits => Err(ServiceError::DeadlineExceeded { outcome_unknown: false }),
            });
        }
        answers
    }
}
