//! The operator: makes Deployments of servers on Kubernetes match their `ListActorPool` objects.
//!
//! | file | content |
//! | --- | --- |
//! | `resource` | the custom resource: its fields, rules and columns |
//! | `decide` | the actions, from the observed state: a pure function |
//! | `status` | the report on a pool, by the API's conventions |
//! | `pods` | reading and resizing a server's pool of list actors |
//! | `cluster` | reading and writing objects of Kubernetes |
//! | `controller` | the loop: when a pool is checked again |
//! | `probes` | health and metrics of the operator |
//! | `cli` | the command line |
//! | `log` | the form of log lines |
//!
//! It stores nothing: it reads the state again at each check, so a restart costs nothing. It must never delete
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
