//! Texts that encoders and decoders of queries are known to mix up.

/// None is a part of another one's beginning, so that each can be recognised.
pub fn odd_texts() -> Vec<String> {
    let long = format!("long {}", "é+ %".repeat(200));
    let texts = [
        "New York",
        " leads and trails ",
        "two  spaces",
        "C+ + C",
        "+",
        "100%",
        "%20",
        "%2B%252B",
        "a&b=c",
        "=&=;",
        "\"quoted\"",
        "it's",
        "#fragment?query",
        "a/b\\c",
        "tab\tand\nline",
        "😀 emoji",
        "שלום עולם",
        "caf\u{e9}",
        "cafe\u{301}",
        "{\"json\": [1]}",
        "\u{feff}mark\u{202e}",
        &long[..long.floor_char_boundary(512)],
    ];
    texts.map(str::to_owned).to_vec()
}
