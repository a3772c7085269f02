//! The reading thread: from files to groups.

use std::sync::Arc;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::csv_file::{CsvDialect, OPEN_END};
use super::groups::{Group, Groups, RowOrigin};
use super::input::Input;
use super::row::{Row, Step, Unreadable};
use super::rows::Rows;
use super::shape::Shape;
use super::source::Source;
use super::tally::Tally;
use crate::client::Failure;

/// Starts to read; the answer comes when all groups are handed on, or at the first failure. It
/// ends early, and quietly, once nobody takes its groups any more.
pub fn start(
    sources: Vec<Source>,
    (shape, dialect): (Shape, CsvDialect),
    groups: mpsc::Sender<Group>,
    tally: Arc<Tally>,
) -> Result<oneshot::Receiver<Result<(), Failure>>, Failure> {
    let (done, outcome) = oneshot::channel();
    let reader = Reader { shape, dialect, groups, tally, waiting: Groups::default() };
    let thread = thread::Builder::new().name("import-reader".to_owned());
    // It is not joined: it may wait for standard input when the import is over.
    thread
        .spawn(move || {
            // Nobody hears it after an interruption.
            let _ = done.send(reader.read_all(&sources));
        })
        .map_err(|e| Failure::failed(format!("cannot start a thread: {e}")))?;
    Ok(outcome)
}

struct Reader {
    shape: Shape,
    dialect: CsvDialect,
    groups: mpsc::Sender<Group>,
    tally: Arc<Tally>,
    waiting: Groups,
}

/// Why the reader ends before the files do.
enum End {
    Failed(Failure),
    NobodyListens,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Reader {
    fn read_all(mut self, sources: &[Source]) -> Result<(), Failure> {
        match self.try_read_all(sources) {
            Ok(()) | Err(End::NobodyListens) => Ok(()),
            Err(End::Failed(failure)) => Err(failure),
        }
    }

    fn try_read_all(&mut self, sources: &[Source]) -> Result<(), End> {
        for (index, source) in sources.iter().enumerate() {
            self.read(index as u32, source)?;
        }
        let rest: Vec<Group> = self.waiting.take_all().collect();
        rest.into_iter().try_for_each(|group| self.hand_on(group))
    }

    fn read(&mut self, index: u32, source: &Source) -> Result<(), End> {
        let name = &source.name;
        let unreadable = |e: Unreadable| e.of(name);
        let input = Input::open(source, Arc::clone(&self.tally)).map_err(|e| unreadable(e.to_string().into()))?;
        let mut rows = Rows::open(source.format, input, &self.shape, self.dialect).map_err(unreadable)?;
        if let Some(header) = rows.header() {
            self.tally.header(header, name).map_err(|e| unreadable(e.into()))?;
        }
        let mut row = Row::default();
        loop {
            let step = rows.next(&self.shape, &mut row).map_err(unreadable)?;
            if step != Step::End {
                self.tally.count_row();
            }
            let (line, reason) = match step {
                Step::End => {
                    if let Some(line) = rows.open_end() {
                        self.tally.warn(format!("{name}, line {line}: {OPEN_END}"));
                    }
                    return Ok(());
                }
                Step::Bad { line, reason } => (line, reason),
                Step::Row { line } => {
                    if let Some(likely) = self.shape.likely_unit(row.timestamp) {
                        self.tally.warn_of_unit(|| self.shape.unit_warning(likely));
                    }
                    if row.is_utc_assumed {
                        self.tally.warn_of_zone();
                    }
                    let raw = self.tally.keeps_bad_rows().then(|| rows.raw());
                    match self.waiting.push(&row, RowOrigin { source: index, line }, raw) {
                        Ok(full) => {
                            full.map_or(Ok(()), |group| self.hand_on(group))?;
                            self.make_room()?;
                            continue;
                        }
                        Err(reason) => (line, reason),
                    }
                }
            };
            self.tally.reject(name, line, &reason, Some(&rows.raw()))?;
        }
    }

    fn make_room(&mut self) -> Result<(), End> {
        if !self.waiting.is_full() {
            return Ok(());
        }
        self.waiting.take_largest().into_iter().try_for_each(|group| self.hand_on(group))
    }

    fn hand_on(&self, group: Group) -> Result<(), End> {
        self.groups.blocking_send(group).map_err(|_| End::NobodyListens)
    }
}
