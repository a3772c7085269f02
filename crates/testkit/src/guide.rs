//! The examples of a page of the documentation: requests and their responses.

use serde_json::Value;

/// A request of a page, and its response.
pub struct Step {
    pub method: String,
    pub path: String,
    pub body: Value,
    pub response: Value,
}

/// The code blocks of a page in a language.
pub fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// The page's requests, in their order. `ago` makes a timestamp from `NOW-` and seconds on the page.
pub fn steps(page: &str, ago: impl Fn(u64) -> u64) -> Vec<Step> {
    let (requests, answers) = (blocks(page, "http"), blocks(page, "json"));
    assert_eq!(requests.len(), answers.len());
    let step = |(request, response): (&str, &str)| {
        let (line, body) = request.split_once('\n').unwrap_or((request, ""));
        let (method, path) = line.split_once(' ').unwrap();
        let mut body = body.to_owned();
        while let Some((before, rest)) = body.clone().split_once("NOW-") {
            let (secs, after) = rest.split_once('"').unwrap();
            body = format!("{before}{}\"{after}", ago(secs.parse().unwrap()));
        }
        let body = if body.is_empty() { Value::Null } else { serde_json::from_str(&body).unwrap() };
        let response = serde_json::from_str(&response.replace("[…]", "\"…\"")).unwrap();
        Step { method: method.to_owned(), path: path.to_owned(), body, response }
    };
    requests.into_iter().zip(answers).map(step).collect()
}

/// Whether an answer matches the page, where an ellipsis matches anything. Notes a page token.
pub fn is_as_documented(answer: &Value, documented: &Value, token: &mut String) -> bool {
    match (answer, documented) {
        (_, Value::String(any)) if any == "…" => true,
        (Value::String(found), Value::String(wanted)) if wanted == "TOKEN" => {
            token.clone_from(found);
            true
        }
        (Value::Object(found), Value::Object(wanted)) => {
            found.len() == wanted.len()
                && wanted.iter().all(|(name, documented)| {
                    found.get(name).is_some_and(|found| is_as_documented(found, documented, token))
                })
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, documented)| is_as_documented(found, documented, token))
        }
        (found, wanted) => found == wanted,
    }
}

/// Whether a line of text matches the page, where an ellipsis matches any text.
pub fn is_line_as_documented(line: &str, documented: &str) -> bool {
    let mut parts = documented.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let parts: Vec<_> = parts.collect();
    for (n, part) in parts.iter().enumerate() {
        let found = if n + 1 == parts.len() { rest.ends_with(part).then_some(rest.len()) } else { rest.find(part) };
        let Some(at) = found else { return false };
        rest = if n + 1 == parts.len() { "" } else { &rest[at + part.len()..] };
    }
    rest.is_empty()
}
