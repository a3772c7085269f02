//! Bags and indexes of two servers on one cluster and one Postgres. Entries are sometimes refused, connections break
//! between a swap and its answer, and one server dies now and then, while an index is created and dropped under one
//! name.
//!
//! Nothing that does not match is found, and everything acknowledged is found soon, also by a later index. The shared
//! counter in one bag equals the number of acknowledged increments.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use scylla::errors::DbError;
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule, ResponseReaction, ResponseRule};

use crate::bag_checker::{Promise, Writer, begin, settle_soon, write_during};
use crate::cassandra::shared_options;
use crate::forger::{Forger, Sent, of, swap_answer};
use crate::postgres::Database;
use crate::takeover::server_on;

/// More seeds for a longer run.
const SEEDS: &str = "LISTSTORE_TEST_BAG_SEEDS";
const SEEDS_DEFAULT: u64 = 6;
const STEPS: usize = 12;
/// The number of seeds after which the killed server is started again.
const SEEDS_PER_KILL: u64 = 3;

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "a thread of its own waits, and no arbiter")]
async fn no_bag_is_wrong_or_missed_for_long() {
    let mut forger = Forger::start().await;
    let database = Database::migrated().await;
    let stays = server_on(&database, &shared_options().contact_points);
    let forged = forger.options.contact_points.clone();
    let mut dies = Some(server_on(&database, &forged));
    let seeds = std::env::var(SEEDS).map_or(SEEDS_DEFAULT, |seeds| seeds.parse().unwrap());
    let mut unknown = 0;
    for seed in 1..=seeds {
        let entity_type = format!("t{}", uuid::Uuid::new_v4().simple());
        let addresses = Mutex::new([stays.address().to_owned(), dies.as_ref().unwrap().address().to_owned()]);
        // No caller waits until the index is ready, nor until the other server has it.
        begin(stays.address(), &entity_type);
        let failing = |sent, part| {
            let rarely = of(sent).and(Condition::RandomWithProbability(part));
            RequestRule(rarely, RequestReaction::forge_with_error(DbError::Unauthorized))
        };
        forger.on_requests(vec![failing(Sent::Add, 0.3), failing(Sent::Delete, 0.1)]);
        // Each writer selects one of both servers for each call: the other server encounters unfinished work.
        let cut = swap_answer().and(Condition::RandomWithProbability(0.1));
        forger.on_responses(vec![ResponseRule(cut, ResponseReaction::drop_connection())]);
        let calls = AtomicUsize::new(0);
        let address = || {
            let addresses = addresses.lock().unwrap();
            addresses[calls.fetch_add(1, Ordering::Relaxed) % addresses.len()].clone()
        };
        let dying = (seed % SEEDS_PER_KILL == 0).then(|| dies.take().unwrap());
        let write = |writer: &mut Writer<'_>| {
            if writer.name == 0 { writer.run_with_indexes(STEPS / 4) } else { writer.run(STEPS) }
        };
        let die = || {
            if let Some(server) = dying {
                std::thread::sleep(std::time::Duration::from_millis(fastrand::Rng::with_seed(seed).u64(20..200)));
                server.end(Signal::SIGKILL);
                *addresses.lock().unwrap() = [stays.address().to_owned(), stays.address().to_owned()];
            }
        };
        let writers = tokio::task::block_in_place(|| {
            let writers = write_during(&address, &entity_type, (Promise::Soon, seed), write, die);
            forger.heal();
            settle_soon(stays.address(), &entity_type, &writers);
            writers
        });
        unknown += writers.iter().map(|writer| writer.unknown).sum::<usize>();
        if dies.is_none() {
            dies = Some(server_on(&database, &forged));
        }
    }
    assert!(unknown > 0, "no entry was refused");
}
