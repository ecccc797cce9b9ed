package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/apis/config/validation"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/networkoverhead"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/topologicalsort"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
	nrtcache "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/cache"
	"sigs.k8s.io/scheduler-plugins/pkg/podstate"
	"sigs.k8s.io/scheduler-plugins/pkg/preemptiontoleration"
	"sigs.k8s.io/scheduler-plugins/pkg/qos"
	"sigs.k8s.io/scheduler-plugins/pkg/sysched"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/peaks"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"
)

// family returns the plugins of scheduler-plugins. Those that read custom resources get them from the request instead
// of an API server.
func family(c *cluster) frameworkruntime.Registry {
	return frameworkruntime.Registry{
		noderesources.AllocatableName: noderesources.NewAllocatable,
		podstate.Name:                 podstate.New,
		qos.Name:                      qos.New,
		preemptiontoleration.Name:     preemptiontoleration.New,
		networkoverhead.Name: func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			given, ok := args.(*config.NetworkOverheadArgs)
			if !ok {
				return nil, fmt.Errorf("want NetworkOverheadArgs, got %T", args)
			}
			plugin := &networkoverhead.NetworkOverhead{Client: c.custom}
			set(plugin, "logger", klog.Background())
			set(plugin, "podLister", c.informers.Core().V1().Pods().Lister())
			set(plugin, "handle", handle)
			set(plugin, "namespaces", given.Namespaces)
			set(plugin, "weightsName", given.WeightsName)
			set(plugin, "ntName", given.NetworkTopologyName)
			return plugin, nil
		},
		topologicalsort.Name: func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			given, ok := args.(*config.TopologicalSortArgs)
			if !ok {
				return nil, fmt.Errorf("want TopologicalSortArgs, got %T", args)
			}
			plugin := &topologicalsort.TopologicalSort{Client: c.custom}
			set(plugin, "logger", klog.Background())
			set(plugin, "handle", handle)
			set(plugin, "namespaces", given.Namespaces)
			return plugin, nil
		},
		capacityscheduling.Name:         newCapacityScheduling(c),
		targetloadpacking.Name:          newTargetLoadPacking(c),
		loadvariationriskbalancing.Name: newLoadVariation(c),
		lowriskovercommitment.Name:      newLowRisk(c),
		peaks.Name:                      newPeaks(c),
		sysched.Name:                    newSySched(c),
		noderesourcetopology.Name: func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			given, ok := args.(*config.NodeResourceTopologyMatchArgs)
			if !ok {
				return nil, fmt.Errorf("want NodeResourceTopologyMatchArgs, got %T", args)
			}
			if err := validation.ValidateNodeResourceTopologyMatchArgs(nil, given); err != nil {
				return nil, err
			}
			plugin := &noderesourcetopology.TopologyMatch{}
			set(plugin, "logger", klog.Background())
			set(plugin, "nrtCache", nrtcache.NewPassthrough(klog.Background(), c.custom))
			set(plugin, "scoreStrategyType", given.ScoringStrategy.Type)
			if given.ScoringStrategy.Type != config.LeastNUMANodes {
				strategy, err := scoringStrategy(given.ScoringStrategy.Type)
				if err != nil {
					return nil, err
				}
				set(plugin, "scoreStrategyFunc", strategy)
			}
			weights := reflect.ValueOf(plugin).Elem().FieldByName("resourceToWeightMap")
			filled := reflect.MakeMap(weights.Type())
			for _, spec := range given.ScoringStrategy.Resources {
				filled.SetMapIndex(reflect.ValueOf(v1.ResourceName(spec.Name)), reflect.ValueOf(spec.Weight))
			}
			set(plugin, "resourceToWeightMap", filled.Interface())
			return plugin, nil
		},
	}
}

func newCapacityScheduling(c *cluster) frameworkruntime.PluginFactory {
	return func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin := &capacityscheduling.CapacityScheduling{}
		set(plugin, "logger", klog.Background())
		set(plugin, "fh", handle)
		set(plugin, "podLister", c.informers.Core().V1().Pods().Lister())
		set(plugin, "pdbLister", c.informers.Policy().V1().PodDisruptionBudgets().Lister())
		set(plugin, "client", c.custom)
		set(plugin, "elasticQuotaInfos", capacityscheduling.NewElasticQuotaInfos())
		for _, raw := range c.custom.of("ElasticQuota") {
			quota := &v1alpha1.ElasticQuota{}
			if err := json.Unmarshal(raw, quota); err != nil {
				return nil, err
			}
			quotaAdded(plugin, quota)
		}
		for _, pod := range c.bound {
			quotaPodAdded(plugin, pod)
		}
		return plugin, nil
	}
}

//go:linkname quotaAdded sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling.(*CapacityScheduling).addElasticQuota
func quotaAdded(plugin *capacityscheduling.CapacityScheduling, object any)

//go:linkname quotaPodAdded sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling.(*CapacityScheduling).addPod
func quotaPodAdded(plugin *capacityscheduling.CapacityScheduling, object any)

func newSySched(c *cluster) frameworkruntime.PluginFactory {
	return func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		given, ok := args.(*config.SySchedArgs)
		if !ok {
			return nil, fmt.Errorf("want SySchedArgs, got %T", args)
		}
		plugin := &sysched.SySched{
			HostToPods:              map[string][]*v1.Pod{},
			DefaultProfileNamespace: given.DefaultProfileNamespace,
			DefaultProfileName:      given.DefaultProfileName,
			ExSAvgCount:             1,
		}
		make := reflect.ValueOf(plugin).Elem().FieldByName("HostSyscalls")
		make.Set(reflect.MakeMap(make.Type()))
		set(plugin, "logger", klog.Background())
		set(plugin, "handle", handle)
		set(plugin, "client", c.custom)
		add := reflect.ValueOf(podAdded(plugin))
		for _, pod := range c.bound {
			add.Call([]reflect.Value{reflect.ValueOf(pod)})
		}
		return plugin, nil
	}
}

//go:linkname syschedPodAdded sigs.k8s.io/scheduler-plugins/pkg/sysched.(*SySched).podAdded
func syschedPodAdded(plugin *sysched.SySched, object any)

func podAdded(plugin *sysched.SySched) func(*v1.Pod) {
	return func(pod *v1.Pod) { syschedPodAdded(plugin, pod) }
}

// resourceWeights has the layout of a type that the package does not export.
type resourceWeights map[v1.ResourceName]int64

//go:linkname scoringStrategy sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology.getScoringStrategyFunction
func scoringStrategy(config.ScoringStrategyType) (func(v1.ResourceList, v1.ResourceList, resourceWeights) int64, error)

// set sets a field that other packages cannot set.
func set(plugin any, field string, value any) {
	target := reflect.ValueOf(plugin).Elem().FieldByName(field)
	reflect.NewAt(target.Type(), unsafe.Pointer(target.UnsafeAddr())).Elem().Set(converted(target.Type(), reflect.ValueOf(value)))
}

// converted returns the value as another type of the same layout.
func converted(to reflect.Type, value reflect.Value) reflect.Value {
	if value.Type().AssignableTo(to) {
		return value
	}
	copied := reflect.New(value.Type())
	copied.Elem().Set(value)
	return reflect.NewAt(to, copied.UnsafePointer()).Elem()
}

// preempt returns the victims of the profile's PostFilter plugin on every node on which evictions help; nil if there is
// no such plugin.
func preempt(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, unfit []fwk.NodeInfo) (*preemptionVerdict, error) {
	plugin := postFilter(f)
	if plugin == nil {
		return nil, nil
	}
	verdict := &preemptionVerdict{Candidates: map[string]candidate{}}
	if allowed, _ := plugin.PodEligibleToPreemptOthers(ctx, pod, nil); !allowed || len(unfit) == 0 {
		return verdict, nil
	}
	budgets, err := f.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, node := range unfit {
		victims, violations, st := plugin.SelectVictimsOnNode(ctx, state.Clone(), pod, node.Snapshot(), append([]*policyv1.PodDisruptionBudget{}, budgets...))
		if !st.IsSuccess() || len(victims) == 0 {
			continue
		}
		names := []string{}
		for _, victim := range victims {
			names = append(names, victim.Namespace+"/"+victim.Name)
		}
		verdict.Candidates[node.Node().Name] = candidate{Victims: names, Violations: int64(violations)}
	}
	return verdict, nil
}

func postFilter(f framework.Framework) preemption.Interface {
	field := reflect.ValueOf(f).Elem().FieldByName("postFilterPlugins")
	for i := 0; i < field.Len(); i++ {
		plugin := reflect.NewAt(field.Index(i).Type(), unsafe.Pointer(field.Index(i).UnsafeAddr())).Elem().Interface()
		if found, ok := plugin.(*preemptiontoleration.PreemptionToleration); ok {
			set(found, "curTime", now)
			return found
		}
	}
	return nil
}
