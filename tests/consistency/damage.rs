//! Files that were altered or cut while the server was down: a start refuses and names the file, or
//! a read is refused and the log names it; nothing wrong is ever served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use libtest_mimic::Failed;

use crate::client::Client;
use crate::disks::{BigAdds, Scene};
use crate::history::{Item, Outcome, Request, VersionName};
use crate::run::{self, Timeline};
use crate::server::Recipe;
use crate::subject::Subject;
use crate::workload::{Walk, Workload, World};

const PAGE: usize = 50;

#[derive(Debug, Clone, Copy)]
enum Damage {
    /// One bit, so far in that this share of a file's bytes that are not zero comes before it.
    Flip { percent: usize },
    /// The second half is gone.
    Cut,
}

impl Damage {
    fn of(self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        match self {
            Self::Cut => bytes.truncate(whole.len() / 2),
            Self::Flip { percent } => {
                let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
                bytes[used[used.len() * percent / 100]] ^= 0x10;
            }
        }
        bytes
    }
}

/// The expected answers of a server: all items of its one list, in order, and a definition.
#[derive(Debug, PartialEq, Eq)]
struct Reported {
    items: Vec<Item>,
    ttl: Outcome,
}

pub async fn damaged_files() -> Result<(), Failed> {
    let dir = run::fresh_dir()?;
    let mut scene = Scene::open(recipe(dir.path())).await?;
    let list = scene.list("hot");
    // Enough for data files next to the log, with a cache of this size.
    let mut big = BigAdds::new(&scene);
    for _ in 0..250 {
        scene.client.call(big.next(), None).await;
    }
    for ttl_secs in [7_000, 8_000] {
        scene
            .client
            .call(Request::ChangeTtl { version: list.version.clone(), ttl_secs: 86_400 + ttl_secs }, None)
            .await;
    }
    let truth = reported(&scene.subject, &scene.world).await?;
    if truth.items.len() != 250 {
        return Err(format!("{} items of 250 are there", truth.items.len()).into());
    }
    scene.subject.kill().await?;
    let data = recipe(dir.path()).data_dir();
    let files = files_below(&data)?;
    let newest_log = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "log")).max();
    let (mut refused, mut tried) = (0, 0);
    for file in &files {
        let whole = std::fs::read(file).map_err(|e| e.to_string())?;
        if whole.iter().all(|byte| *byte == 0) {
            continue;
        }
        for damage in
            [Damage::Flip { percent: 5 }, Damage::Flip { percent: 60 }, Damage::Flip { percent: 95 }, Damage::Cut]
        {
            // A crash may have left out the end of the log.
            if matches!(damage, Damage::Cut) && Some(file) == newest_log {
                continue;
            }
            let place = file.strip_prefix(&data).map_err(|e| e.to_string())?;
            tried += 1;
            refused += usize::from(
                is_refused(&data, place, &damage.of(&whole), &truth)
                    .await
                    .map_err(|error| format!("{} with {damage:?}: {error}", place.display()))?,
            );
        }
    }
    eprintln!("{refused} of {tried} refused");
    if refused * 2 < tried { Err(format!("only {refused} of {tried} were found out").into()) } else { Ok(()) }
}

fn recipe(dir: &Path) -> Recipe {
    crate::disks::embedded(dir, "group")
}

/// Starts a server on a copy of this data with one damaged file. Returns whether it refused anything; an error if it
/// served wrong data, or did not name the file.
async fn is_refused(data: &Path, place: &Path, bytes: &[u8], truth: &Reported) -> Result<bool, String> {
    let dir = run::fresh_dir()?;
    let recipe = recipe(dir.path());
    let copy = recipe.data_dir();
    for file in files_below(data)? {
        let to = copy.join(file.strip_prefix(data).map_err(|e| e.to_string())?);
        to.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|e| e.to_string())?;
        std::fs::copy(&file, &to).map_err(|e| e.to_string())?;
    }
    std::fs::write(copy.join(place), bytes).map_err(|e| e.to_string())?;
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let timeline = Timeline::begin();
    let (log, world) = (recipe.log(), Arc::new(World::new("", timeline.epoch, true, Workload::Lists)));
    let subject = match Subject::start(recipe, timeline).await {
        Ok(subject) => Arc::new(subject),
        Err(error) if error.contains("ended before it was ready") && error.contains(&name) => return Ok(true),
        Err(error) => return Err(format!("the start does not name it: {error}")),
    };
    let reported = reported(&subject, &world).await;
    subject.kill().await?;
    match reported {
        Ok(reported) if reported == *truth => Ok(false),
        Ok(reported) => Err(format!("served silently: {} items, {:?}", reported.items.len(), reported.ttl)),
        Err(answer) if answer.starts_with("500") && answer.contains("internal") => {
            let log = std::fs::read_to_string(&log).map_err(|e| e.to_string())?;
            if log.contains(&name) {
                Ok(true)
            } else {
                Err(format!("a read was refused, and the log does not name it: {log}"))
            }
        }
        Err(answer) => Err(format!("not a documented refusal: {answer}")),
    }
}

/// The server's answers, or its first error.
async fn reported(subject: &Arc<Subject>, world: &Arc<World>) -> Result<Reported, String> {
    let mut client = Client::new(0, Rng::with_seed(1), world, std::slice::from_ref(subject));
    let version = VersionName { feature: "hot".to_owned(), label: String::new() };
    client.call(Request::ReadTtl { version: version.clone() }, None).await;
    let list = crate::history::ListName { version, entity: "one".to_owned() };
    client.walk(Walk::of_all(list, PAGE)).await;
    let (mut items, mut ttl) = (Vec::new(), None);
    for call in client.into_calls() {
        match call.outcome {
            Outcome::Page { items: page, .. } => items.extend(page),
            Outcome::Ttl(_) => ttl = Some(call.outcome),
            Outcome::Forbidden { answer } => return Err(answer),
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(Reported { items, ttl: ttl.ok_or("no definition was read")? })
}

fn files_below(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else if path.is_file() {
            // A killed server leaves its socket, too.
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
