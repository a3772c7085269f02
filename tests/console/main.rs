//! The console as a person uses it: a real Chromium, driven against the real server.
//!
//! Elements to click or fill in are found by role and name, as the browser reports them to screen readers. After each
//! test the browser's log must be empty: a broken content policy, an exception or a missing file fails it. Tests run
//! one after the other in one browser, each in a separate tab.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod api;
mod browser;
mod entities;
mod erasure;
mod everywhere;
mod features;
mod health;
mod hostile;
mod indexes;
mod lists;
mod page;
mod provider;
mod reference;
mod served;
mod sets;
mod times;
mod tutorial;

use liststore_testkit::{server as support, tokens as test_tokens};
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use browser::{Browser, Look};
use page::Page;

/// The looks of the console: both colours, and the width of a desktop and a phone.
const LOOKS: [Look; 2] = [
    Look { name: "wide_and_light", width: 1280, height: 800, scheme: "light" },
    Look { name: "narrow_and_dark", width: 390, height: 844, scheme: "dark" },
];

/// A screen of 4k. Not every scene is played there.
const VAST: Look = Look { name: "vast_and_dark", width: 3840, height: 2160, scheme: "dark" };

type Scene = fn(Rc<Page>) -> futures_util::future::LocalBoxFuture<'static, ()>;

macro_rules! scenes {
    ($($room:ident::$scene:ident),* $(,)?) => {
        [$((concat!(stringify!($room), "::", stringify!($scene)), (|page| $room::$scene(page).boxed_local()) as Scene)),*]
    };
}

/// All scenes, in the order in which they are played.
fn scenes() -> Vec<(&'static str, Scene)> {
    scenes![
        features::one_is_created_found_changed_and_deleted,
        features::a_lost_race_shows_both_changes,
        features::versions_are_shown_side_by_side,
        features::thousands_are_searched_and_paged,
        features::more_than_the_console_reads_are_found_by_name,
        features::a_deletion_shows_its_consequences,
        features::deprecated_features_and_versions_are_marked,
        features::buckets_are_chosen_at_the_creation,
        lists::items_are_added_viewed_and_removed,
        lists::entities_are_walked_in_pages,
        lists::pages_go_both_ways_and_outlive_a_reload,
        lists::why_an_item_is_missing_is_shown,
        lists::causes_of_long_ago_are_shown,
        lists::causes_of_a_missing_item_are_shown,
        lists::values_of_each_type_are_shown,
        lists::a_list_is_aggregated_in_windows,
        times::fields_take_what_commands_take,
        times::times_have_seconds_and_a_zone_and_one_switch,
        times::the_timeline_fits_its_items,
        sets::a_keyed_set_is_kept_by_hand,
        sets::a_version_is_a_set_of_values,
        sets::replaced_and_evicted_items_are_explained,
        entities::a_type_is_created_changed_and_deleted,
        entities::a_bag_is_put_changed_and_deleted,
        entities::a_lost_race_over_a_bag_shows_both_changes,
        entities::the_lists_of_an_entity_are_shown_with_its_bag_and_bags_are_paged,
        entities::lists_behind_a_thousand_features_are_shown,
        entities::bags_of_a_type_are_purged,
        entities::a_refused_caller_learns_why,
        indexes::bags_are_found_by_an_index,
        indexes::indexes_are_cleaned,
        indexes::a_build_is_watched_paused_and_resumed,
        erasure::a_feature_is_purged,
        erasure::a_purge_of_a_feature_that_is_not_loaded_shows_its_consequences,
        erasure::a_purge_is_paused_resumed_and_cancelled,
        erasure::an_entity_is_erased_with_a_receipt,
        health::checks_and_graphs_are_live,
        health::the_pool_is_resized,
        health::an_ended_server_is_reported,
        health::a_frozen_server_is_reported,
        health::graphs_have_no_axes_without_values,
        health::the_times_of_graphs_can_be_typed,
        access::the_first_key_closes_an_open_server,
        access::actions_without_permission_are_not_offered,
        access::keys_are_made_rotated_and_revoked,
        access::refused_requests_are_shown,
        access::an_empty_part_of_the_trail_is_not_its_end,
        access::people_sign_in_with_their_identity_provider,
        access::a_sign_in_without_its_state_or_with_another_verifier_is_refused,
        access::a_lying_provider_signs_no_user_in,
        reference::a_call_is_read_about_and_tried,
        reference::calls_are_listed_in_the_order_of_their_use,
        reference::a_problem_leads_to_its_explanation,
        hostile::names_and_values_do_no_harm,
        hostile::every_field_takes_anything,
        served::pages_are_light_and_paint_soon,
        served::the_first_paint_is_reported,
        served::keys_alone_are_enough,
        served::the_head_covers_nothing,
        everywhere::every_page_is_accessible,
        tutorial::its_steps_work,
    ]
    .into()
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    // The HTTP client does not select one of several built-in TLS providers.
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let runtime = Arc::new(Runtime::new().unwrap());
    let browser = if arguments.list { None } else { runtime.block_on(Browser::start()).map(Arc::new) };
    let missing = browser.is_none() && !arguments.list;
    let needed = std::env::var("LISTSTORE_TEST_TOOLS").is_ok_and(|tools| tools == "required");
    let mut trials = Vec::new();
    for (name, scene) in scenes() {
        let vast = name.starts_with("everywhere::").then_some(VAST);
        // Readers of the tutorial sit at a desk, and 20,000 features are created once.
        let is_wide_only = name.starts_with("tutorial::") || name.contains("::more_than_the_console_reads_");
        let looks = if is_wide_only { &LOOKS[..1] } else { &LOOKS };
        for look in looks.iter().copied().chain(vast) {
            let (browser, runtime) = (browser.clone(), Arc::clone(&runtime));
            let trial = Trial::test(format!("{name}::{}", look.name), move || match browser {
                Some(browser) => runtime.block_on(play(&browser, look, scene)),
                None => Err(Failed::from("chromium and its driver are missing")),
            });
            trials.push(trial.with_ignored_flag(missing && !needed));
        }
    }
    for (name, test) in served::TESTS {
        let runtime = Arc::clone(&runtime);
        let played = move || {
            runtime.block_on(test());
            api::end_servers();
            Ok(())
        };
        trials.push(Trial::test(format!("served::{name}"), played));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(browser) = browser.and_then(Arc::into_inner) {
        runtime.block_on(browser.stop());
    }
    conclusion.exit_code()
}

/// Plays a scene in a separate tab, and checks the browser's log.
async fn play(browser: &Browser, look: Look, scene: Scene) -> Result<(), Failed> {
    let page = Rc::new(browser.page(look).await);
    let played = AssertUnwindSafe(scene(Rc::clone(&page))).catch_unwind().await;
    let log = page.close().await;
    api::end_servers();
    if let Err(panic) = played {
        std::panic::resume_unwind(panic);
    }
    if log.is_empty() { Ok(()) } else { Err(format!("the browser's log: {log:#?}").into()) }
}
