//! Phrases that readers have to translate, and their replacements.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

/// A pattern of whole words, in any case, and its replacement.
pub const BANNED: [(&str, &str); 40] = [
    (
        r"what (was|were|is|are|has|had|it|they|one|its|comes?|came|goes|went|stands?|there|must|may)",
        "name the thing: the removed items, a missing list",
    ),
    (r"whoever|whomever", "the caller, any client, anyone who"),
    (r"whatever|whichever", "any, every, regardless of"),
    (r"nobody", "no client, no caller, none"),
    (r"somebody", "a caller, an operator, someone"),
    (r"anybody|everybody", "anyone, everyone, all callers"),
    (r"that of|those of", "repeat the noun"),
    (r"those (that|who|which)", "repeat the noun: the keys that, operators who"),
    (r"all else|all others", "the rest, the other …"),
    (r"tells?|told", "reports, returns, logs, notifies, shows"),
    (r"beside", "next to, with, in addition to"),
    (r"anew", "again"),
    (r"meanwhile", "during …, while …"),
    (r"as far as", "where, if"),
    (r"no more than", "at most"),
    (r"by (itself|themselves)", "automatically"),
    (r"yet to", "not yet"),
    (r"(is|are|was|were) to be", "must be, can be"),
    (r"any more", "no longer"),
    (r"of (its|their|our|one's) own", "separate, or nothing"),
    (r"mend(s|ed|ing)?", "repair"),
    (r"look(s|ed)? (at|into) again", "check again"),
    (r"comes? back", "return, recover"),
    (r"for ever", "permanently, without expiry"),
    (r"for want of", "without, because there is no"),
    (r"stands? (there )?(once|twice)", "occurs once, is unique; duplicate"),
    (r"go(es)? on", "continue"),
    (r"out of reach", "unreachable"),
    (r"at present", "currently, now"),
    (r"in vain", "without success"),
    (r"hears? of", "receives, is notified of"),
    (r"is away", "is unavailable"),
    (r"to be had", "available"),
    (r"has not the form", "malformed"),
    (r"again and again", "repeatedly"),
    (r"by and by|little by little", "gradually"),
    (r"lest", "so that … not"),
    (r"(take|takes|took|taken) over", "adopt, move, replace"),
    (r"pending (items|rows)", "the memtable"),
    (r"brings? (it|them) back", "restore, undo"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> =
    LazyLock::new(|| BANNED.iter().map(|(pattern, instead)| (compiled(pattern), *instead)).collect());

/// All patterns in one. Most texts match none, and one search is much faster than one for each pattern.
static ANY: LazyLock<Regex> = LazyLock::new(|| compiled(&BANNED.map(|(pattern, _)| pattern).join("|")));

fn compiled(pattern: &str) -> Regex {
    let pattern = format!(r"\b(?:{pattern})\b");
    RegexBuilder::new(&pattern).case_insensitive(true).unicode(false).build().unwrap()
}

/// The banned phrases in a text, each with its replacement.
pub fn banned(text: &str) -> Vec<(String, &'static str)> {
    if !ANY.is_match(text) {
        return Vec::new();
    }
    let of_pattern = |(pattern, instead): &'static (Regex, &'static str)| {
        pattern.find_iter(text).map(|found| (found.as_str().to_owned(), *instead)).collect::<Vec<_>>()
    };
    PATTERNS.iter().flat_map(of_pattern).collect()
}
