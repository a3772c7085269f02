//! The operator: brings Deployments of servers on Kubernetes to what `ListActorPool` objects ask for.
//!
//! | file | what it owns |
//! | --- | --- |
//! | `resource` | the custom resource: its fields, rules and columns |
//! | `decide` | what is to be done, from what was seen: a pure function |
//! | `status` | what is told of a pool, by the API's conventions |
//! | `pods` | asking a server for its pool of list actors, and for another size |
//! | `cluster` | reading and writing objects of Kubernetes |
//! | `controller` | the loop: when a pool is looked at again |
//! | `probes` | health and metrics of the operator |
//! | `cli` | the command line |
//! | `log` | how lines of the log look |
//!
//! It stores nothing: it reads the state again at each look, so a restart costs nothing. It must never delete
//! anything, and changes only the number of replicas of a Deployment.

pub mod cli;
mod cluster;
mod controller;
mod decide;
mod log;
mod pods;
mod probes;
mod resource;
mod status;
