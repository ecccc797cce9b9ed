package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// preemptionVerdict is the result of DefaultPreemption for all nodes on which evictions may help.
type preemptionVerdict struct {
	// Node is the node that DefaultPreemption chooses; empty if there are no candidates.
	Node string `json:"node"`
	// Candidates are the nodes on which evictions make the pod fit, by name.
	Candidates map[string]candidate `json:"candidates"`
}

// candidate is the set of victims on one node.
type candidate struct {
	// Victims are the namespace/name of each victim, most important first.
	Victims []string `json:"victims"`
	// Violations is the number of victims whose eviction violates a disruption budget.
	Violations int64 `json:"violations"`
}

// preempt runs DefaultPreemption on the nodes whose status says that evictions may help.
func (s *session) preempt(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod,
	statuses map[string]*status) (*preemptionVerdict, error) {
	// With these arguments, DefaultPreemption evaluates every node.
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 1}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	plugin, err := defaultpreemption.New(ctx, args, f, features)
	if err != nil {
		return nil, fmt.Errorf("DefaultPreemption: %w", err)
	}
	var rows []fwk.NodeInfo
	for _, node := range s.nodes {
		if st := statuses[node.Node().Name]; st != nil && st.Code == fwk.Unschedulable.String() {
			rows = append(rows, node)
		}
	}
	verdict := &preemptionVerdict{Candidates: map[string]candidate{}}
	if len(rows) == 0 {
		return verdict, nil
	}
	budgets, err := plugin.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	found, _, err := plugin.Evaluator.DryRunPreemption(ctx, state, pod, rows, budgets, 0, int32(len(rows)))
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		verdict.Candidates[one.Name()] = candidateOf(one)
	}
	if best := plugin.Evaluator.SelectCandidate(ctx, found); best != nil {
		verdict.Node = best.Name()
	}
	return verdict, nil
}

func candidateOf(found preemption.Candidate) candidate {
	victims := found.Victims()
	names := make([]string, 0, len(victims.Pods))
	for _, pod := range victims.Pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return candidate{Victims: names, Violations: victims.NumPDBViolations}
}

// noNominations is the nominator of a scheduler without nominated pods.
type noNominations struct{}

func (noNominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (noNominations) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (noNominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (noNominations) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }
