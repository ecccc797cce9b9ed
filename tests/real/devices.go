package main

import (
	"context"
	"encoding/json"
	"fmt"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// claimAllocation contains the devices that DynamicResources chooses for a claim on one node.
type claimAllocation struct {
	// Claim is the name of the claim. The claim for extended resources, which does not exist yet, is
	// named <extended-resources>.
	Claim string `json:"claim"`
	// Requests is set only for the claim for extended resources, which the plugin itself creates.
	Requests []resourcev1.DeviceRequest `json:"requests,omitempty"`
	// Mappings are set only for the same claim. The plugin would write them into the pod's status.
	Mappings []v1.ContainerExtendedResourceRequest `json:"mappings,omitempty"`
	// Allocation is the allocation that the plugin would write. Share IDs are random, so a constant replaces them.
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

// take returns the recorded claims and releases them.
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
	options := tracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            resources.V1().ResourceSlices(),
	}
	if options.EnableDeviceTaintRules {
		followTaintRules(&options, c)
	}
	slices, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("following resource slices: %w", err)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, c.informers)
	// As in kube-scheduler, the cache of extended resources receives the events of device classes.
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

// withDevicePlugin returns a registry that builds the same plugins, and passes DynamicResources to found.
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

// allocations returns, for each node on which the pod fits, the allocations of the pod's unallocated claims.
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
			if len(one.Requests) > 0 {
				wanted := s.wantedFromDevices(pod, node)
				_, one.Mappings = createRequestsAndMappings(pod, wanted, klog.Background(), s.manager.DeviceClassResolver())
			}
			all[name] = append(all[name], one)
		}
	}
	return all, nil
}

// createRequestsAndMappings is the function with which DynamicResources plans the claim for extended resources. The plugin
// itself uses the mappings only in PreBind, which needs an API server.
//
//go:linkname createRequestsAndMappings k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources.createRequestsAndMappings
func createRequestsAndMappings(*v1.Pod, map[v1.ResourceName]int64, klog.Logger, fwk.DeviceClassResolver) ([]resourcev1.DeviceRequest, []v1.ContainerExtendedResourceRequest)

// wantedFromDevices returns the extended resources of the pod that a device class provides and the node does not offer.
func (s *session) wantedFromDevices(pod *v1.Pod, node fwk.NodeInfo) map[v1.ResourceName]int64 {
	wanted := map[v1.ResourceName]int64{}
	for name, amount := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		offered := node.GetAllocatable().GetScalarResources()[name]
		if schedutil.IsDRAExtendedResourceName(name) && !amount.IsZero() && offered == 0 && s.manager.DeviceClassResolver().GetDeviceClass(name) != nil {
			wanted[name] = amount.Value()
		}
	}
	return wanted
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
	// The API server would store quantities in canonical form, so the allocation is encoded and decoded once.
	text, err := json.Marshal(one)
	if err != nil {
		return one, err
	}
	var stored claimAllocation
	return stored, json.Unmarshal(text, &stored)
}

// postFilter runs PostFilter of DynamicResources, and of no other plugin, for a pod that fits nowhere.
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
