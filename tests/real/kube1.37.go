//go:build kube1.37

// What the oracles do for Kubernetes 1.37, but not for 1.36.

package main

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// defaultOnCreation sets the defaults that the API server sets when it creates a pod, rather than whenever it reads one:
// requests and limits of the pod as a whole.
func defaultOnCreation(pod *v1.Pod) error {
	if pod.Spec.Resources == nil {
		return nil
	}
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return err
	}
	podutil.DefaultPodLevelResources(internal)
	return corev1.Convert_core_ResourceRequirements_To_v1_ResourceRequirements(
		internal.Spec.Resources, pod.Spec.Resources, nil)
}

// taintRule is the kind of the rules that taint devices.
var taintRule = &resourcev1.DeviceTaintRule{}

// followTaintRules makes a tracker of resource slices read the rules that taint devices.
func followTaintRules(options *tracker.Options, c *cluster) {
	options.TaintInformer = c.informers.Resource().V1().DeviceTaintRules()
}

// withSnapshot lets a framework read the snapshot, and lets preemption look up nodes in it.
func withSnapshot(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot),
	}
}

// podUpdates returns the events of an update of a pod. Hints are evaluated for an update of a waiting pod only if the
// pod is the one that waits.
func podUpdates(old, new *v1.Pod) []fwk.ClusterEvent {
	return framework.PodSchedulingPropertiesChange(new, old, true)
}

// completed returns the registrations of a plugin. kube-scheduler adds none.
func completed(registered []fwk.ClusterEventWithHint) []fwk.ClusterEventWithHint {
	return registered
}
