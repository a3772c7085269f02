//! Bags and indexes of a killed server: queries find all acknowledged writes, and nothing that does not match.

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::bag_checker::{Promise, Writer, prepare, settle_count, write_during};
use crate::program::Server;

/// More seeds for a longer run.
const SEEDS: &str = "LISTSTORE_TEST_BAG_SEEDS";
const SEEDS_DEFAULT: u64 = 50;
const STEPS: usize = 30;

pub fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=std::env::var(SEEDS).map_or(SEEDS_DEFAULT, |seeds| seeds.parse().unwrap())
}

fn start(dir: tempfile::TempDir) -> Server {
    // All seeds use the server in turn, because their remains are a part of the trial.
    let environment = [("LISTSTORE__ITEMS__ACTORS", "2"), ("LISTSTORE__HTTP__WORKERS", "1")];
    Server::start_in(dir, "127.0.0.1:0", &environment)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a thread of its own waits, and no arbiter")]
fn no_bag_is_missed_or_wrong_when_the_server_is_killed() {
    let server = start(tempfile::TempDir::new().unwrap());
    let address = Mutex::new(server.address().to_owned());
    let at = || address.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (mut server, mut unknown) = (Some(server), 0);
    for seed in seeds() {
        let entity_type = format!("t{seed}");
        prepare(&at(), &entity_type);
        let mut random = fastrand::Rng::with_seed(seed);
        let write = |writer: &mut Writer<'_>| {
            if writer.name == 0 { writer.run_with_indexes(STEPS / 5) } else { writer.run(STEPS) }
        };
        let kill = || {
            sleep(Duration::from_millis(random.u64(5..120)));
            // The kill does not wait for the first finished writer: each seed has its kill.
            let (_, _, dir) = server.take().unwrap().end(Signal::SIGKILL);
            let next = start(dir);
            *address.lock().unwrap() = next.address().to_owned();
            server = Some(next);
        };
        let writers = write_during(&at, &entity_type, (Promise::AtOnce, seed), write, kill);
        writers.iter().for_each(Writer::settle);
        settle_count(&at(), &entity_type, &writers);
        unknown += writers.iter().map(|writer| writer.unknown).sum::<usize>();
    }
    assert!(unknown > 0, "no kill met a write");
}
