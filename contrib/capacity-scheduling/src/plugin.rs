//! Extension points of the plugin, and the changes after which a pod is tried again.

use std::sync::Arc;

use harbormaster::{
    api::Pod,
    preemption::{DefaultPreemption, DefaultPreemptionArgs},
    prelude::*,
};

use crate::{
    claim::Claim, elastic_quota::ElasticQuota, ledger::Ledger, members, quota_group::QuotaGroup,
    terms::QuotaTerms,
};

/// Admits pods by quotas, and evicts pods that borrow. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct CapacityScheduling(DefaultPreemption);

impl Plugin for CapacityScheduling {
    const NAME: &'static str = "CapacityScheduling";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let fewer = Action::DELETE | Action::UPDATE_POD_SCALE_DOWN;
        Some(vec![
            Registration::hinted_with_objects(EventResource::Pod, fewer, Self::after_pod),
            Registration::on(Action::ALL, Self::after_quota),
            Registration::on(Action::ALL, Self::after_group),
        ])
    }
}

impl Build for CapacityScheduling {
    type Args = NoArgs;

    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        DefaultPreemption::build(DefaultPreemptionArgs::default(), cx).map(Self)
    }
}

impl Watches for CapacityScheduling {
    type Resources = (ElasticQuota, QuotaGroup);
}

impl Indexed for CapacityScheduling {
    type Index = Ledger;
}

/// Keeps pods out of the queue while pods are being evicted for them, as DefaultPreemption does.
impl PreEnqueue for CapacityScheduling {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        self.0.pre_enqueue(cx)
    }
}

impl PreFilter for CapacityScheduling {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let claim = Claim::of(self.index(cx)?, cx.nominations, cx.pod);
        match claim.and_then(|claim| claim.refusal()) {
            Some(why) => Err(Reject::evictable(why).into()),
            None => Ok(PreFiltered::Skip),
        }
    }
}

impl PostFilter for CapacityScheduling {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, (): &()) -> PluginResult<PostFiltered> {
        let mut terms = {
            let cycle = cx.what_if.cycle(cx.pod);
            let ledger = self.index(&cycle)?;
            let claim = Claim::of(ledger, cycle.nominations, cx.pod);
            let is_refused = claim.as_ref().is_some_and(|claim| claim.refusal().is_some());
            let terms = QuotaTerms::new(ledger, claim, cx.pod.priority());
            if let (false, Some(why)) =
                (cx.pod.spec.never_preempts, Self::waits_or_despairs(&terms, is_refused))
            {
                let reasons = vec![format!("preemption: {why}").into()];
                return Ok(PostFiltered::NoHelp { reasons, nomination: Nomination::Keep });
            }
            terms
        };
        self.0.post_filter_with(cx, &mut terms)
    }
}

/// Members of a group count as one pod, which requests what they do: as many members as the group needs at least, or
/// more if they are guaranteed what they request.
impl PodGroupPostFilter for CapacityScheduling {
    fn group_post_filter(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        _: &[Option<&()>],
    ) -> PluginResult<GroupPostFiltered> {
        let members = members::in_order(cx.members);
        if members.is_empty() {
            return Ok(GroupPostFiltered::NoHelp { reasons: vec![] });
        }
        let needed = members::needed(cx.group, members.len());
        let mut count = self.most_guaranteed(cx, &members, needed)?;
        loop {
            let answer = self.evict_for(cx, &members[..count])?;
            let placed = match &answer {
                GroupPostFiltered::Nominate { nodes, victims, .. } if !victims.is_empty() => nodes.len(),
                GroupPostFiltered::Nominate { .. } => return Ok(answer),
                _ => needed,
            };
            if placed == count || count == needed {
                return Ok(answer);
            }
            // Nodes have room for fewer members than the quotas guarantee. What is evicted for others is in vain.
            count = placed.clamp(needed, count - 1);
        }
    }
}

/// Existing configurations name the plugin in `reserve`. There is nothing to reserve: the ledger has pods from the
/// decision on.
impl Reserve for CapacityScheduling {
    type Reserved = ();

    fn reserve(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>, _: &mut Assume) -> Result<(), Stop> {
        Ok(())
    }

    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

impl CapacityScheduling {
    /// The terms for members of a group, and true if the quotas do not admit all of them yet.
    fn terms_of(
        &self,
        cx: &GroupPostFilterCycle<'_>,
        members: &[Arc<PodInfo>],
    ) -> PluginResult<(QuotaTerms, bool)> {
        let Some(first) = members.first() else { return Err("there are no members".into()) };
        let priority = cx.group.priority.unwrap_or_else(|| first.priority());
        let cycle = cx.what_if.cycle(first);
        let ledger = self.index(&cycle)?;
        let claim = Claim::of_members(ledger, cycle.nominations, members, priority);
        let is_refused = claim.as_ref().is_some_and(|claim| claim.refusal().is_some());
        Ok((QuotaTerms::new(ledger, claim, priority), is_refused))
    }

    /// Returns the largest number of members that are guaranteed what they request on the same level of the tree as the
    /// needed ones are.
    fn most_guaranteed(
        &self,
        cx: &GroupPostFilterCycle<'_>,
        members: &[Arc<PodInfo>],
        needed: usize,
    ) -> PluginResult<usize> {
        let (terms, _) = self.terms_of(cx, &members[..needed])?;
        let Some(level) = terms.entitlement() else { return Ok(needed) };
        Ok(members::most(needed, members.len(), |count| {
            let terms = self.terms_of(cx, &members[..count]);
            terms.is_ok_and(|(terms, _)| terms.entitlement() == Some(level) && terms.hopeless().is_none())
        }))
    }

    /// Looks for pods to evict so that these members can be placed, and no others.
    fn evict_for(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        members: &[Arc<PodInfo>],
    ) -> PluginResult<GroupPostFiltered> {
        let (mut terms, is_refused) = self.terms_of(cx, members)?;
        let never =
            cx.group.never_preempts.unwrap_or_else(|| members.iter().any(|pod| pod.spec.never_preempts));
        if let (false, Some(why)) = (never, Self::waits_or_despairs(&terms, is_refused)) {
            let reasons = vec![format!("pod group preemption: {why}").into()];
            let nominated =
                |pod: &Arc<PodInfo>| Some((pod.uid.clone(), pod.status.nominated_node_name.clone()?));
            let nodes: Vec<_> = cx.members.iter().filter_map(nominated).collect();
            return Ok(match Self::waits(&terms, is_refused) && !nodes.is_empty() {
                true => GroupPostFiltered::Nominate { nodes, victims: vec![], violations: 0, reasons },
                false => GroupPostFiltered::NoHelp { reasons },
            });
        }
        let GroupPostFilterCycle { group, pre_filtered, .. } = *cx;
        let cx = &mut GroupPostFilterCycle {
            group,
            members,
            pre_filtered,
            calls: &mut *cx.calls,
            what_if: &mut *cx.what_if,
        };
        self.0.group_post_filter_with(cx, &mut terms)
    }

    /// Returns true if the quotas admit the pod as soon as those that are being evicted are gone.
    fn waits(terms: &QuotaTerms, is_refused: bool) -> bool {
        is_refused && terms.admits()
    }

    /// Returns why no pods are to be evicted; `None` if some may have to be.
    fn waits_or_despairs(terms: &QuotaTerms, is_refused: bool) -> Option<String> {
        if Self::waits(terms, is_refused) {
            return Some("not eligible due to terminating pods of ElasticQuotas.".to_owned());
        }
        terms.hopeless()
    }

    /// A pod that goes away, or shrinks, leaves more of the quotas to others if its namespace has a quota.
    fn after_pod(&self, cx: HintCycle<'_>, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old, new } = change else { return Ok(Hint::Skip) };
        let (quotas, groups) = self.watched(cx.objects);
        let counts = |pod: &Pod| {
            pod.uid == cx.pod.uid
                || quotas.all_in(&pod.namespace).next().is_some()
                || groups.all().any(|group| group.namespaces.contains_key(&pod.namespace))
        };
        let changed = new.or(*old);
        Ok(if changed.is_some_and(counts) { Hint::Queue } else { Hint::Skip })
    }

    /// Any change of a quota may leave more to a pod, also to one of another namespace.
    fn after_quota(&self, _: &PodInfo, change: Changed<'_, ElasticQuota>) -> PluginResult<Hint> {
        let spec = |quota: &Custom<ElasticQuota>| quota.object.clone();
        Ok(if change.old.map(spec) == change.new.map(spec) { Hint::Skip } else { Hint::Queue })
    }

    /// The same goes for groups.
    fn after_group(&self, _: &PodInfo, change: Changed<'_, QuotaGroup>) -> PluginResult<Hint> {
        let spec = |group: &Custom<QuotaGroup>| group.object.clone();
        Ok(if change.old.map(spec) == change.new.map(spec) { Hint::Skip } else { Hint::Queue })
    }
}
