package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
)

// judge is the state that all requests share.
type judge struct {
	ctx      context.Context
	client   kubernetes.Interface
	recorder *metrics.MetricAsyncRecorder
	configs  map[string]*config.KubeSchedulerConfiguration
}

func newJudge(ctx context.Context) *judge {
	return &judge{
		ctx:      ctx,
		client:   fake.NewSimpleClientset(),
		recorder: metrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done()),
		configs:  map[string]*config.KubeSchedulerConfiguration{},
	}
}

// config decodes a configuration strictly and sets defaults, as the scheduler of scheduler-plugins does with its file.
func (j *judge) config(text json.RawMessage) (*config.KubeSchedulerConfiguration, error) {
	if cfg, ok := j.configs[string(text)]; ok {
		return cfg, nil
	}
	object, gvk, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("want a KubeSchedulerConfiguration, got %s", gvk)
	}
	j.configs[string(text)] = cfg
	return cfg, nil
}

func (j *judge) answer(request *request) ([]podVerdict, error) {
	cfg, err := j.config(request.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c, err := newCluster(j.client, request.Objects)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	snapshot := internalcache.NewSnapshot(c.bound, c.nodes)
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	nodes = append([]fwk.NodeInfo{}, nodes...)
	sort.Slice(nodes, func(a, b int) bool { return nodes[a].Node().Name < nodes[b].Node().Name })
	registry := plugins.NewInTreeRegistry()
	if err := registry.Merge(family(c)); err != nil {
		return nil, err
	}
	frameworks := map[string]framework.Framework{}
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		f, err := frameworkruntime.NewFramework(ctx, registry, profile,
			frameworkruntime.WithSnapshotSharedLister(snapshot),
			frameworkruntime.WithClientSet(j.client),
			frameworkruntime.WithInformerFactory(c.informers),
			frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
			frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
			frameworkruntime.WithPodNominator(nominator{c}),
			frameworkruntime.WithMetricsRecorder(j.recorder),
			frameworkruntime.WithParallelism(1),
		)
		if err != nil {
			return nil, fmt.Errorf("profile %q: %w", profile.SchedulerName, err)
		}
		frameworks[profile.SchedulerName] = f
	}
	verdicts := []podVerdict{}
	for at, pod := range c.chosen(request.Pods) {
		f, ok := frameworks[pod.Spec.SchedulerName]
		if !ok {
			return nil, fmt.Errorf("no profile has the scheduler name %q", pod.Spec.SchedulerName)
		}
		verdict := evaluate(ctx, f, c, pod, nodes)
		if f.QueueSortFunc() != nil {
			verdict.Before = before(f, c, at)
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

// before returns the pending pods before which the QueueSort plugin puts the pod. Pairs of pods entered the queue
// together.
func before(f framework.Framework, c *cluster, at int) []string {
	queued := func(at int) *framework.QueuedPodInfo {
		info, _ := framework.NewPodInfo(c.pending[at])
		return &framework.QueuedPodInfo{PodInfo: info, Timestamp: time.Unix(1_800_000_000+int64(at/2), 0)}
	}
	names := []string{}
	for other, pod := range c.pending {
		if f.QueueSortFunc()(queued(at), queued(other)) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	sort.Strings(names)
	return names
}

// evaluate runs the plugins' extension points up to Score, and PostFilter if the pod fits nowhere.
func evaluate(ctx context.Context, f framework.Framework, c *cluster, pod *v1.Pod, nodes []fwk.NodeInfo) podVerdict {
	verdict := podVerdict{
		Pod:     pod.Namespace + "/" + pod.Name,
		Profile: pod.Spec.SchedulerName,
		Nodes:   map[string]*status{},
		Scores:  map[string]nodeScore{},
	}
	state := framework.NewCycleState()
	_, st, _ := f.RunPreFilterPlugins(ctx, state, pod)
	if !st.IsSuccess() {
		verdict.PreFilter = statusOf(st)
		return verdict
	}
	var feasible, unfit []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		st := f.RunFilterPlugins(ctx, state, pod, node)
		if st.IsSuccess() {
			verdict.Nodes[name] = nil
			feasible = append(feasible, node)
			continue
		}
		verdict.Nodes[name] = statusOf(st)
		if st.Code() == fwk.Unschedulable {
			unfit = append(unfit, node)
		}
	}
	if len(feasible) == 0 {
		preemption, err := preempt(ctx, f, state, pod, unfit)
		if err != nil {
			verdict.Error = err.Error()
		}
		verdict.Preemption = preemption
		return verdict
	}
	if !f.HasScorePlugins() {
		for _, node := range feasible {
			verdict.Scores[node.Node().Name] = nodeScore{Plugins: map[string]int64{}}
		}
		return verdict
	}
	if st := f.RunPreScorePlugins(ctx, state, pod, feasible); !st.IsSuccess() {
		verdict.Error = st.AsError().Error()
		return verdict
	}
	scores, st := f.RunScorePlugins(ctx, state, pod, feasible)
	if !st.IsSuccess() {
		verdict.Error = st.AsError().Error()
		return verdict
	}
	for _, node := range scores {
		plugins := make(map[string]int64, len(node.Scores))
		for _, plugin := range node.Scores {
			plugins[plugin.Name] = plugin.Score
		}
		verdict.Scores[node.Name] = nodeScore{Total: node.TotalScore, Plugins: plugins}
	}
	return verdict
}

func statusOf(st *fwk.Status) *status {
	reasons := append([]string{}, st.Reasons()...)
	sort.Strings(reasons)
	return &status{Plugin: st.Plugin(), Code: st.Code().String(), Reasons: reasons}
}

// nominator knows the pods that are nominated according to their statuses.
type nominator struct{ *cluster }

func (nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nominator) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (nominator) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}

// now is the time of every request.
var now = time.Unix(1_800_000_000, 0)
