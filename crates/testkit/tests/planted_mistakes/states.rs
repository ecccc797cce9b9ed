//! Plugins whose extension points name different states.

use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, cluster, node, pod};

use super::Planted;

/// Declares a plugin whose PreFilter and PreScore return the states before `=>`, and whose Filter, PostFilter, PreScore
/// and Score take the states after `=>`.
macro_rules! plugin {
    ($name:ident: $made:ty => $filter:ty, $post_filter:ty, $pre_score:ty; $scored:ty => $score:ty) => {
        struct $name;

        impl Plugin for $name {
            const NAME: &'static str = stringify!($name);
            implemented_points!();
        }

        impl PreFilter<WholeCluster, $made> for $name {
            fn pre_filter(&self, _: &Cycle<'_>) -> Result<PreFiltered<$made>, Stop> {
                Ok(PreFiltered::state(7))
            }
        }

        impl Filter<WholeCluster, $filter> for $name {
            fn filter(&self, _: &Cycle<'_>, state: &$filter, _: NodeRef<'_>) -> Verdict {
                if *state == 7 { Ok(()) } else { Err(Reject::evictable("not prepared").into()) }
            }
        }

        impl PostFilter<$post_filter> for $name {
            fn post_filter(
                &self,
                _: &mut PostFilterCycle<'_>,
                _: &$post_filter,
            ) -> PluginResult<PostFiltered> {
                Ok(PostFiltered::NoHelp { reasons: Vec::new(), nomination: Nomination::default() })
            }
        }

        impl PreScore<WholeCluster, $pre_score, $scored> for $name {
            fn pre_score(
                &self,
                _: &Cycle<'_>,
                _: &$pre_score,
                _: &NodeSet,
            ) -> PluginResult<PreScored<$scored>> {
                Ok(PreScored::Continue(7))
            }
        }

        impl Score<WholeCluster, $score> for $name {
            fn score(&self, _: &Cycle<'_>, state: &$score, _: NodeRef<'_>) -> PluginResult<i64> {
                Ok(i64::from(*state))
            }
        }
    };
}

plugin!(Agrees: u8 => u8, (), u8; u16 => u16);
plugin!(FilterDiffers: u8 => u32, (), (); u16 => u16);
plugin!(PostFilterDiffers: u8 => u8, u32, (); u16 => u16);
plugin!(PreScoreDiffers: u8 => u8, (), u32; u16 => u16);
plugin!(ScoreDiffers: u8 => u8, (), (); u16 => u32);

pub(super) fn right() {
    let (nodes, trial) = (cluster([node("n")], []), Trial::of(Agrees));
    assert_eq!(trial.verdict(&nodes, &pod("p").info(), "n"), Ok(()));
    assert_eq!(trial.raw_scores(&nodes, &pod("p").info()).unwrap(), Some(vec![7]));
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "filters with a state that PreFilter does not return",
        said: "plugin \"FilterDiffers\": the state is u8 in PreFilter but u32 in Filter",
        check: || drop(Trial::of(FilterDiffers)),
    },
    Planted {
        wrong: "runs PostFilter with a state that PreFilter does not return",
        said: "plugin \"PostFilterDiffers\": the state is u8 in PreFilter but u32 in PostFilter",
        check: || drop(Trial::of(PostFilterDiffers)),
    },
    Planted {
        wrong: "runs PreScore with a state that PreFilter does not return",
        said: "plugin \"PreScoreDiffers\": the state is u8 in PreFilter but u32 in PreScore",
        check: || drop(Trial::of(PreScoreDiffers)),
    },
    Planted {
        wrong: "scores with a state that PreScore does not return",
        said: "plugin \"ScoreDiffers\": the state is u16 in PreScore but u32 in Score",
        check: || drop(Trial::of(ScoreDiffers)),
    },
];
