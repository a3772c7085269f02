//! Failing disks: fsyncs that report an error or are slow, and a file system that is full until space is freed. The
//! errors are real ones, which the system calls return.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use libtest_mimic::Failed;

use crate::campaign::CACHE_BYTES;
use crate::check::check;
use crate::client::Client;
use crate::faults::Fault;
use crate::history::{
    Call, History, Item, ListName, Moment, NANOS_PER_SEC, Order, Outcome, Promises, Request, VersionName,
};
use crate::run::{self, Done, Plan, Timeline};
use crate::server::Recipe;
use crate::subject::Subject;
use crate::workload::{Walk, Workload, World};

/// The time from an injected failure until the process detects it, with a tracer in between and other programs on the
/// cores.
const NOTICE: Duration = Duration::from_secs(5);
/// A failure that has not occurred by then never will.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(120);
/// The time for a call: a busy machine is slow, and most tests here need every answer.
const OPERATION_TIMEOUT_MS: u64 = 10_000;

/// The number of fsyncs of each thread that succeed (the tracer counts per thread): well above the need of the main
/// thread for opening fresh stores, which is less than 20.
const FSYNCS_FINE: usize = 40;

pub fn embedded(dir: &Path, fsync: &str) -> Recipe {
    Recipe::new(dir)
        .set("ITEMS__EMBEDDED__FSYNC", fsync)
        .set("ITEMS__EMBEDDED__CACHE_BYTES", CACHE_BYTES)
        .set("ITEMS__OPERATION_TIMEOUT_MS", OPERATION_TIMEOUT_MS)
        .set("METADATA__CALL_TIMEOUT_MS", OPERATION_TIMEOUT_MS)
}

/// `strace` with an injection into the calls that make files durable, and its log.
fn traced(recipe: &mut Recipe, injection: &str) -> FailureLog {
    let log = recipe.dir.join("strace.log");
    let log_text = log.display().to_string();
    let inject = format!("inject=fsync,fdatasync:{injection}");
    let arguments = ["strace", "-D", "-f", "-qq", "-y", "-ttt", "-o", &log_text, "--seccomp-bpf"];
    recipe.wrapper =
        arguments.into_iter().chain(["-e", "trace=fsync,fdatasync", "-e", &inject]).map(Into::into).collect();
    FailureLog(log)
}

/// Where the tracer notes the failures that it causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureLog(PathBuf);

impl FailureLog {
    /// Waits until an fsync of items has failed, and the server must know of it.
    pub async fn await_failure(&self) -> Result<(), String> {
        let began = Instant::now();
        while self.first("/items/")?.is_none() {
            if began.elapsed() > FAILURE_TIMEOUT {
                return Err(format!("no fsync of items failed within {FAILURE_TIMEOUT:?}: there is nothing to see"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(NOTICE).await;
        Ok(())
    }

    /// When the first failure was injected into a call on a path with this in it, in nanoseconds since
    /// the Unix epoch.
    fn first(&self, path: &str) -> Result<Option<u64>, String> {
        let text = std::fs::read_to_string(&self.0).map_err(|e| format!("{}: {e}", self.0.display()))?;
        let mut unfinished: HashMap<&str, bool> = HashMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(thread), Some(moment)) = (words.next(), words.next()) else { continue };
            let ours =
                if line.contains("resumed>") { unfinished.remove(thread) == Some(true) } else { line.contains(path) };
            if line.contains("<unfinished") {
                unfinished.insert(thread, ours);
            } else if ours && line.contains("(INJECTED)") {
                let (secs, micros) = moment.split_once('.').ok_or_else(|| format!("no moment: {line}"))?;
                let parsed = secs.parse::<u64>().ok().zip(micros.parse::<u64>().ok());
                return Ok(parsed.map(|(secs, micros)| secs * NANOS_PER_SEC + micros * 1_000));
            }
        }
        Ok(None)
    }
}

fn judged(history: &History) -> Result<(), String> {
    let found = check(history)?;
    found.first().map_or(Ok(()), |first| Err(first.explain(history).to_string()))
}

fn is_item_write(call: &Call) -> bool {
    call.request.list().is_some() && !call.request.reads()
}

/// Whether the answer confirms durable data.
fn is_acknowledged(call: &Call) -> bool {
    match call.outcome {
        Outcome::Added { added, .. } => added > 0,
        Outcome::Removed(count) => count > 0,
        Outcome::Done => true,
        _ => false,
    }
}

/// Fsyncs fail from some number on: no acknowledgement follows, reads continue, and after a start on a good disk
/// everything acknowledged exists.
pub async fn failing_fsync(fsync: &str) -> Result<(), Failed> {
    let dir = run::fresh_dir()?;
    // The interval is not used by group mode, and short, so that the failure comes early.
    let mut recipe = embedded(dir.path(), fsync).set("ITEMS__EMBEDDED__FSYNC_INTERVAL_MS", 20);
    let log = traced(&mut recipe, &format!("error=EIO:when={}+", FSYNCS_FINE + 1));
    let plan = Plan {
        seed: 7,
        operations: 1_000,
        suffix: String::new(),
        faults: vec![Fault::Unwrap { after: log.clone() }],
        promises: Promises::Linearizable,
        workload: Workload::All,
        aggregate_items_max: None,
        backends: None,
    };
    let Done { history, .. } = run::run(plan, vec![recipe]).await?;
    let failed = log.first("/items/")?.ok_or("no fsync of items failed: there is nothing to see")?;
    let failed = failed.saturating_sub(history.epoch);
    let replaced = *history.ends.first().ok_or("the server was not replaced")?;
    let notice = Moment::try_from(NOTICE.as_nanos()).expect("seconds");
    let during = |call: &&Call| call.from > failed + notice && call.to < replaced;
    if let Some(call) = history.calls.iter().filter(during).find(|call| is_item_write(call) && is_acknowledged(call)) {
        return Err(format!("acknowledged after an fsync had failed at {:.3} ms: {call}", failed as f64 / 1e6).into());
    }
    let refused = history.calls.iter().filter(during).filter(|call| is_item_write(call)).count();
    let read = history.calls.iter().filter(during).filter(|call| matches!(call.outcome, Outcome::Page { .. })).count();
    if refused == 0 || read == 0 {
        return Err(format!("{refused} writes refused and {read} reads answered after the failure").into());
    }
    Ok(judged(&history)?)
}

/// Slow fsyncs: nothing is acknowledged sooner, neither items nor definitions.
pub async fn slow_fsync() -> Result<(), Failed> {
    const DELAY: Duration = Duration::from_millis(120);
    let dir = run::fresh_dir()?;
    let mut recipe = embedded(dir.path(), "group");
    traced(&mut recipe, &format!("delay_enter={}", DELAY.as_micros()));
    let mut scene = Scene::open(recipe).await?;
    let list = scene.list("hot");
    let value = || "\"slow\"".to_owned();
    for number in 0..5 {
        let items = vec![Item { timestamp: scene.epoch + number, value: value() }];
        scene.client.call(Request::Add { list: list.clone(), items }, None).await;
        scene.client.call(Request::RemoveValue { list: list.clone(), value: value() }, None).await;
        scene.client.call(Request::RemoveAll { list: list.clone() }, None).await;
        let version = VersionName { feature: list.version.feature.clone(), label: format!("v{number}") };
        scene.client.call(Request::CreateVersion { version: version.clone(), ttl_secs: 3_600 }, None).await;
        scene.client.call(Request::ChangeTtl { version: version.clone(), ttl_secs: 7_200 }, None).await;
        scene.client.call(Request::DeleteVersion { version }, None).await;
    }
    let history = scene.close().await?;
    for call in &history.calls {
        if !is_acknowledged(call) {
            return Err(format!("not done: {call}").into());
        }
        if u128::from(call.to - call.from) < DELAY.as_nanos() {
            return Err(format!("acknowledged before an fsync can have ended, which takes {DELAY:?}: {call}").into());
        }
    }
    Ok(judged(&history)?)
}

/// A separate file system, unmounted when dropped, and with this process, which has separate mounts.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, mebibytes: u64) -> Result<Self, String> {
        std::fs::create_dir_all(&at).map_err(|e| e.to_string())?;
        let size = format!("size={mebibytes}m,mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).status();
        match mounted {
            Ok(status) if status.success() => Ok(Self(at)),
            other => Err(format!("cannot mount a small file system: {other:?}")),
        }
    }

    /// Fills all the room that is left.
    fn fill(&self) -> Result<(), String> {
        let mut filler = File::create(self.0.join("filler")).map_err(|e| e.to_string())?;
        let block = vec![0x5a; 64 << 10];
        for size in [block.len(), 512] {
            while filler.write_all(&block[..size]).is_ok() {}
        }
        Ok(())
    }

    fn free(&self) -> Result<(), String> {
        std::fs::remove_file(self.0.join("filler")).map_err(|e| e.to_string())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A disk that is full and freed again: writes are refused and then accepted again, reads continue, and nothing
/// acknowledged is lost, even with a SIGKILL afterwards.
pub async fn full_disk() -> Result<(), Failed> {
    let dir = run::fresh_dir()?;
    let recipe = embedded(dir.path(), "group");
    let disk = SmallDisk::mount(recipe.data_dir(), 256)?;
    let mut scene = Scene::open(recipe).await?;
    let list = scene.list("hot");
    let mut big = BigAdds::new(&scene);
    for _ in 0..20 {
        scene.client.call(big.next(), None).await;
    }
    disk.fill()?;
    // The log has reserved space, which lasts for at most this many.
    let refused = scene.repeat_until(&mut big, 2_000, |outcome| !matches!(outcome, Outcome::Added { .. })).await;
    refused.ok_or("the disk was full, and every write was acknowledged")?;
    for _ in 0..20 {
        scene.client.call(big.next(), None).await;
        let get = Request::Get {
            list: list.clone(),
            min: None,
            max: None,
            order: Order::Newest,
            limit: Some(3),
            after: None,
        };
        scene.client.call(get, None).await;
        let answered = scene.client.last().is_some_and(|call| matches!(call.outcome, Outcome::Page { .. }));
        if !answered {
            return Err(format!("a read while the disk is full: {:?}", scene.client.last()).into());
        }
    }
    disk.free()?;
    let accepted = scene.repeat_until(&mut big, 500, |outcome| matches!(outcome, Outcome::Added { .. })).await;
    accepted.ok_or("there is room again, and writes are still refused")?;
    scene.subject.kill().await?;
    scene.subject.bring_up().await?;
    scene.client.walk(Walk::of_all(list, 100)).await;
    Ok(judged(&scene.close().await?)?)
}

/// A list grows until it is larger than the remaining space. Adds end while there still is some, removals succeed, and
/// their space is freed, so that adds succeed again; repeatedly, and in the same process. Nothing acknowledged is
/// lost, also with a SIGKILL afterwards.
pub async fn nearly_full_disk() -> Result<(), Failed> {
    let dir = run::fresh_dir()?;
    let recipe = embedded(dir.path(), "group");
    // Half of it for the log's segments and spares.
    let _disk = SmallDisk::mount(recipe.data_dir(), 96)?;
    let mut scene = Scene::open(recipe).await?;
    let list = scene.list("hot");
    let mut big = BigAdds::new(&scene);
    for round in 0..3 {
        let refused = scene.repeat_until(&mut big, 5_000, |outcome| !matches!(outcome, Outcome::Added { .. })).await;
        refused.ok_or("the disk was full, and every add was acknowledged")?;
        let removals = match round {
            // The newest, one by one, which gives nothing back at once; then all.
            0 => big.newest(20).map(|value| Request::RemoveValue { list: list.clone(), value }).collect(),
            _ => vec![Request::RemoveAll { list: list.clone() }],
        };
        for removal in removals {
            scene.client.call(removal, None).await;
            let taken = scene.client.last().is_some_and(is_acknowledged);
            if !taken {
                return Err(format!("a removal while adds are refused: {:?}", scene.client.last()).into());
            }
        }
        if round == 0 {
            scene.client.call(Request::RemoveAll { list: list.clone() }, None).await;
        }
        let began = Instant::now();
        while scene.repeat_until(&mut big, 1, |outcome| matches!(outcome, Outcome::Added { .. })).await.is_none() {
            if began.elapsed() > FAILURE_TIMEOUT {
                return Err(format!("no adds are taken after removals: {:?}", scene.client.last()).into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    scene.subject.kill().await?;
    scene.subject.bring_up().await?;
    scene.client.walk(Walk::of_all(list, 100)).await;
    Ok(judged(&scene.close().await?)?)
}

/// Adds of values as large as they may be.
pub struct BigAdds {
    number: u64,
    list: ListName,
    epoch: u64,
}

impl BigAdds {
    pub fn new(scene: &Scene) -> Self {
        Self { number: 0, list: scene.list("hot"), epoch: scene.epoch }
    }

    fn value(number: u64) -> String {
        format!("\"{number}-{}\"", "x".repeat(60_000))
    }

    pub fn next(&mut self) -> Request {
        self.number += 1;
        let value = Self::value(self.number);
        Request::Add { list: self.list.clone(), items: vec![Item { timestamp: self.epoch + self.number, value }] }
    }

    /// The values of the last `count` adds before the refused one.
    fn newest(&self, count: u64) -> impl Iterator<Item = String> + use<> {
        (self.number.saturating_sub(count)..self.number).map(Self::value)
    }
}

/// A server with one client, whose calls a test makes one by one.
pub struct Scene {
    pub subject: Arc<Subject>,
    pub world: Arc<World>,
    pub client: Client,
    timeline: Timeline,
    epoch: u64,
}

impl Scene {
    pub async fn open(recipe: Recipe) -> Result<Self, String> {
        let timeline = Timeline::begin();
        let world = Arc::new(World::new("", timeline.epoch, true, Workload::Lists));
        let subject = Arc::new(Subject::start(recipe, timeline.clone()).await?);
        run::create(&world, &subject).await?;
        let client = Client::new(0, Rng::with_seed(1), &world, std::slice::from_ref(&subject));
        Ok(Self { subject, world, client, epoch: timeline.epoch, timeline })
    }

    pub fn list(&self, feature: &str) -> ListName {
        let version = VersionName { feature: feature.to_owned(), label: String::new() };
        ListName { version, entity: "one".to_owned() }
    }

    /// Adds until an answer is as wanted, up to a number of attempts, with a pause after a refusal.
    async fn repeat_until(
        &mut self,
        adds: &mut BigAdds,
        times: usize,
        wanted: impl Fn(&Outcome) -> bool,
    ) -> Option<()> {
        for _ in 0..times {
            self.client.call(adds.next(), None).await;
            if wanted(&self.client.last()?.outcome) {
                return Some(());
            }
        }
        None
    }

    async fn close(self) -> Result<History, String> {
        let calls = self.client.into_calls();
        let clock_steps = self.subject.finish().await?;
        Ok(run::history(&self.world, &self.timeline, Promises::Linearizable, calls, clock_steps))
    }
}
