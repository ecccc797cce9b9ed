package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// oracle is the state that all requests share.
type oracle struct {
	ctx      context.Context
	client   kubernetes.Interface
	recorder *metrics.MetricAsyncRecorder
	registry frameworkruntime.Registry
	// configs caches the decoded configurations by their text.
	configs map[string]*config.KubeSchedulerConfiguration
}

func newOracle(ctx context.Context) *oracle {
	return &oracle{
		ctx:      ctx,
		client:   newClient(),
		recorder: metrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done()),
		registry: plugins.NewInTreeRegistry(),
		configs:  map[string]*config.KubeSchedulerConfiguration{},
	}
}

// answer evaluates the pods of the request.
func (o *oracle) answer(request *verdictRequest) ([]podVerdict, error) {
	cfg, err := o.config(request.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	cluster, err := newCluster(o.client, request.Objects)
	if err != nil {
		return nil, err
	}
	pods, err := cluster.chosen(request.Pods)
	if err != nil {
		return nil, err
	}
	// The context ends the goroutines that the frameworks start.
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	session, err := o.newSession(ctx, cfg, cluster)
	if err != nil {
		return nil, err
	}
	changes, err := eventsOf(request.Changes)
	if err != nil {
		return nil, err
	}
	verdicts := make([]podVerdict, 0, len(pods))
	for _, pod := range pods {
		verdict, err := session.evaluate(ctx, pod, request.Preempt)
		if err != nil {
			return nil, err
		}
		if f, _ := session.framework(pod.Spec.SchedulerName); f != nil {
			if verdict.Hints, err = hintsFor(ctx, f, cluster.claims, pod, changes); err != nil {
				return nil, err
			}
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

// config decodes a configuration strictly, sets defaults and validates it, as kube-scheduler does with its file.
func (o *oracle) config(text json.RawMessage) (*config.KubeSchedulerConfiguration, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		text = []byte(fmt.Sprintf(`{"apiVersion":%q,"kind":"KubeSchedulerConfiguration"}`, configv1.SchemeGroupVersion.String()))
	}
	if cfg, ok := o.configs[string(text)]; ok {
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
	cfg.TypeMeta.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, err
	}
	if len(cfg.Extenders) > 0 {
		return nil, fmt.Errorf("extenders are not supported")
	}
	o.configs[string(text)] = cfg
	return cfg, nil
}

// session is the scheduler's view of the cluster in one request.
type session struct {
	snapshot   *internalcache.Snapshot
	nodes      []fwk.NodeInfo
	profiles   map[string]*config.KubeSchedulerProfile
	frameworks map[string]framework.Framework
	build      func(*config.KubeSchedulerProfile) (framework.Framework, error)
	manager    *recordingManager
	// devices contains each profile's DynamicResources plugin, by the profile's scheduler name.
	devices map[string]devicePlugin
}

func (o *oracle) newSession(ctx context.Context, cfg *config.KubeSchedulerConfiguration, c *cluster) (*session, error) {
	s := &session{
		snapshot:   internalcache.NewSnapshot(c.bound, c.nodes),
		profiles:   map[string]*config.KubeSchedulerProfile{},
		frameworks: map[string]framework.Framework{},
		devices:    map[string]devicePlugin{},
	}
	nodes, err := s.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	// Plugins use the snapshot's own list, which stays in its random order, so a copy is sorted.
	s.nodes = append(s.nodes, nodes...)
	sort.Slice(s.nodes, func(i, j int) bool { return s.nodes[i].Node().Name < s.nodes[j].Node().Name })
	for i := range cfg.Profiles {
		s.profiles[cfg.Profiles[i].SchedulerName] = &cfg.Profiles[i]
	}
	if s.manager, err = o.newDRAManager(ctx, c); err != nil {
		return nil, err
	}
	s.build = func(profile *config.KubeSchedulerProfile) (framework.Framework, error) {
		registry := withDevicePlugin(o.registry, func(plugin devicePlugin) { s.devices[profile.SchedulerName] = plugin })
		options := append(withSnapshot(s.snapshot),
			frameworkruntime.WithClientSet(o.client),
			frameworkruntime.WithInformerFactory(c.informers),
			frameworkruntime.WithEventRecorder(&events.FakeRecorder{}),
			frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
			frameworkruntime.WithPodNominator(noNominations{}),
			frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
			frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(c.informers.Storage().V1().CSINodes().Lister())),
			frameworkruntime.WithSharedDRAManager(s.manager),
			frameworkruntime.WithMetricsRecorder(o.recorder),
			frameworkruntime.WithParallelism(1),
		)
		return frameworkruntime.NewFramework(ctx, registry, profile, options...)
	}
	return s, nil
}

// framework returns the framework of a profile, which is built on first use; nil if there is no such profile.
func (s *session) framework(name string) (framework.Framework, error) {
	if f, ok := s.frameworks[name]; ok {
		return f, nil
	}
	profile, ok := s.profiles[name]
	if !ok {
		return nil, nil
	}
	f, err := s.build(profile)
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", name, err)
	}
	s.frameworks[name] = f
	return f, nil
}

// evaluate runs all extension points up to Score for the pod, and, if preempt is true and the pod fits nowhere,
// preemption. An error means that the profile cannot be built, that devices cannot be reserved, or that preemption
// failed; failures of plugins at other points are in the verdict.
func (s *session) evaluate(ctx context.Context, pod *v1.Pod, preempt bool) (podVerdict, error) {
	verdict := podVerdict{
		Pod:     pod.Namespace + "/" + pod.Name,
		Profile: pod.Spec.SchedulerName,
		Nodes:   map[string]*status{},
		Scores:  map[string]nodeScore{},
	}
	f, err := s.framework(pod.Spec.SchedulerName)
	if err != nil {
		return verdict, err
	}
	if f == nil {
		verdict.Error = fmt.Sprintf("no profile has the scheduler name %q", pod.Spec.SchedulerName)
		return verdict, nil
	}
	for _, plugin := range f.PreEnqueuePlugins() {
		if st := plugin.PreEnqueue(ctx, pod); !st.IsSuccess() {
			verdict.PreEnqueue = statusOf(st.WithPlugin(plugin.Name()))
			break
		}
	}
	state := framework.NewCycleState()
	result, st, narrowing := f.RunPreFilterPlugins(ctx, state, pod)
	if !st.IsSuccess() {
		verdict.PreFilter = statusOf(st)
		// An error ends the attempt before PostFilter.
		if st.IsRejected() {
			verdict.PostFilter = s.postFilter(ctx, state, pod)
		}
		return verdict, nil
	}
	feasible := s.filter(ctx, f, state, pod, result, narrowing, &verdict)
	if len(feasible) > 0 {
		score(ctx, f, state, pod, feasible, &verdict)
		verdict.Allocations, err = s.allocations(ctx, state, pod, feasible)
		return verdict, err
	}
	verdict.PostFilter = s.postFilter(ctx, state, pod)
	if preempt {
		verdict.Preemption, err = s.preempt(ctx, f, state, pod, verdict.Nodes)
	}
	return verdict, err
}

// filter runs the Filter plugins on every node. Nodes that PreFilter excluded get the status that kube-scheduler gives
// them. It returns the nodes on which the pod fits.
func (s *session) filter(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod,
	result *fwk.PreFilterResult, narrowing sets.Set[string], verdict *podVerdict) []fwk.NodeInfo {
	excluded := fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing)))
	var feasible []fwk.NodeInfo
	for _, node := range s.nodes {
		name := node.Node().Name
		st := excluded
		if result.AllNodes() || result.NodeNames.Has(name) {
			st = f.RunFilterPlugins(ctx, state, pod, node)
		}
		if st.IsSuccess() {
			verdict.Nodes[name] = nil
			feasible = append(feasible, node)
		} else {
			verdict.Nodes[name] = statusOf(st)
		}
	}
	return feasible
}

func score(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo, verdict *podVerdict) {
	if !f.HasScorePlugins() {
		// Without score plugins, kube-scheduler gives every node one point.
		for _, node := range feasible {
			verdict.Scores[node.Node().Name] = nodeScore{Total: 1, Plugins: map[string]int64{}}
		}
		return
	}
	if st := f.RunPreScorePlugins(ctx, state, pod, feasible); !st.IsSuccess() {
		verdict.Error = st.AsError().Error()
		return
	}
	scores, st := f.RunScorePlugins(ctx, state, pod, feasible)
	if !st.IsSuccess() {
		verdict.Error = st.AsError().Error()
		return
	}
	for _, node := range scores {
		plugins := make(map[string]int64, len(node.Scores))
		for _, plugin := range node.Scores {
			plugins[plugin.Name] = plugin.Score
		}
		verdict.Scores[node.Name] = nodeScore{Total: node.TotalScore, Plugins: plugins}
	}
}

func statusOf(st *fwk.Status) *status {
	reasons := append([]string{}, st.Reasons()...)
	sort.Strings(reasons)
	return &status{Plugin: st.Plugin(), Code: st.Code().String(), Reasons: reasons}
}
