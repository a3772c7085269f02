//! `liststore key`: API keys, through a server's HTTP API or the socket in its data directory.

use clap::{Args, Subcommand};
use liststore_contract::operations::create_key::KeyInput;
use liststore_contract::operations::rotate_key::KeyRotation;
use liststore_contract::operations::{create_key, get_key, list_keys, revoke_key, rotate_key};
use serde_json::json;

use super::block_on;
use super::confirm::{Yes, ask};
use super::failure::Failure;
use super::output::{Format, FormatOption, Output, counted, show, show_all};
use super::pages::entries;
use super::parse::{self, Author, Way};
use crate::access::token::Secret;
use crate::client::{Request, Response, printable, read};
use crate::domain::{EntityType, KeyId, KeyName, Rate, Role, Scope, Ttl};
use crate::wire::parameters::{CREATED_KEYS, PAGE_SIZE};
use crate::wire::{CreatedKey, Key, KeyMade};

const EXAMPLES: &str = "\
Examples:
  liststore key create admin --role admin --local > admin.key
  export LISTSTORE_TOKEN=$(cat admin.key)
  liststore key create feed --role writer --entity-types user \\
    --expires 90d > feed.key
  liststore key list

After the first key is created, a server requires a key. Create the first key
over the socket in the server's data directory (--local), or while the server is
open. Commands read the key from LISTSTORE_TOKEN or --token-file.";

/// Create, list, rotate and revoke API keys
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    Generate(Generate),
    List(List),
    Rotate(Rotate),
    Revoke(Revoke),
}

/// Create a key and print it once
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore key create admin --role admin --local > admin.key
  liststore key create feed --role writer --entity-types user,customer \\
    --expires 90d > feed.key
  liststore key create stories --role reader \\
    --scope 'user.story_*' > stories.key

Roles: reader (lists and definitions), writer (lists), editor (definitions),
scaler (the pool), operator (metrics, pool, log), admin (everything). Without
--scope and --entity-types, a key applies to all features.")]
struct Create {
    /// The key's name, shown in the audit trail and in lists of keys
    #[arg(value_parser = KeyName::new)]
    name: KeyName,
    /// A role of the key; may be given several times
    #[arg(long = "role", required = true, value_delimiter = ',', value_parser = Role::parse)]
    roles: Vec<Role>,
    /// Features that the key applies to, such as user.* or customer.purchase; may be given several times
    #[arg(long = "scope", value_delimiter = ',', value_parser = Scope::parse)]
    scopes: Vec<Scope>,
    /// Entity types whose features the key applies to
    #[arg(long, value_delimiter = ',', value_parser = EntityType::new)]
    entity_types: Vec<EntityType>,
    /// How long the key is valid, such as 90d [default: no expiry]
    #[arg(long, value_parser = parse::ttl)]
    expires: Option<Ttl>,
    /// Limit of requests per second [default: the server's settings]
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    requests_per_second: Option<u32>,
    /// Burst of requests after an idle time [default: the limit per second]
    #[arg(long, value_name = "NUMBER", requires = "requests_per_second", value_parser = rate)]
    requests_burst: Option<u32>,
    /// Limit of items read and added per second [default: the server's settings]
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    items_per_second: Option<u32>,
    /// Burst of items after an idle time [default: the limit per second]
    #[arg(long, value_name = "NUMBER", requires = "items_per_second", value_parser = rate)]
    items_burst: Option<u32>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    way: Way,
}

/// Generate the secret of a key without a server, for access.bootstrap_key_file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore key generate > admin.key
  kubectl create secret generic liststore-bootstrap --from-file=token=admin.key

A server with the setting access.bootstrap_key_file creates its first key, with
the role admin, from this file.")]
struct Generate {
    #[command(flatten)]
    format: FormatOption,
}

/// List all keys, including revoked ones
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore key list --output ndjson")]
struct List {
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    way: Way,
}

/// Give a key a new secret and print it once
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore key rotate 4k7p2m9x0qzr --overlap 12h > feed.key")]
struct Rotate {
    /// The key's ID, as `key list` shows it
    #[arg(value_parser = key_id)]
    id: KeyId,
    /// How long the current secret stays valid [default: 1d]
    #[arg(long, value_parser = parse::ttl)]
    overlap: Option<Ttl>,
    /// How long the key is valid from now on [default: unchanged]
    #[arg(long, value_parser = parse::ttl)]
    expires: Option<Ttl>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    way: Way,
}

/// Revoke a key permanently
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore key revoke 4k7p2m9x0qzr
  liststore key revoke 4k7p2m9x0qzr --created-keys --yes

If the key created other active keys, the command asks whether to revoke them
too. With --yes, it revokes them only if --created-keys is given, and lists them
otherwise.")]
struct Revoke {
    /// The key's ID, as `key list` shows it
    #[arg(value_parser = key_id)]
    id: KeyId,
    /// Also revoke the keys it created, directly or through other keys
    #[arg(long)]
    created_keys: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    way: Way,
}

/// Parses a rate or a burst.
fn rate(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=Rate::MAX).contains(number));
    number.ok_or_else(|| format!("must be a whole number from 1 to {}", Rate::MAX))
}

fn key_id(text: &str) -> Result<KeyId, String> {
    KeyId::new(text).map_err(|error| error.to_string())
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    block_on(async {
        match arguments.command {
            Command::Create(arguments) => create(arguments).await,
            Command::Generate(arguments) => generate(&arguments),
            Command::List(arguments) => list(arguments).await,
            Command::Rotate(arguments) => rotate(arguments).await,
            Command::Revoke(arguments) => revoke(arguments).await,
        }
    })
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let Create { name, roles, mut scopes, entity_types, expires, author, way, .. } = arguments;
    let Create { requests_per_second, requests_burst, items_per_second, items_burst, .. } = arguments;
    for entity_type in entity_types {
        // With a slash, because the name may contain a dot.
        scopes.push(Scope::parse(&format!("{entity_type}/*")).map_err(|error| Failure::Usage(error.to_string()))?);
    }
    let input =
        KeyInput { name, roles, scopes, expires, requests_per_second, requests_burst, items_per_second, items_burst };
    let request = Request::new(&create_key::ROW, &[]).body(&input)?;
    show_made(&way.client(author.user)?.send(&request).await?, way.options.output)
}

fn generate(Generate { format }: &Generate) -> Result<(), Failure> {
    let secret = Secret::generate().map_err(|error| Failure::failed(error.to_string()))?;
    let mut output = Output::open();
    if format.output == Format::Table {
        output.line(secret.expose())?;
    } else {
        output.json(&json!({"token": secret.expose(), "id": secret.id.as_str()}))?;
    }
    output.flush()
}

async fn list(List { author, way }: List) -> Result<(), Failure> {
    let request = |page_size| Request::new(&list_keys::ROW, &[]).query(&PAGE_SIZE, Some(page_size));
    let keys = entries(&way.client(author.user)?, usize::MAX, request).await?.all;
    let header = ["ID", "NAME", "STATE", "ROLES", "SCOPES", "EXPIRES", "LAST USED"];
    show_all("keys", &keys, way.options.output, &header, row)
}

fn row(key: Key) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (roles, scopes) = (key.roles.join(","), key.scopes.join(","));
    vec![key.id, key.name, key.state, roles, scopes, or_none(key.expires_at), or_none(key.last_used_at)]
}

async fn rotate(Rotate { id, overlap, expires, author, way }: Rotate) -> Result<(), Failure> {
    let request = Request::new(&rotate_key::ROW, &[id.as_str()]).body(&KeyRotation { overlap, expires })?;
    show_made(&way.client(author.user)?.send(&request).await?, way.options.output)
}

async fn revoke(Revoke { id, mut created_keys, yes, author, way }: Revoke) -> Result<(), Failure> {
    let client = way.client(author.user)?;
    let mut key = None;
    yes.confirm(async {
        let found: Key = client.ask(&Request::new(&get_key::ROW, &[id.as_str()])).await?;
        let (name, count) = (found.name.clone(), counted(found.created_keys.len() as u64, "key"));
        let last_used = found.last_used_at.as_deref().map(|at| format!(", last used {at}")).unwrap_or_default();
        let created = if created_keys { format!(" and the {count} that it created") } else { String::new() };
        key = Some(found);
        Ok(format!("Revoke the key {id} ({name}{last_used}){created}? This cannot be undone."))
    })
    .await?;
    if let Some(key) = key.filter(|key| !created_keys && !key.created_keys.is_empty()) {
        let (count, names) = (counted(key.created_keys.len() as u64, "key"), named(&key.created_keys));
        created_keys = ask(&format!("It created {count}: {names}. Revoke them too?"))?;
    }
    let request = Request::new(&revoke_key::ROW, &[id.as_str()]);
    let request = request.query(&CREATED_KEYS, created_keys.then_some("true"));
    let response = client.send(&request).await?;
    show(&response.body, way.options.output, |output| {
        let key: Key = read(&response.body)?;
        output.line(&format!("revoked key {} ({})", key.id, key.name))?;
        if created_keys {
            output.line("revoked the keys it created")?;
        }
        if !key.created_keys.is_empty() {
            let (count, names) = (key.created_keys.len() as u64, named(&key.created_keys));
            let are = if count == 1 { "is" } else { "are" };
            eprintln!("{} it created {are} not revoked: {names}", counted(count, "key"));
            eprintln!("liststore key revoke {} --created-keys revokes them", key.id);
        }
        Ok(())
    })
}

fn named(keys: &[CreatedKey]) -> String {
    let names: Vec<_> = keys.iter().map(|key| format!("{} ({})", printable(&key.id), printable(&key.name))).collect();
    names.join(", ")
}

/// Only the token goes to standard output, so that it can be redirected into a file.
fn show_made(response: &Response, format: Format) -> Result<(), Failure> {
    show(&response.body, format, |output| {
        let made: KeyMade = read(&response.body)?;
        output.line(&made.token)?;
        let (id, name) = (printable(&made.key.id), printable(&made.key.name));
        eprintln!("key {id} ({name}): store the token now, it is not shown again");
        if let Some(at) = made.key.expires_at {
            eprintln!("it expires at {at}");
        }
        Ok(())
    })
}
