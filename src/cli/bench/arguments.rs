//! The options of `liststore bench`, and how they combine.

use std::time::Duration;

use clap::Args;

use crate::cli::output::Format;
use crate::cli::parse::{self, Server};
use crate::domain::{ADD_ITEMS_MAX, EntityType, FeatureName, Limit, Ttl};
use crate::loadgen::{BenchOptions, Kind, LISTS_MAX, Mix, Mode, Shape, TargetUrl, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use crate::wire::BATCH_LISTS_MAX;

const TTL_DEFAULT: &str = "3650d";
const RATE_MAX: f64 = 10_000_000.0;

const EXAMPLES: &str = "\
Examples:
  Load 10,000 lists of 200 items once, then measure gets over 50 connections:
    liststore bench --load
    liststore bench

  Nine gets for each add of 10 items, over 100 connections, on popular lists:
    liststore bench --gets 9 --adds 1 --connections 100 --zipf 1.1

  Measure latency at 2,000 gets and 500 adds per second. (An open loop: requests
  are sent at these rates regardless of the server's speed, and latency counts
  from the time each request was due.)
    liststore bench --get-rate 2000 --add-rate 500 --duration 1m

  Load another data set under a separate name, without measuring:
    liststore bench --load --feature long --lists 1000 --length 10000 \\
      --duration 0s

  Remove the data set again:
    liststore bench --clean-up --duration 0s

  Measure the CPU time of operations, for a server on this machine:
    liststore bench --server-pid $(pidof -s liststore) --output json

The header names the target, the loop, the connections and the data. The table
shows requests and items per second, latency percentiles in milliseconds (p50,
p99), and errors by the server's code. The exit status is 1 if a response was
wrong or no request succeeded. The data set of --load remains until --clean-up
removes it.";

/// Generate load for a running server and measure it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub struct Arguments {
    #[command(flatten)]
    pub server: Server,
    /// Measure a Redis server instead; lists are sorted sets (ZRANGE, ZADD, ZREM)
    #[arg(long, value_name = "HOST:PORT")]
    pub redis: Option<String>,
    /// How to print the results
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,

    /// First create the feature and load the data set, unless it exists
    #[arg(long, help_heading = "Data set")]
    pub load: bool,
    /// At the end, remove the data set: its lists and its feature
    #[arg(long, conflicts_with = "redis", help_heading = "Data set")]
    pub clean_up: bool,
    /// The entity type of the lists
    #[arg(long, default_value = "bench", value_parser = EntityType::new, help_heading = "Data set")]
    pub entity_type: EntityType,
    /// The feature of the lists; its labels describe the data set
    #[arg(long, default_value = "lists", value_parser = FeatureName::new, help_heading = "Data set")]
    pub feature: FeatureName,
    /// Number of lists [default: all existing lists; 10000 with --load]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=LISTS_MAX), help_heading = "Data set")]
    pub lists: Option<u64>,
    /// Items per list with --load [default: 200]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Data set")]
    pub length: Option<u64>,
    /// Bytes of a value [default: 12]
    #[arg(long, value_name = "BYTES", value_parser = value_bytes, help_heading = "Data set")]
    pub value_size: Option<usize>,
    /// Time between the loaded items of a list; the newest item has the current time [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Data set")]
    pub spacing: Option<Duration>,
    /// The feature's time to live if the command creates it
    #[arg(long, default_value = TTL_DEFAULT, value_parser = parse::ttl, help_heading = "Data set")]
    pub ttl: Ttl,

    /// Weight of gets in the mix [default: 1, unless another weight or a rate is given]
    #[arg(long, value_name = "WEIGHT", value_parser = weight, help_heading = "Load")]
    pub gets: Option<f64>,
    /// Weight of adds in the mix
    #[arg(long, value_name = "WEIGHT", value_parser = weight, help_heading = "Load")]
    pub adds: Option<f64>,
    /// Weight of removes (of one loaded value) in the mix
    #[arg(long, value_name = "WEIGHT", value_parser = weight, help_heading = "Load")]
    pub removes: Option<f64>,
    /// Number of newest items per get
    #[arg(long, default_value_t = 50, value_name = "ITEMS", value_parser = clap::value_parser!(u64).range(1..=Limit::ITEMS_MAX as u64), help_heading = "Load")]
    pub limit: u64,
    /// Lists per get; above 1, one batch call or, for Redis, pipelined commands
    #[arg(long, default_value_t = 1, value_name = "LISTS", value_parser = clap::value_parser!(u64).range(1..=BATCH_LISTS_MAX as u64), help_heading = "Load")]
    pub lists_per_get: u64,
    /// Items per add, all from now
    #[arg(long, default_value_t = 10, value_name = "ITEMS", value_parser = clap::value_parser!(u64).range(1..=ADD_ITEMS_MAX as u64), help_heading = "Load")]
    pub batch: u64,
    /// Popularity of lists: list k has the probability 1 / k^EXPONENT [default: uniform]
    #[arg(long, value_name = "EXPONENT", value_parser = weight, help_heading = "Load")]
    pub zipf: Option<f64>,
    /// Seed for the choice of operations and lists
    #[arg(long, default_value_t = 1, help_heading = "Load")]
    pub seed: u64,

    /// Total requests per second in the proportions of the mix (open loop) [default: closed loop]
    #[arg(long, value_name = "PER SECOND", value_parser = rate, help_heading = "Rate and duration")]
    pub rate: Option<f64>,
    /// Gets per second (open loop)
    #[arg(long, value_name = "PER SECOND", value_parser = rate, conflicts_with_all = MIX, help_heading = "Rate and duration")]
    pub get_rate: Option<f64>,
    /// Adds per second (open loop)
    #[arg(long, value_name = "PER SECOND", value_parser = rate, conflicts_with_all = MIX, help_heading = "Rate and duration")]
    pub add_rate: Option<f64>,
    /// Removes per second (open loop)
    #[arg(long, value_name = "PER SECOND", value_parser = rate, conflicts_with_all = MIX, help_heading = "Rate and duration")]
    pub remove_rate: Option<f64>,
    /// Connections, each with one request at a time
    #[arg(long, short, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Rate and duration")]
    pub connections: u32,
    /// Threads of the generator; one thread sends about 100,000 requests per second
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Rate and duration")]
    pub threads: u32,
    /// Warm-up time before measuring
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration, help_heading = "Rate and duration")]
    pub warmup: Duration,
    /// Time to measure, such as 30s or 5m; 0s measures nothing
    #[arg(long, short, default_value = "10s", value_name = "TIME", value_parser = duration, help_heading = "Rate and duration")]
    pub duration: Duration,
    /// Timeout of a request; slower responses are errors
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration, help_heading = "Rate and duration")]
    pub timeout: Duration,

    /// Check one in this many responses for form, order and content; 0 disables checks
    #[arg(long, default_value_t = 100, value_name = "N", help_heading = "Checks and measurements")]
    pub check_every: u64,
    /// A server process on this machine; reports the CPU time of it and its children
    #[arg(long, value_name = "PID", help_heading = "Checks and measurements")]
    pub server_pid: Option<u32>,
}

const MIX: [&str; 4] = ["gets", "adds", "removes", "rate"];

impl Arguments {
    fn shape(&self) -> Shape {
        Shape { lists: self.lists, length: self.length, value_bytes: self.value_size, spacing: self.spacing }
    }

    /// The options of the load generator. An error is one line that names the incompatible options.
    pub fn options(&self) -> Result<BenchOptions, String> {
        self.check()?;
        Ok(BenchOptions {
            target: match &self.redis {
                Some(address) => TargetUrl::Redis(address.clone()),
                None => TargetUrl::Server(self.server.url()?),
            },
            load: self.load,
            entity_type: self.entity_type.clone(),
            feature: self.feature.clone(),
            shape: self.shape(),
            ttl: self.ttl,
            mode: self.mode()?,
            limit: self.limit,
            lists_per_get: self.lists_per_get,
            batch: self.batch,
            zipf: self.zipf,
            seed: self.seed,
            connections: self.connections as usize,
            threads: self.threads as usize,
            warmup: self.warmup,
            duration: self.duration,
            timeout: self.timeout,
            check_every: self.check_every,
            server_pid: self.server_pid,
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.threads > self.connections {
            return Err(format!("--threads {} needs at least as many --connections", self.threads));
        }
        if self.timeout.is_zero() || self.spacing.is_some_and(|spacing| spacing.is_zero()) {
            return Err("--timeout and --spacing must be above 0".to_owned());
        }
        if self.redis.as_ref().is_some_and(|address| !address.contains(':')) {
            return Err("--redis must be HOST:PORT".to_owned());
        }
        Ok(())
    }

    fn mode(&self) -> Result<Mode, String> {
        let rates: Vec<(Kind, f64)> =
            [(Kind::Get, self.get_rate), (Kind::Add, self.add_rate), (Kind::Remove, self.remove_rate)]
                .into_iter()
                .filter_map(|(kind, rate)| rate.map(|rate| (kind, rate)))
                .collect();
        if !rates.is_empty() {
            return Ok(Mode::Open(rates));
        }
        let weights = [self.gets, self.adds, self.removes];
        let weights = if weights == [None; 3] { [1.0, 0.0, 0.0] } else { weights.map(|weight| weight.unwrap_or(0.0)) };
        let mix = Mix::new(weights).ok_or("one of --gets, --adds and --removes must be above 0")?;
        Ok(match self.rate {
            None => Mode::Closed(mix),
            Some(rate) => {
                let of = |kind| (kind, rate * mix.share(kind));
                Mode::Open(Kind::ALL.into_iter().map(of).filter(|(_, rate)| *rate > 0.0).collect())
            }
        })
    }
}

fn value_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!("must be a whole number from {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX}")),
    }
}

fn weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("must be a number from 0".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= RATE_MAX => Ok(rate),
        _ => Err(format!("must be a number above 0, and at most {RATE_MAX}")),
    }
}

/// A whole number with a unit: `500ms`, `30s`, `5m`, `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "us" => return number.parse().map(Duration::from_micros).map_err(|e| e.to_string()),
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("must be a whole number with a unit, such as 500ms, 30s, 5m or 1h".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "must begin with a whole number".to_owned())?;
    Ok(Duration::from_millis(number.saturating_mul(millis).min(86_400_000 * 10_000)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn mode(line: &str) -> Result<Mode, String> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        let arguments = CommandLine::try_parse_from(words).map_err(|e| e.to_string())?.arguments;
        arguments.check()?;
        arguments.mode()
    }

    fn open(line: &str) -> Vec<(Kind, f64)> {
        match mode(line) {
            Ok(Mode::Open(rates)) => rates,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn mixes_and_rates() {
        assert!(matches!(mode(""), Ok(Mode::Closed(mix)) if mix.share(Kind::Get) == 1.0));
        assert!(matches!(mode("--adds 3 --gets 1"), Ok(Mode::Closed(mix)) if mix.share(Kind::Add) == 0.75));
        assert!(matches!(mode("--adds 3"), Ok(Mode::Closed(mix)) if mix.share(Kind::Add) == 1.0));
        assert_eq!(open("--rate 100 --gets 3 --adds 1"), [(Kind::Get, 75.0), (Kind::Add, 25.0)]);
        assert_eq!(open("--get-rate 20 --remove-rate 0.5"), [(Kind::Get, 20.0), (Kind::Remove, 0.5)]);
    }

    #[test]
    fn wrong_usage_is_refused() {
        for bad in [
            "--gets 0",
            "--gets -1",
            "--rate 0",
            "--rate nan",
            "--get-rate 1 --gets 1",
            "--get-rate 1 --rate 1",
            "--threads 3 --connections 2",
            "--connections 0",
            "--value-size 7",
            "--value-size 64001",
            "--lists 0",
            "--limit 10001",
            "--batch 1001",
            "--duration 10",
            "--duration s",
            "--spacing 0s",
            "--timeout 0ms",
            "--redis localhost",
            "--url nowhere",
            "--entity-type a/b",
        ] {
            assert!(mode(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
    }
}
