//! Sets as rows of the table, and the repair of rows and reverse entries that do not agree.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{Identity, Item, ItemKey, Keep, ListKey, MaxItems, MemberKey, Order, Timestamp, ValueDigest};
use liststore::items::{Bounds, OpContext, Range, Reclaim, Removal};
use scylla::client::session::Session;
use serde_json::Value;

use crate::cassandra::shared_options;
use crate::guide::{Step, blocks, is_as_documented, is_line_as_documented, steps};
use crate::keyspace::Keyspace;
use crate::probe::{EVERYTHING, Server, bare, fresh_set, now, now_micros};
use crate::program;
use crate::servers::{environment, ok};

const KEYS: Identity = Identity::Key(Keep::Newest);

/// By its writer: item key, write timestamp, expiry, value.
type Entry = BTreeMap<i32, (String, i64, i64, Vec<u8>)>;

/// A set as stored in the table.
#[derive(Debug, Default)]
pub struct StoredSet {
    /// Keys of the ordered rows, newest first, and the members that they name.
    pub rows: Vec<(String, String)>,
    pub entries: BTreeMap<String, Entry>,
}

impl StoredSet {
    pub async fn read(bare: &Session, list: &ListKey) -> Self {
        let text = "SELECT kind, sort, member, items FROM list_members WHERE feature_key = ? AND entity_id = ?";
        let rows = bare.query_unpaged(text, (list.feature_key.as_str(), list.entity_id.as_str())).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let mut stored = Self::default();
        for row in rows.rows::<(String, String, Option<String>, Option<Entry>)>().unwrap() {
            let (kind, sort, member, items) = row.unwrap();
            match kind.as_str() {
                "item" => stored.rows.push((sort, member.unwrap())),
                "member" => drop(stored.entries.insert(sort, items.unwrap())),
                other => panic!("{other}"),
            }
        }
        stored
    }

    /// The mistake, if rows and entries do not agree: each entry has one item, and each item a row.
    pub fn disagreement(&self) -> Option<String> {
        let mut pointed_to: Vec<_> = Vec::new();
        for (member, items) in &self.entries {
            if items.len() != 1 {
                return Some(format!("{member} has {} items", items.len()));
            }
            pointed_to.extend(items.values().map(|item| (item.0.clone(), member.clone())));
        }
        pointed_to.sort_by(|a, b| b.cmp(a));
        (pointed_to != self.rows).then(|| format!("rows {:?}, entries {pointed_to:?}", self.rows))
    }
}

fn ago(secs: u64) -> Timestamp {
    Timestamp::from_nanos(now().as_nanos() - secs * 1_000_000_000).unwrap()
}

async fn lookup(server: &Server, list: &ListKey, member: &str) -> Option<Item> {
    let found = server.session.lookup(&server.op(), list, &[member.to_owned().into()]).await.unwrap();
    found.into_iter().next().unwrap()
}

async fn remove_member(server: &Server, list: &ListKey, member: &str) -> u64 {
    let removal = Removal::Members(vec![member.to_owned().into()]);
    server.session.remove(&server.op(), list, &removal).await.unwrap()
}

/// Waits until the background has made rows and entries agree, during reads.
async fn until_repaired(server: &Server, bare: &Session, list: &ListKey) -> StoredSet {
    for _ in 0..400 {
        server.get(list).await;
        let stored = StoredSet::read(bare, list).await;
        if stored.disagreement().is_none() {
            return stored;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{:?}", StoredSet::read(bare, list).await);
}

/// Waits until `holds` is true of the number of repairs of this kind: it is counted after it becomes visible.
async fn until_counted(server: &Server, what: &str, holds: impl Fn(f64) -> bool) {
    let count = || server.metric("liststore_cql_members_repaired_total", what);
    let is_counted = async {
        while !holds(count()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(10), is_counted).await.is_err() {
        panic!("{what}: {}", count());
    }
}

#[tokio::test]
async fn an_item_is_a_row_and_an_entry_of_its_member() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_set(KEYS));
    let (first, moved) = (ago(20), ago(10));
    let stored = |value: &str| MemberKey::new("u-17").unwrap().store(value.as_bytes());
    let key = |at, value| ItemKey::new(at, ValueDigest::of(&stored(value))).to_string();
    for (at, value) in [(first, "sent 400 mails"), (moved, "again")] {
        let before = now_micros();
        server.add(&list, &[(at, &stored(value))]).await;
        let found = StoredSet::read(&bare, &list).await;
        assert_eq!(found.rows, [(key(at, value), "u-17".to_owned())]);
        let entry: Vec<_> = found.entries["u-17"].values().cloned().collect();
        let expires_at = server.op().ttl.expiry_of(at).cast_signed();
        assert_eq!(entry, [(key(at, value), entry[0].1, expires_at, value.as_bytes().to_vec())]);
        assert!((before..=now_micros()).contains(&entry[0].1));
    }
    assert_eq!(remove_member(&server, &list, "u-17").await, 1);
    let found = StoredSet::read(&bare, &list).await;
    assert!(found.rows.is_empty() && found.entries.is_empty(), "{found:?}");
}

/// The second server finds the first one's item and replaces it. The first then finds the item of the second.
#[tokio::test]
async fn servers_replace_each_others_items() {
    let options = shared_options();
    let (one, two) = (Server::open(options.clone()).await, Server::open(options.clone()).await);
    let (bare, list) = (bare(&options).await, fresh_set(Identity::Value(Keep::Newest)));
    for (n, server) in [&one, &two, &one, &two, &two].into_iter().enumerate() {
        server.add(&list, &[(ago(100 - n as u64), b"v"), (ago(50), b"w")]).await;
        let stored = StoredSet::read(&bare, &list).await;
        assert_eq!((stored.rows.len(), stored.disagreement()), (2, None));
    }
    // Writers are distinct.
    assert_ne!(writers(&bare, &list, &one).await, writers(&bare, &list, &two).await);
}

async fn writers(bare: &Session, list: &ListKey, server: &Server) -> Vec<i32> {
    server.add(list, &[(now(), b"v")]).await;
    StoredSet::read(bare, list).await.entries["v"].keys().copied().collect()
}

/// Puts an item there as another server would.
async fn write_item(bare: &Session, list: &ListKey, writer: i32, (at, value): (Timestamp, &str), written: i64) {
    let key = ItemKey::new(at, ValueDigest::of(value.as_bytes())).to_string();
    write_item_row(bare, list, &key, value, written).await;
    write_item_entry(bare, list, writer, (at, value), written).await;
}

async fn write_item_entry(bare: &Session, list: &ListKey, writer: i32, (at, value): (Timestamp, &str), written: i64) {
    let key = ItemKey::new(at, ValueDigest::of(value.as_bytes())).to_string();
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let text = "UPDATE list_members USING TTL 600 AND TIMESTAMP ? SET items[?] = ? WHERE feature_key = ? AND entity_id = ? \
                AND kind = 'member' AND sort = ?";
    let item = (key, written, ago(0).as_nanos().cast_signed() + 600_000_000_000, value.as_bytes());
    bare.query_unpaged(text, (written, writer, item, feature_key, entity_id, value)).await.unwrap();
}

async fn write_item_row(bare: &Session, list: &ListKey, key: &str, member: &str, written: i64) {
    let text = "INSERT INTO list_members (feature_key, entity_id, kind, sort, member) VALUES (?, ?, 'item', ?, ?) USING \
                TTL 600 AND TIMESTAMP ?";
    let values = (list.feature_key.as_str(), list.entity_id.as_str(), key, member, written);
    bare.query_unpaged(text, values).await.unwrap();
}

#[tokio::test]
async fn one_of_two_concurrent_items_stays_and_the_other_is_removed() {
    let options = shared_options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    for keep in Keep::ALL {
        let list = fresh_set(Identity::Value(keep));
        let (older, newer) = (ago(20), ago(10));
        write_item(&bare, &list, 1, (newer, "v"), now_micros()).await;
        write_item(&bare, &list, 2, (older, "v"), now_micros()).await;
        write_item(&bare, &list, 1, (ago(15), "w"), now_micros()).await;
        let current = if keep == Keep::Newest { newer } else { older };
        let expected = if keep == Keep::Newest { [newer, ago(15)] } else { [ago(15), older] };
        let repaired = server.metric("liststore_cql_members_repaired_total", "second_item");
        for order in Order::ALL {
            let page = server.session.get(&server.op(), &list, &Range { order, ..EVERYTHING }).await.unwrap();
            assert_eq!(page.items.len(), 2, "{keep}: never two of one member");
            assert!(page.items.iter().any(|item| item.timestamp == current), "{keep}");
        }
        // In any part of the set, the other one is missing.
        for at in expected.into_iter().chain([older, newer]) {
            let range = Range { min_timestamp: at, max_timestamp: at, ..EVERYTHING };
            let page = server.session.get(&server.op(), &list, &range).await.unwrap();
            let count = server.session.count(&server.op(), &list, &range.bounds(), 10).await.unwrap().items;
            let found = page.items.iter().filter(|item| item.value == "v").count();
            assert_eq!(found as u64, u64::from(at == current), "{keep}");
            assert_eq!(count, page.items.len() as u64, "{keep}");
        }
        assert_eq!(lookup(&server, &list, "v").await.unwrap().timestamp, current);
        assert_eq!(server.session.count(&server.op(), &list, &Bounds::ALL, 10).await.unwrap().items, 2);
        let stored = until_repaired(&server, &bare, &list).await;
        assert_eq!(stored.rows.len(), 2);
        assert_eq!(lookup(&server, &list, "v").await.unwrap().timestamp, current);
        until_counted(&server, "second_item", |count| count > repaired).await;
    }
}

/// The preceding items decide whether an item is among the newest visible ones: no others are read.
#[tokio::test]
async fn a_lookup_of_few_members_does_not_read_the_whole_set() {
    let (server, list) = (Server::open(shared_options()).await, fresh_set(Identity::Value(Keep::Newest)));
    let op = OpContext { max_items: MaxItems::new(500).ok(), ..server.op() };
    let base = now().as_nanos();
    let at = |n: u64| Timestamp::from_nanos(base - n * 1_000).unwrap();
    let items: Vec<_> = (0..520).map(|n| (at(n), n.to_string())).collect();
    let texts: Vec<_> = items.iter().map(|(at, value)| (*at, value.as_bytes())).collect();
    server.add(&list, &texts).await;
    let counted = |statement| server.metric("liststore_cql_request_duration_seconds", statement);
    let requests = || counted("get") + counted("find");
    for (member, is_shown, most) in
        [("absent", false, 1.0), ("0", true, 3.0), ("60", true, 3.0), ("499", true, 7.0), ("500", false, 8.0)]
    {
        let before = requests();
        let found = server.session.lookup(&op, &list, &[member.into()]).await.unwrap();
        assert_eq!(found[0].is_some(), is_shown, "{member}");
        assert!(requests() - before <= most, "{member}: {}", requests() - before);
    }
    // Of a removal's members, the visible ones count, at any place.
    for (members, shown) in [(&["510", "3", "absent"][..], 1), (&["1", "2"], 2), (&["519"], 0)] {
        let members = members.iter().map(|member| (*member).to_owned().into()).collect();
        let before = requests();
        assert_eq!(server.session.remove(&op, &list, &Removal::Members(members)).await.unwrap(), shown);
        assert!(shown != 2 || requests() - before <= 3.0, "{}", requests() - before);
    }
}

/// An item that two servers have written, for example by one that dies and returns, is removed completely where it is
/// not shown.
#[tokio::test]
async fn an_item_of_two_writers_is_trimmed_with_both_rows() {
    let options = shared_options();
    // One operation has the time of all later ones.
    let server = Server { deadline: Duration::from_secs(300), ..Server::open(options.clone()).await };
    let bare = bare(&options).await;
    let op = OpContext { max_items: MaxItems::new(2).ok(), ..server.op() };
    server.store.bound(Arc::new(move |_| Some((op.ttl, op.max_items?))));
    // The trim meets an item to repair. In some of the lists the repair overlaps the deletion.
    for _ in 0..12 {
        let list = fresh_set(Identity::Value(Keep::Newest));
        let older = ago(60);
        for (writer, written) in [(1, now_micros() - 2), (2, now_micros() - 1)] {
            write_item(&bare, &list, writer, (older, "v"), written).await;
        }
        server.add(&list, &[(ago(30), b"a"), (ago(20), b"b"), (ago(10), b"c")]).await;
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        while StoredSet::read(&bare, &list).await.rows.len() > 2 {
            assert!(tokio::time::Instant::now() < until, "{:?}", StoredSet::read(&bare, &list).await);
            // This encounters more than is shown, and not the item to remove.
            server.session.lookup(&op, &list, &["a".into()]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let stored = StoredSet::read(&bare, &list).await;
        assert_eq!(stored.entries.keys().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(lookup(&server, &list, "v").await, None);
    }
}

/// After the removal of the present item, older leftovers would become visible.
#[tokio::test]
async fn removing_the_current_item_removes_its_whole_member() {
    let options = shared_options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    for removal in ["member", "item", "between"] {
        let list = fresh_set(Identity::Value(Keep::Newest));
        let (older, newer) = (ago(20), ago(10));
        write_item(&bare, &list, 1, (newer, "v"), now_micros()).await;
        write_item(&bare, &list, 2, (older, "v"), now_micros()).await;
        let removal = match removal {
            "member" => Removal::Members(vec!["v".into()]),
            "item" => Removal::Items(vec![(newer, "v".into())]),
            _ => Removal::Between(Bounds { min_timestamp: newer, max_timestamp: newer }),
        };
        assert_eq!(server.session.remove(&server.op(), &list, &removal).await.unwrap(), 1, "{removal:?}");
        let stored = StoredSet::read(&bare, &list).await;
        assert!(stored.rows.is_empty() && stored.entries.is_empty(), "{removal:?}: {stored:?}");
        // As if it had never been there.
        server.add(&list, &[(older, b"v")]).await;
        assert_eq!(server.get(&list).await.items.len(), 1);
    }
}

#[tokio::test]
async fn a_row_without_an_entry_is_hidden_and_removed_once_old() {
    let options = shared_options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    let list = fresh_set(Identity::Value(Keep::Newest));
    server.add(&list, &[(ago(5), b"v")]).await;
    let key = |secs: u64, value: &str| ItemKey::new(ago(secs), ValueDigest::of(value.as_bytes())).to_string();
    write_item_row(&bare, &list, &key(30, "v"), "v", now_micros() - 60_000_000).await;
    write_item_row(&bare, &list, &key(40, "w"), "w", now_micros() - 60_000_000).await;
    assert_eq!(server.values(&list).await, [b"v"]);
    assert_eq!(lookup(&server, &list, "w").await, None);
    assert_eq!(until_repaired(&server, &bare, &list).await.rows.len(), 1);
    until_counted(&server, "stray_row", |count| count == 2.0).await;
    // A recently written one may belong to an add in progress.
    write_item_row(&bare, &list, &key(50, "x"), "x", now_micros()).await;
    assert_eq!(server.values(&list).await, [b"v"]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(StoredSet::read(&bare, &list).await.rows.len(), 2);
}

/// A replica may have an add that others missed, and a read there repairs the others row by row.
#[tokio::test]
async fn an_entry_without_its_row_is_visible_and_repaired() {
    let options = shared_options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    let list = fresh_set(Identity::Value(Keep::Newest));
    let (older, newer) = (ago(20), ago(10));
    write_item(&bare, &list, 1, (older, "v"), now_micros()).await;
    write_item_entry(&bare, &list, 2, (newer, "v"), now_micros()).await;
    let page = server.get(&list).await;
    assert_eq!(page.items.iter().map(|item| item.timestamp).collect::<Vec<_>>(), [newer]);
    let stored = until_repaired(&server, &bare, &list).await;
    assert_eq!(stored.rows[0].0, ItemKey::new(newer, ValueDigest::of(b"v")).to_string());
    until_counted(&server, "missing_row", |count| count == 1.0).await;
}

/// A counting walk encounters moving members once or twice, and counts each once.
#[tokio::test]
async fn a_count_of_a_slice_counts_moving_members_once() {
    const MEMBERS: u64 = 2_500;
    const ROUNDS: usize = 12;
    for keep in [Keep::Newest, Keep::Oldest] {
        let (server, list) = (Server::open(shared_options()).await, fresh_set(Identity::Value(keep)));
        let base = ago(600).as_nanos();
        let place = |moves: u64| match keep {
            Keep::Newest => Timestamp::from_nanos(base + moves * 1_000).unwrap(),
            Keep::Oldest => Timestamp::from_nanos(base - moves * 1_000).unwrap(),
        };
        let member = |n: u64| format!("m-{n:04}").into_bytes();
        let put = async |items: Vec<(Timestamp, Vec<u8>)>| {
            let items: Vec<_> = items.iter().map(|(at, member)| (*at, &member[..])).collect();
            server.add(&list, &items).await;
        };
        for first in (0..MEMBERS).step_by(500) {
            put((first..first + 500).map(|n| (place(n), member(n))).collect()).await;
        }
        let is_over = Cell::new(false);
        let moving = async {
            let mut moves = MEMBERS;
            while !is_over.get() {
                let some = (0..40).map(|n| (place(moves + n), member(fastrand::u64(..MEMBERS))));
                put(some.collect()).await;
                moves += 40;
            }
            moves
        };
        let counting = async {
            // Not the whole set, according to the count.
            let within = Bounds { min_timestamp: ago(1_800), max_timestamp: Timestamp::MAX };
            let mut counts = Vec::new();
            for _ in 0..ROUNDS {
                counts.push(server.session.count(&server.op(), &list, &within, 100_000).await.unwrap().items);
            }
            is_over.set(true);
            counts
        };
        let (moves, counts) = tokio::join!(moving, counting);
        assert!(moves > MEMBERS + 200, "few members have moved: {moves}");
        assert_eq!(counts, [MEMBERS; ROUNDS], "{keep:?}");
    }
}

/// The guide's examples, on Cassandra, and the stored result.
#[tokio::test]
async fn the_examples_of_the_guide_work_on_cassandra() {
    let guide = include_str!("../../docs/explanation/sets.md");
    let keyspace = Keyspace::new();
    liststore::items::cql::migrate(&keyspace.options, false).await.unwrap();
    let mut environment: HashMap<_, _> = environment().into_iter().collect();
    environment.insert("LISTSTORE__ITEMS__CQL__KEYSPACE", keyspace.options.keyspace.clone());
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (server, mut token) = (program::Server::start_with(&environment), String::new());
    for Step { method, path, body, response } in steps(guide, |secs| ago(secs).as_nanos()) {
        let path = path.replace("TOKEN", &token);
        let answer: Value = ok(&server, &method, &path, &body);
        assert!(is_as_documented(&answer, &response, &mut token), "{path}:\n{answer}\nis not\n{response}");
    }
    let bare = bare(&keyspace.options).await;
    let (statements, tables) = (blocks(guide, "cql"), blocks(guide, "text"));
    assert!(!statements.is_empty() && statements.len() == tables.len());
    for (statement, table) in statements.into_iter().zip(tables) {
        let lines = printed(&bare, statement).await;
        let documented: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(lines.len(), documented.len(), "{lines:?}");
        for (line, documented) in lines.iter().zip(documented) {
            let documented = documented.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(is_line_as_documented(line, &documented), "{line}\nis not\n{documented}");
        }
    }
}

/// Rows of two columns, the second a text or a map of items, as cqlsh prints them.
async fn printed(bare: &Session, statement: &str) -> Vec<String> {
    let rows = bare.query_unpaged(statement.trim_end_matches(';'), ()).await.unwrap().into_rows_result().unwrap();
    if let Ok(rows) = rows.rows::<(String, String)>() {
        return rows.map(|row| row.unwrap()).map(|(sort, member)| format!("{sort} | {member}")).collect();
    }
    let print = |(sort, items): (String, Entry)| {
        let item = |(writer, (key, written, expires, value)): (&i32, &(String, i64, i64, Vec<u8>))| {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{writer}: ('{key}', {written}, {expires}, 0x{hex})")
        };
        format!("{sort} | {{{}}}", items.iter().map(item).collect::<Vec<_>>().join(", "))
    };
    rows.rows::<(String, Entry)>().unwrap().map(|row| print(row.unwrap())).collect()
}
