//! The files that are embedded, by their paths below `static/`. A tidy test holds the list to the folder.

/// Paths with contents.
pub(super) type Embedded = &'static [(&'static str, &'static [u8])];

macro_rules! embed {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("static/", $path)))),*]
    };
}

pub(super) const FILES: Embedded = embed![
    "icon.svg",
    "index.html",
    "lib/api.js",
    "lib/document.js",
    "lib/features.js",
    "lib/format.js",
    "lib/html.js",
    "lib/lists.js",
    "lib/metrics.js",
    "lib/router.js",
    "lib/session.js",
    "lib/store.js",
    "lib/values.js",
    "lib/watch.js",
    "main.js",
    "pages/access.js",
    "pages/audit.js",
    "pages/feature.js",
    "pages/feature_delete.js",
    "pages/feature_edit.js",
    "pages/feature_new.js",
    "pages/features.js",
    "pages/health.js",
    "pages/keys.js",
    "pages/list_changes.js",
    "pages/list_missing.js",
    "pages/list_view.js",
    "pages/lists.js",
    "pages/lost.js",
    "pages/pool.js",
    "pages/reference.js",
    "pages/sign_in.js",
    "pages/try_it.js",
    "pages/versions.js",
    "style/base.css",
    "style/pages.css",
    "style/parts.css",
    "theme.js",
    "ui/feature_parts.js",
    "ui/frame.js",
    "ui/graph.js",
    "ui/icons.js",
    "ui/parts.js",
    "ui/schema.js",
    "ui/timeline.js",
    "ui/use.js",
    "ui/value.js",
    "vendor/htm.js",
    "vendor/htm.licence.txt",
    "vendor/lock.json",
    "vendor/preact-hooks.js",
    "vendor/preact.js",
    "vendor/preact.licence.txt",
    "vendor/uplot.css",
    "vendor/uplot.js",
    "vendor/uplot.licence.txt",
];
