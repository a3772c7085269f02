//! A tab, and the actions of a person. Each action waits for its element.

use std::time::Duration;

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::wd::{WebDriverCompatibleCommand, WindowHandle};
use fantoccini::{Client, Locator};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::browser::Look;

/// How long a page may take for anything. Far more than it does, also on a busy machine: one test reads 20,000 lists.
const PATIENCE: Duration = Duration::from_secs(180);
const AGAIN_AFTER: Duration = Duration::from_millis(15);

const AXE: &str = include_str!("vendor/axe.min.js");
/// Rules of WCAG 2.0 to 2.2, levels A and AA. The page is checked from its top: further down, elements beneath the
/// fixed head count as obscured, and the scroll position after a click is outside of this test.
const CHECK: &str = "
    const done = arguments[0];
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    document.getElementById('below')?.scrollTo(0, 0);
    const drawn = new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    drawn.then(() => axe.run(document, { runOnly: tags, resultTypes: ['violations'] })).then(
      ({ violations }) => done(violations.map(({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + (node.any[0]?.message ?? '')).join(' | ')}`)),
      (error) => done([String(error)]));
";

/// The abilities of Chromium's driver beyond the standard.
#[derive(Debug)]
struct Extra {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, <Url as std::str::FromStr>::Err> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

pub struct Page {
    driver: Client,
    tab: WindowHandle,
    look: Look,
}

impl Page {
    pub fn new(driver: Client, tab: WindowHandle, look: Look) -> Self {
        Self { driver, tab, look }
    }

    pub fn is_narrow(&self) -> bool {
        self.look.width < 800
    }

    /// A command of Chromium's own protocol.
    pub async fn command(&self, name: &str, parameters: Value) -> Value {
        self.ask(name, parameters).await.unwrap_or_else(|| panic!("{name} was refused"))
    }

    async fn ask(&self, name: &str, parameters: Value) -> Option<Value> {
        let body = json!({"cmd": name, "params": parameters});
        self.driver.issue_cmd(Extra { path: "goog/cdp/execute", body }).await.ok()
    }

    pub async fn open(&self, url: &str) {
        self.driver.goto(url).await.unwrap();
    }

    pub async fn reload(&self) {
        self.driver.refresh().await.unwrap();
    }

    pub async fn back(&self) {
        self.driver.back().await.unwrap();
    }

    pub async fn address(&self) -> String {
        self.driver.current_url().await.unwrap().to_string()
    }

    pub async fn run(&self, script: &str) -> Value {
        self.driver.execute(script, vec![]).await.unwrap()
    }

    /// All elements of a role and name, as the browser reports them to screen readers.
    async fn named(&self, role: &str, name: &str) -> Vec<Element> {
        let mut elements = Vec::new();
        for node in self.nodes(role, name).await.unwrap_or_default() {
            elements.extend(self.element(&node).await);
        }
        elements
    }

    /// The nodes of a role and name in the browser's own count. `None` if the page changes too often.
    async fn nodes(&self, role: &str, name: &str) -> Option<Vec<Value>> {
        let document = self.ask("DOM.getDocument", json!({"depth": 0})).await?;
        let query = json!({"nodeId": document["root"]["nodeId"], "role": role, "accessibleName": name});
        let found = self.ask("Accessibility.queryAXTree", query).await?;
        let nodes = found["nodes"].as_array()?.iter().filter(|node| node["ignored"] == false);
        Some(nodes.map(|node| node["backendDOMNodeId"].clone()).collect())
    }

    /// The element of a node in the browser's numbering. None if it was removed since.
    async fn element(&self, node: &Value) -> Option<Element> {
        let object = self.ask("DOM.resolveNode", json!({"backendNodeId": node})).await?;
        let mark = json!({
            "objectId": object["object"]["objectId"],
            "functionDeclaration": "function (mark) { this.setAttribute('data-test', mark); }",
            "arguments": [{"value": node.to_string()}],
        });
        self.ask("Runtime.callFunctionOn", mark).await?;
        let found = self.driver.find(Locator::Css(&format!("[data-test='{node}']"))).await.ok()?;
        let is_shown = found.is_displayed().await.unwrap_or(false);
        is_shown.then_some(found)
    }

    /// Waits until a try gives something.
    async fn until<T>(&self, what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Ok(Some(found)) = timeout(PATIENCE, attempt()).await {
                return found;
            }
            if began.elapsed() > PATIENCE {
                let (address, text) = (self.address().await, self.text().await);
                panic!("there is no {what} on {address} ({}), but:\n{text}", self.look.name);
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    /// The first element of a role and name.
    pub async fn the(&self, role: &str, name: &str) -> Element {
        let what = format!("{role} \"{name}\"");
        self.until(&what, async || self.named(role, name).await.into_iter().next()).await
    }

    /// Waits until there is none. Elements behind a dialog are invisible to screen readers, and still exist: the check
    /// waits for no open dialog.
    pub async fn no(&self, role: &str, name: &str) {
        if role != "dialog" {
            self.holds("!document.querySelector('dialog[open]')").await;
        }
        let what = format!("end of {role} \"{name}\"");
        self.until(&what, async || self.nodes(role, name).await?.is_empty().then_some(())).await;
    }

    pub async fn click(&self, role: &str, name: &str) {
        let what = format!("{role} \"{name}\" to click");
        self.until(&what, async || self.hit(self.named(role, name).await.into_iter().next()?).await).await;
    }

    /// Clicks a button or a link.
    pub async fn click_the(&self, name: &str) {
        let found = async || match self.named("button", name).await.into_iter().next() {
            Some(button) => Some(button),
            None => self.named("link", name).await.into_iter().next(),
        };
        let what = format!("button or link \"{name}\" to click");
        self.until(&what, async || self.hit(found().await?).await).await;
    }

    /// Clicks in the middle of the screen: an element at its edge may be beneath the fixed head.
    async fn hit(&self, element: Element) -> Option<()> {
        let to = serde_json::to_value(&element).ok()?;
        self.driver.execute("arguments[0].scrollIntoView({ block: 'center' })", vec![to]).await.ok()?;
        element.click().await.ok()
    }

    /// A button of the open dialog, also if other elements have its name.
    pub async fn click_in_dialog(&self, name: &str) {
        let what = format!("button \"{name}\" of the dialog");
        let last = async || self.hit(self.named("button", name).await.into_iter().last()?).await;
        self.until(&what, last).await;
    }

    /// Empties a field, and types into it.
    pub async fn fill(&self, name: &str, text: &str) {
        self.fill_the("textbox", name, text).await;
    }

    pub async fn fill_the(&self, role: &str, name: &str, text: &str) {
        self.click(role, name).await;
        let field = self.the(role, name).await;
        self.run("document.activeElement.select()").await;
        self.command("Input.insertText", json!({"text": text})).await;
        if text.is_empty() {
            field.send_keys("\u{E003}").await.unwrap();
        }
    }

    /// Selects an option by its text.
    pub async fn choose(&self, name: &str, option: &str) {
        let field = self.the("combobox", name).await;
        let what = format!("option \"{option}\"");
        self.until(&what, async || {
            for found in field.find_all(Locator::Css("option")).await.ok()? {
                if found.text().await.ok()?.starts_with(option) {
                    return found.click().await.ok();
                }
            }
            None
        })
        .await;
    }

    /// Keys, to the focused element.
    pub async fn press(&self, keys: &str) {
        let pressed = keys.chars().fold(KeyActions::new("keys".to_owned()), |actions, value| {
            actions.then(KeyAction::Down { value }).then(KeyAction::Up { value })
        });
        self.driver.perform_actions(pressed).await.unwrap();
    }

    /// The focused element: its role and name.
    pub async fn focused(&self) -> String {
        let script = "const it = document.activeElement; return it ? it.tagName + ' ' + \
                      (it.getAttribute('aria-label') || it.innerText || it.name || '') : ''";
        self.run(script).await.as_str().unwrap_or_default().to_owned()
    }

    pub async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page contains this text.
    pub async fn sees(&self, text: &str) {
        self.until(&format!("text \"{text}\""), async || self.text().await.contains(text).then_some(())).await;
    }

    pub async fn sees_no(&self, text: &str) {
        let what = format!("page without \"{text}\"");
        self.until(&what, async || (!self.text().await.contains(text)).then_some(())).await;
    }

    /// Waits until something in the page is true.
    pub async fn holds(&self, condition: &str) {
        let script = format!("return Boolean({condition})");
        self.until(condition, async || (self.run(&script).await == true).then_some(())).await;
    }

    /// The page is accessible, and no wider than the screen.
    pub async fn is_accessible(&self) {
        self.driver.execute(AXE, vec![]).await.unwrap();
        let found = self.driver.execute_async(CHECK, vec![]).await.unwrap();
        let address = self.address().await;
        assert_eq!(found, json!([]), "{address} ({})", self.look.name);
        let overflow = self.run("return document.documentElement.scrollWidth - innerWidth").await;
        assert!(overflow.as_i64().unwrap() <= 0, "{address} is {overflow} px wider than {}", self.look.name);
    }

    /// Returns the content of the clipboard.
    pub async fn copied(&self) -> String {
        let script = "const done = arguments[0]; navigator.clipboard.readText().then(done, (e) => done(String(e)))";
        self.driver.execute_async(script, vec![]).await.unwrap().as_str().unwrap_or_default().to_owned()
    }

    pub async fn may_use_the_clipboard(&self) {
        let permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"];
        self.command("Browser.grantPermissions", json!({"permissions": permissions})).await;
    }

    /// The browser's log since the last call, of all kinds.
    pub async fn log(&self) -> Vec<String> {
        let log = self.driver.issue_cmd(Extra { path: "se/log", body: json!({"type": "browser"}) }).await.unwrap();
        // Remarks of the browser, for example about focus, are not errors.
        let reported = log.as_array().unwrap().iter().filter(|entry| entry["level"] != "INFO");
        reported.map(|entry| format!("{}: {}", entry["level"], entry["message"])).collect()
    }

    /// The browser's note about each refused request, for tests about refusals.
    pub async fn expects_refusals(&self, status: u16) {
        for line in self.log().await {
            assert!(line.contains(&format!("status of {status} ")), "{line}");
        }
    }

    /// Closes the tab.
    pub async fn close(&self) -> Vec<String> {
        let log = self.log().await;
        self.driver.switch_to_window(self.tab.clone()).await.unwrap();
        let first = self.driver.windows().await.unwrap().remove(0);
        if first != self.tab {
            self.driver.close_window().await.unwrap();
            self.driver.switch_to_window(first).await.unwrap();
        }
        log
    }
}
