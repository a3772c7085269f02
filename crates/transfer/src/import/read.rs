//! The reading thread: from files to groups.

use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;

use super::buffer::{Buffer, NotBuffered};
use super::csv_file::OPEN_END;
use super::dialect::CsvDialect;
use super::groups::RowOrigin;
use super::input::Input;
use super::row::{Row, Step, Unreadable};
use super::rows::Rows;
use super::shape::Shape;
use super::source::Source;
use super::tally::Tally;
use crate::client::Failure;

/// Starts to read; the answer comes when all rows are in the buffer, or at the first failure. It ends early, and
/// quietly, once the buffer is closed.
pub fn start(
    sources: Vec<Source>,
    (shape, dialect): (Shape, CsvDialect),
    buffer: Arc<Buffer>,
    tally: Arc<Tally>,
) -> Result<oneshot::Receiver<Result<(), Failure>>, Failure> {
    let (done, outcome) = oneshot::channel();
    let reader = Reader { shape, dialect, buffer, tally };
    let thread = thread::Builder::new().name("import-reader".to_owned());
    // It is not joined: it may wait for standard input when the import is over.
    thread
        .spawn(move || {
            // After an interruption there is no receiver.
            let outcome = reader.read_all(&sources);
            let _ = done.send(outcome);
            reader.buffer.end();
        })
        .map_err(|e| Failure::failed(format!("cannot start a thread: {e}")))?;
    Ok(outcome)
}

struct Reader {
    shape: Shape,
    dialect: CsvDialect,
    buffer: Arc<Buffer>,
    tally: Arc<Tally>,
}

/// Why the reader ends before the files do.
enum End {
    Failed(Failure),
    Closed,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Reader {
    fn read_all(&self, sources: &[Source]) -> Result<(), Failure> {
        match self.try_read_all(sources) {
            Ok(()) | Err(End::Closed) => Ok(()),
            Err(End::Failed(failure)) => Err(failure),
        }
    }

    fn try_read_all(&self, sources: &[Source]) -> Result<(), End> {
        sources.iter().enumerate().try_for_each(|(index, source)| self.read(index as u32, source))
    }

    fn read(&self, index: u32, source: &Source) -> Result<(), End> {
        let name = &source.name;
        let unreadable = |e: Unreadable| if self.tally.stop.is_set() { End::Closed } else { End::Failed(e.of(name)) };
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
                        self.tally.count_doubtful();
                        self.tally.warn_of_unit(|| self.shape.unit_warning(likely));
                    }
                    if row.is_utc_assumed {
                        self.tally.warn_of_zone();
                    }
                    let raw = self.tally.keeps_bad_rows().then(|| rows.raw());
                    match self.buffer.push(&row, RowOrigin { source: index, line }, raw) {
                        Ok(()) => continue,
                        Err(NotBuffered::Closed) => return Err(End::Closed),
                        Err(NotBuffered::Bad(reason)) => (line, reason),
                    }
                }
            };
            self.tally.reject(name, line, &reason, Some(&rows.raw()))?;
        }
    }
}
