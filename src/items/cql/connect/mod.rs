//! The driver's sessions: to which nodes they connect, and how.
//!
//! | files | content |
//! | --- | --- |
//! | `driver` | opening a session, and the plan of its nodes |
//! | `datacenter`, `translate` | the local datacenter; addresses of nodes as seen from here |
//! | `tls`, `login` | certificates and credentials |
//! | `reach` | which contact points answer |
//! | `connection_errors` | why there is no connection |

pub mod connection_errors;
pub mod datacenter;
pub mod driver;
pub mod login;
pub mod reach;
pub mod tls;
pub mod translate;
