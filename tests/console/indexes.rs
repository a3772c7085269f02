//! Indexes: created, observed during their build, queried, and dropped.

use std::rc::Rc;

use reqwest::Method;
use serde_json::json;

use crate::api::Api;
use crate::page::Page;

pub async fn bags_are_found_by_an_index(page: Rc<Page>) {
    let api = Api::start().await;
    page.may_use_the_clipboard().await;
    api.users().await;
    for n in 0..120 {
        let city = ["Paris", "Rome"][n % 2];
        api.bag(
            &format!("u-{n}"),
            json!({"name": format!("user {n}"), "address": {"city": city}, "age": n, "tags": ["a", n]}),
        )
        .await;
    }
    page.open(&api.url("/console/entities/type/user/find")).await;
    page.sees("No index yet").await;
    page.is_accessible().await;
    page.click("link", "To the indexes").await;
    page.sees("No index yet").await;
    page.is_accessible().await;
    page.click("button", "New index").await;
    page.fill("Name", "by_city").await;
    page.fill("Found by", "city").await;
    page.sees("a path must begin with \"/\"").await;
    page.is_accessible().await;
    page.fill("Found by", "").await;
    // The page offers properties of existing bags.
    page.click("button", "/address/city").await;
    page.holds("document.querySelector('dialog textarea').value === '/address/city'").await;
    page.fill_the("combobox", "Ordered by", "/age").await;
    page.is_accessible().await;
    page.click("button", "Create the index").await;
    page.sees("The index by_city is being built").await;
    // The page observes it until all bags are in it, and lists it among the jobs.
    page.sees("ready").await;
    page.is_accessible().await;
    page.open(&api.url("/console/erasure")).await;
    page.sees("builds an index of user").await;
    page.sees("120 bags processed").await;
    page.is_accessible().await;
    page.click("link", "builds an index of user").await;
    page.click("link", "Find").await;
    page.sees("Which bags?").await;
    page.is_accessible().await;
    page.fill("Value of /address/city", "Paris").await;
    page.sees("Sent as \"Paris\"").await;
    page.click("button", "Find").await;
    let shown = "[...document.querySelectorAll('.items .main-cell a')].map((a) => a.innerText).join()";
    let ids = |numbers: &mut dyn Iterator<Item = u32>| numbers.map(|n| format!("u-{n}")).collect::<Vec<_>>().join(",");
    let (first, second) = (ids(&mut (0..50).map(|n| 118 - 2 * n)), ids(&mut (0..10).map(|n| 18 - 2 * n)));
    page.holds(&format!("{shown} === '{first}'")).await;
    page.is_accessible().await;
    page.click("button", "More").await;
    page.holds(&format!("{shown} === '{second}'")).await;
    page.reload().await;
    page.holds(&format!("{shown} === '{second}'")).await;
    page.click("button", "Back").await;
    page.holds(&format!("{shown} === '{first}'")).await;
    page.fill("From", "8").await;
    page.fill("To", "14").await;
    page.choose("Order", "least first").await;
    page.click("button", "Find").await;
    page.holds(&format!("{shown} === 'u-8,u-10,u-12,u-14'")).await;
    page.click("button", "Copy as curl").await;
    page.holds("document.body.innerText.includes('Copy as curl: copied')").await;
    let copied = page.copied().await;
    assert!(copied.contains("/by_city/entities?value=%22Paris%22&min=8&max=14&order=oldest"), "{copied}");
    page.click("button", "Copy as command").await;
    page.holds("document.body.innerText.includes('Copy as command: copied')").await;
    let copied = page.copied().await;
    assert!(
        copied.starts_with("liststore entity find --value '\"Paris\"' --min 8 --max 14 --order oldest"),
        "{copied}"
    );
    page.click("link", "u-10").await;
    page.sees("user 10").await;
    finds_a_text_with_spaces_and_a_plus(&page, &api, shown).await;
    takes_bounds_of_any_year(&page, &api).await;
    // A refusal is shown in the words of the server.
    page.open(&api.url("/console/entities/type/user/find?index=by_city&value=Paris&min=x")).await;
    page.sees("must be").await;
    page.is_accessible().await;
    page.expects_refusals(400).await;

    page.open(&api.url("/console/entities/type/user/indexes")).await;
    page.click("button", "Drop by_city").await;
    page.the("dialog", "Drop this index?").await;
    page.is_accessible().await;
    page.fill("Type by_city to drop it", "by_city").await;
    page.click("button", "Drop permanently").await;
    page.sees("No index yet").await;
    assert_eq!(api.get("/v1/entity-types/user/indexes").await["indexes"], json!([]));
    page.open(&api.url("/console/entities/type/user/history")).await;
    page.sees("created the index").await;
    page.sees("deleted the index").await;
    page.is_accessible().await;
    page.open(&api.url("/console/access/audit?target=user")).await;
    page.sees("created the index").await;
}

/// Such a text is the same to the page, its address and the server.
async fn finds_a_text_with_spaces_and_a_plus(page: &Page, api: &Api, shown: &str) {
    api.bag("u-odd", json!({"name": "odd", "address": {"city": "New York + C"}, "age": 1})).await;
    page.open(&api.url("/console/entities/type/user/find?index=by_city")).await;
    page.sees("Which bags?").await;
    page.fill("Value of /address/city", "New York + C").await;
    page.click("button", "Find").await;
    page.holds(&format!("{shown} === 'u-odd'")).await;
    page.reload().await;
    page.holds(&format!("{shown} === 'u-odd'")).await;
    page.open(&api.url("/console/entities/type/user/find?index=by_city&value=New+York+%2B+C")).await;
    page.holds(&format!("{shown} === 'u-odd'")).await;
}

/// Answers of a server with a slow build: a real one ends too soon for the test.
const SLOW_BUILD: &str = "
    window.build = { state: 'building', done: 1200, job: 'running' };
    const id = '0'.repeat(32);
    const at = new Date().toISOString();
    const answer = (body) => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
    const real = window.fetch;
    window.fetch = (url, options) => {
      const { state, done, job } = window.build;
      const reported = /jobs.*(pause|resume)$/.exec(url);
      if (reported) window.build.job = reported[1] === 'pause' ? 'paused' : 'running';
      const work = { id, kind: 'build_index', state: window.build.job, entity_type: 'user', generations: 1,
        generations_cleared: 0, lists_cleared: done, created_at: at, created_by: 'liststore', updated_at: at };
      if (reported) return Promise.resolve(answer(work));
      if (url.includes('/v1/jobs?')) return Promise.resolve(answer({ jobs: [work] }));
      if (!/indexes$/.test(url)) return real(url, options);
      return Promise.resolve(answer({ indexes: [{ name: 'by_city', properties: ['/city'], state, created_at: at,
        ...(state === 'building' && { bags_done: done, job_id: id, bags_left_out: 3, problem: window.build.problem }) }] }));
    };
";

pub async fn a_build_is_watched_paused_and_resumed(page: Rc<Page>) {
    let api = Api::start().await;
    api.users().await;
    api.bag("u-1", json!({"city": "Paris"})).await;
    let index = json!({"name": "by_city", "properties": ["/city"]});
    api.send(Method::POST, "/v1/entity-types/user/indexes", index).await;
    page.open(&api.url("/console/entities/type/user")).await;
    page.the("heading", "user").await;
    page.run(SLOW_BUILD).await;
    page.click("link", "Indexes").await;
    page.sees("1,200 bags processed so far").await;
    page.sees("3 bags left out").await;
    page.is_accessible().await;
    page.run("window.build.done = 56789").await;
    page.sees("56,789 bags processed so far").await;
    page.click("button", "Pause by_city").await;
    page.the("button", "Resume by_city").await;
    page.holds("window.build.job === 'paused'").await;
    page.run("window.build.problem = 'the store is away'").await;
    page.sees("the store is away").await;
    page.is_accessible().await;
    page.click("link", "by_city").await;
    page.fill("Value of /city", "Paris").await;
    page.click("button", "Find").await;
    page.sees("The index is being built.").await;
    page.is_accessible().await;
    page.click("link", "Indexes").await;
    page.click("button", "Resume by_city").await;
    page.the("button", "Pause by_city").await;
    page.run("window.build.state = 'ready'").await;
    page.sees_no("building").await;
    page.no("button", "Pause by_city").await;
}

pub async fn indexes_are_cleaned(page: Rc<Page>) {
    let api = Api::start().await;
    api.users().await;
    api.bag("u-1", json!({"city": "Paris"})).await;
    let index = json!({"name": "by_city", "properties": ["/city"]});
    api.send(Method::POST, "/v1/entity-types/user/indexes", index).await;
    page.open(&api.url("/console/entities/type/user/indexes")).await;
    page.sees("ready").await;
    page.click("button", "Clean by_city").await;
    page.sees("The cleaning of by_city has started").await;
    page.click("button", "Clean all").await;
    page.sees("The cleaning of all indexes has started").await;
    page.is_accessible().await;
    page.click("link", "Running jobs").await;
    page.sees("cleans indexes of user").await;
    page.sees("0 missing entries added").await;
    page.is_accessible().await;
    let kinds =
        api.get("/v1/jobs").await["jobs"].as_array().unwrap().iter().filter(|job| job["kind"] == "clean").count();
    assert_eq!(kinds, 2);
    page.open("about:blank").await;
}

/// A bound is any time that a bag may have.
async fn takes_bounds_of_any_year(page: &Page, api: &Api) {
    page.open(&api.url("/console/entities/type/user/find?index=by_city&value=Paris")).await;
    page.sees("u-118").await;
    page.fill("From", "1969-07-20").await;
    page.fill("To", "3 hours ago").await;
    page.click("button", "Find").await;
    page.sees("No matching bag").await;
    page.holds("new URLSearchParams(location.search).get('min') === '1969-07-20T00:00:00.000000000Z'").await;
}
