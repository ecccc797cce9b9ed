package main

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// claimAllocation contains the devices that DynamicResources chooses for a claim on one node.
type claimAllocation struct {
	// Claim is the name of the claim. The claim for extended resources has no name of its own.
	Claim string `json:"claim"`
	// Requests are set for the claim for extended resources, which the plugin itself creates.
	Requests []resourcev1.DeviceRequest `json:"requests,omitempty"`
	// Allocation is what the plugin would write. Share IDs are random, so they are replaced.
	Allocation *resourcev1.AllocationResult `json:"allocation"`
}

// shareID replaces the random share IDs.
const shareID types.UID = "shared"

// recordingManager is a DRA manager that records the claims that are reserved.
type recordingManager struct {
	fwk.SharedDRAManager
	claims *recordingTracker
}

func (m *recordingManager) ResourceClaims() fwk.ResourceClaimTracker { return m.claims }

type recordingTracker struct {
	fwk.ResourceClaimTracker
	recorded []*resourcev1.ResourceClaim
}

func (t *recordingTracker) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	t.recorded = append(t.recorded, claim)
	return t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
}

// take returns the recorded claims, and forgets that they are reserved.
func (t *recordingTracker) take() []*resourcev1.ResourceClaim {
	taken := t.recorded
	t.recorded = nil
	for _, claim := range taken {
		t.MaybeRemoveClaimPendingAllocation(claim.UID, true)
	}
	return taken
}

func (o *oracle) newDRAManager(ctx context.Context, c *cluster) (*recordingManager, error) {
	resources := c.informers.Resource()
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            resources.V1().ResourceSlices(),
	})
	if err != nil {
		return nil, fmt.Errorf("following resource slices: %w", err)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, c.informers)
	// kube-scheduler tells the cache of extended resources about classes before it tells its queue.
	if cache, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok && cache != nil {
		if _, err := resources.V1().DeviceClasses().Informer().AddEventHandler(cache); err != nil {
			return nil, fmt.Errorf("following device classes: %w", err)
		}
	}
	return &recordingManager{manager, &recordingTracker{ResourceClaimTracker: manager.ResourceClaims()}}, nil
}

// devicePlugin is the part of DynamicResources that is called directly.
type devicePlugin interface {
	fwk.ReservePlugin
	fwk.PostFilterPlugin
}

// withDevicePlugin returns a registry that passes DynamicResources to found when it is built.
func withDevicePlugin(registry frameworkruntime.Registry, found func(devicePlugin)) frameworkruntime.Registry {
	noted := frameworkruntime.Registry{}
	for name, factory := range registry {
		noted[name] = factory
	}
	build := registry[names.DynamicResources]
	noted[names.DynamicResources] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := build(ctx, args, handle)
		if devices, ok := plugin.(devicePlugin); ok && err == nil {
			found(devices)
		}
		return plugin, err
	}
	return noted
}

// allocations returns, for each node on which the pod fits, the devices of the claims that have none yet.
func (s *session) allocations(ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) (map[string][]claimAllocation, error) {
	plugin := s.devices[pod.Spec.SchedulerName]
	if plugin == nil {
		return nil, nil
	}
	all := map[string][]claimAllocation{}
	for _, node := range feasible {
		name := node.Node().Name
		st := plugin.Reserve(ctx, state, pod, name)
		claims := s.manager.claims.take()
		if !st.IsSuccess() {
			return nil, fmt.Errorf("reserving devices on %s: %w", name, st.AsError())
		}
		for _, claim := range claims {
			one, err := allocationOf(claim)
			if err != nil {
				return nil, err
			}
			all[name] = append(all[name], one)
		}
	}
	return all, nil
}

func allocationOf(claim *resourcev1.ResourceClaim) (claimAllocation, error) {
	one := claimAllocation{Claim: claim.Name, Allocation: claim.Status.Allocation.DeepCopy()}
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
		one.Requests = claim.Spec.Devices.Requests
	}
	for i := range one.Allocation.Devices.Results {
		if result := &one.Allocation.Devices.Results[i]; result.ShareID != nil {
			*result.ShareID = shareID
		}
	}
	// The canonical form of quantities is what the API server would store.
	text, err := json.Marshal(one)
	if err != nil {
		return one, err
	}
	var stored claimAllocation
	return stored, json.Unmarshal(text, &stored)
}

// postFilter returns what DynamicResources alone does about a pod that fits nowhere.
func (s *session) postFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod) *status {
	plugin := s.devices[pod.Spec.SchedulerName]
	if plugin == nil {
		return nil
	}
	_, st := plugin.PostFilter(ctx, state, pod, nil)
	return statusOf(st.WithPlugin(names.DynamicResources))
}

// newClient returns a client for which every change of a claim succeeds, although no claim exists.
func newClient() *fake.Clientset {
	client := fake.NewSimpleClientset()
	client.PrependReactor("*", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if update, ok := action.(clienttesting.UpdateAction); ok {
			return true, update.GetObject(), nil
		}
		return true, &resourcev1.ResourceClaim{}, nil
	})
	return client
}
