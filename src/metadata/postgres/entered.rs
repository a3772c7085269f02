//! Connections that may be dropped anywhere.
//!
//! When the driver drops a connection, it returns it from a spawned task, and panics without a runtime. The tasks of an
//! ending arbiter are dropped outside of its runtime. A connection under construction has no owner that could end it
//! first.

use std::ops::{Deref, DerefMut};

use scopeguard::ScopeGuard;
use tokio::runtime::Handle;

/// A value of the driver that is dropped within the runtime in which it was made, even if the runtime is about to end.
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
