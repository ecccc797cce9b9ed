//! Finds the traits that a plugin implements, so that none of them is ignored.
//!
//! [`implemented_points!`](crate::implemented_points) calls one method per trait, named after the trait, on a doubly
//! borrowed [`Probe`]. If the plugin implements the trait, method resolution picks `Found`. Otherwise, it removes one
//! level of borrowing and picks `Missing`, which does nothing (autoref specialization). The trait's parameters are
//! inferred, so a plugin that implements one trait twice, say for both scopes, does not compile. A generic plugin must
//! implement its traits for all values of its parameters; an implementation for a single value is not found.

use std::marker::PhantomData;

use crate::{plugin::Plugin, points::Points, resource::Watches};

/// Collects the points of a plugin.
pub struct Probe<'a, P: Plugin>(pub &'a mut Points<P>);

/// Collects what an index of type `I` needs.
pub struct IndexProbe<I>(PhantomData<I>);

/// Defines, for each trait, the probe method that calls the method of the same name on [`Points`].
macro_rules! detect {
    ($($method:ident: $trait:ident <$($param:ident: $bound:path),*>;)*) => {
        $(pub mod $method {
            #[allow(unused_imports, reason = "not every trait has parameters")]
            use crate::{
                detection::Probe,
                fetch::Fetches,
                group::{Groups, PlacementGenerate, PlacementScore, PodGroupPostFilter},
                plugin::*,
                resource::Watches,
                scope::Scoped,
            };

            pub trait Found<$($param),*> {
                fn $method(self);
            }
            impl<$($param: $bound,)* P: Plugin + $trait<$($param),*>> Found<$($param),*> for &mut &mut Probe<'_, P> {
                fn $method(self) {
                    self.0.$method::<$($param),*>();
                }
            }

            pub trait Missing {
                fn $method(self);
            }
            impl<P: Plugin> Missing for &mut Probe<'_, P> {
                fn $method(self) {}
            }
        })*

        /// The traits whose methods the macro calls.
        pub mod methods {
            $(pub use super::$method::{Found as _, Missing as _};)*
            pub use super::index::{Found as _, Missing as _};
            pub use super::index_watches::{Found as _, Missing as _};
        }
    };
}

detect! {
    pre_enqueue: PreEnqueue<>;
    queue_sort: QueueSort<>;
    pre_filter: PreFilter<V: Scoped, S: CopiedState>;
    filter: Filter<V: Scoped, S: State>;
    post_filter: PostFilter<S: State>;
    group_post_filter: PodGroupPostFilter<S: State>;
    generate_placements: PlacementGenerate<>;
    score_placement: PlacementScore<>;
    pre_score: PreScore<V: Scoped, F: State, S: State>;
    score: Score<V: Scoped, S: State>;
    reserve: Reserve<S: State>;
    permit: Permit<>;
    pre_bind: PreBind<>;
    bind: Bind<>;
    post_bind: PostBind<>;
    reads_cluster: ReadsCluster<>;
    watches: Watches<>;
    groups: Groups<>;
    fetches: Fetches<>;
}

pub mod index {
    use super::{IndexProbe, PhantomData, Probe};
    use crate::plugin::{Indexed, Plugin};

    pub trait Found {
        type Index;
        fn index(self) -> IndexProbe<Self::Index>;
    }
    impl<P: Indexed> Found for &mut &mut Probe<'_, P> {
        type Index = P::Index;
        fn index(self) -> IndexProbe<P::Index> {
            self.0.index();
            IndexProbe(PhantomData)
        }
    }

    pub trait Missing {
        fn index(self) -> IndexProbe<()>;
    }
    impl<P: Plugin> Missing for &mut Probe<'_, P> {
        fn index(self) -> IndexProbe<()> {
            IndexProbe(PhantomData)
        }
    }
}

pub mod index_watches {
    use super::{IndexProbe, Plugin, Probe, Watches};

    pub trait Found {
        fn index_watches<P: Plugin>(self, probe: Probe<'_, P>);
    }
    impl<I: Watches> Found for &mut &mut IndexProbe<I> {
        fn index_watches<P: Plugin>(self, probe: Probe<'_, P>) {
            probe.0.resources::<I>();
        }
    }

    pub trait Missing {
        fn index_watches<P: Plugin>(self, probe: Probe<'_, P>);
    }
    impl<I> Missing for &mut IndexProbe<I> {
        fn index_watches<P: Plugin>(self, _: Probe<'_, P>) {}
    }
}

/// Generates [`Plugin::points`](crate::plugin::Plugin::points): the plugin takes part in every point whose trait it
/// implements, and gets the index and the resources that it declares.
///
/// ```
/// # use harbormaster_framework::prelude::*;
/// struct NoEdge;
///
/// impl Plugin for NoEdge {
///     const NAME: &'static str = "NoEdge";
///     implemented_points!();
/// }
/// ```
#[macro_export]
macro_rules! implemented_points {
    () => {
        fn points(points: &mut $crate::points::Points<Self>) {
            #[allow(unused_imports)]
            use $crate::detection::methods::*;
            let mut probe = $crate::detection::Probe(points);
            $crate::implemented_points!(@detect probe:
                pre_enqueue queue_sort pre_filter filter post_filter pre_score score reserve permit pre_bind bind
                post_bind group_post_filter generate_placements score_placement reads_cluster watches groups
                fetches);
            let mut index = (&mut &mut probe).index();
            (&mut &mut index).index_watches(probe);
        }
    };
    (@detect $probe:ident: $($method:ident)*) => {
        $((&mut &mut $probe).$method();)*
    };
}
