//! Turns: when a connection lets other connections go first.

use std::pin::pin;

use super::super::line::Line;
use super::super::slots::Slot;
use super::super::{Class, Handler, Refusal, Stream, TURN_REQUESTS};
use super::{Connection, End};

impl<S: Stream, H: Handler> Connection<'_, S, H> {
    /// Ends the turn of the connection if it has lasted long enough. A turn of a stranger is one request.
    pub(super) async fn answered(&mut self) -> Result<(), End> {
        self.answered_in_turn += 1;
        if self.share.holder().is_stranger() && !self.input.is_empty() {
            self.answered_in_turn = 0;
            let shared = self.shared;
            self.wait_in_line(&shared.line).await?;
            self.has_waited_in_line = true;
        } else if self.answered_in_turn >= TURN_REQUESTS {
            self.end_turn().await?;
        }
        Ok(())
    }

    /// Lets other connections have their turn. The connection of an unknown caller may lose its slot, regardless of its
    /// number of requests.
    async fn end_turn(&mut self) -> Result<(), End> {
        self.answered_in_turn = 0;
        self.flush().await?;
        let slot = self.slot.filter(|_| !self.share.holder().is_known());
        if let Some(slot) = slot {
            slot.rest(self.answered_at);
        }
        tokio::task::yield_now().await;
        match slot {
            Some(slot) if slot.is_leaving() && !self.input.is_empty() => Err(End::Refused(Refusal::Overloaded)),
            _ => Ok(()),
        }
    }

    /// Lets other requests go first, if the next one is for a document, or if the connection's last caller was a
    /// stranger.
    ///
    /// The first request of a connection may come from a caller with a key. Health requests of connections without a
    /// known caller wait in a separate line, so that other strangers cannot delay monitoring.
    pub(super) async fn let_others_go_before(&mut self, class: Class) -> Result<(), End> {
        let has_waited_in_line = std::mem::take(&mut self.has_waited_in_line);
        let (shared, holder) = (self.shared, self.share.holder());
        let line = match class {
            Class::Document => Some(&shared.line),
            Class::Control | Class::Load => Some(&shared.line).filter(|_| self.has_asked && holder.is_stranger()),
            Class::Health => Some(&shared.health_line).filter(|_| self.has_asked && !holder.is_known()),
        };
        match line {
            Some(line) if !has_waited_in_line => self.wait_in_line(line).await,
            _ => Ok(()),
        }
    }

    /// Waits in a line. The connection of an unknown caller may lose its slot during the wait.
    async fn wait_in_line(&mut self, line: &Line) -> Result<(), End> {
        self.flush().await?;
        let slot = self.slot.filter(|_| !self.share.holder().is_known());
        let waited = self.wait_while_connected(pin!(line.turn()), slot).await;
        match slot.is_some_and(Slot::is_leaving) {
            true => Err(End::Refused(Refusal::Overloaded)),
            false => waited,
        }
    }
}
