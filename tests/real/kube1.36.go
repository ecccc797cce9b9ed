//go:build !kube1.37

// What the oracles do for Kubernetes 1.36, but not for 1.37.

package main

import (
	v1 "k8s.io/api/core/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// defaultOnCreation sets the defaults that the API server sets when it creates a pod, rather than whenever it reads one.
// There are none.
func defaultOnCreation(*v1.Pod) error {
	return nil
}

// taintRule is the kind of the rules that taint devices.
var taintRule = &resourcev1beta2.DeviceTaintRule{}

// followTaintRules makes a tracker of resource slices read the rules that taint devices.
func followTaintRules(options *tracker.Options, c *cluster) {
	options.TaintInformer = c.informers.Resource().V1beta2().DeviceTaintRules()
	options.ClassInformer = c.informers.Resource().V1().DeviceClasses()
}

// withSnapshot lets a framework read the snapshot.
func withSnapshot(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{frameworkruntime.WithSnapshotSharedLister(snapshot)}
}

// podUpdates returns the events of an update of a pod.
func podUpdates(old, new *v1.Pod) []fwk.ClusterEvent {
	return framework.PodSchedulingPropertiesChange(new, old)
}

// completed returns the registrations of a plugin and those that kube-scheduler adds: a plugin that is registered for
// new nodes is also registered for changes of taints.
func completed(registered []fwk.ClusterEventWithHint) []fwk.ClusterEventWithHint {
	var heard fwk.ActionType
	for _, one := range registered {
		if one.Event.Resource == fwk.Node {
			heard |= one.Event.ActionType
		}
	}
	if heard&fwk.Add != 0 && heard&fwk.UpdateNodeTaint == 0 {
		taints := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}
		registered = append(registered, fwk.ClusterEventWithHint{Event: taints})
	}
	return registered
}
