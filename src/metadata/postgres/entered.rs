//! Connections that may be dropped anywhere.
//!
//! The driver gives a connection back from a task that it spawns when the connection is dropped, and
//! panics where there is no runtime to spawn on. The tasks of an arbiter that ends are dropped outside
//! of its runtime, and a connection that is being made has no owner who could be asked to end it first.

use std::ops::{Deref, DerefMut};

use scopeguard::ScopeGuard;
use tokio::runtime::Handle;

/// Something of the driver's that is dropped within the runtime in which it was made, even when that
/// is about to end.
pub(super) struct Entered<T>(ScopeGuard<Inner<T>, fn(Inner<T>)>);

struct Inner<T> {
    of_the_driver: T,
    runtime: Handle,
}

impl<T> Entered<T> {
    /// Must be called on a tokio runtime.
    pub fn new(of_the_driver: T) -> Self {
        let inner = Inner { of_the_driver, runtime: Handle::current() };
        Self(scopeguard::guard(inner, |Inner { of_the_driver, runtime }| {
            let _entered = runtime.enter();
            drop(of_the_driver);
        }))
    }
}

impl<T> Deref for Entered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.of_the_driver
    }
}

impl<T> DerefMut for Entered<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.of_the_driver
    }
}
