package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// knownKinds are the built-in kinds that the plugins list, and whether they are namespaced.
var knownKinds = []struct {
	object     runtime.Object
	namespaced bool
}{
	{&v1.Pod{}, true},
	{&v1.Node{}, false},
	{&v1.Namespace{}, false},
	{&policyv1.PodDisruptionBudget{}, true},
	{&schedulingv1.PriorityClass{}, false},
}

var decoder = kjson.NewSerializerWithOptions(
	kjson.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, kjson.SerializerOptions{Strict: true})

// cluster is the decoded content of one request.
type cluster struct {
	nodes     []*v1.Node
	bound     []*v1.Pod
	pending   []*v1.Pod
	informers informers.SharedInformerFactory
	custom    *customObjects
}

func newCluster(client kubernetes.Interface, objects []json.RawMessage) (*cluster, error) {
	c := &cluster{informers: informers.NewSharedInformerFactory(client, 0), custom: &customObjects{byKey: map[string]json.RawMessage{}}}
	stores := map[reflect.Type]cache.Indexer{}
	namespaced := map[reflect.Type]bool{}
	for _, kind := range knownKinds {
		informer := newStaticInformer()
		c.informers.InformerFor(kind.object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return informer
		})
		stores[reflect.TypeOf(kind.object)] = informer.GetIndexer()
		namespaced[reflect.TypeOf(kind.object)] = kind.namespaced
	}
	for i, raw := range objects {
		if c.custom.add(raw) {
			continue
		}
		object, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		kind := reflect.TypeOf(object)
		store, ok := stores[kind]
		if !ok {
			return nil, fmt.Errorf("objects[%d]: no plugin reads a %s", i, kind.Elem())
		}
		if err := identify(object, namespaced[kind]); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		if err := store.Add(object); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		switch object := object.(type) {
		case *v1.Node:
			c.nodes = append(c.nodes, object)
		case *v1.Pod:
			if object.Spec.NodeName == "" {
				c.pending = append(c.pending, object)
			} else {
				c.bound = append(c.bound, object)
			}
		}
	}
	return c, nil
}

// decode returns the object as a scheduler would receive it: with defaults, in canonical form.
func decode(raw json.RawMessage) (runtime.Object, error) {
	written, _, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(written)
	stored, err := json.Marshal(written)
	if err != nil {
		return nil, err
	}
	object := reflect.New(reflect.TypeOf(written).Elem()).Interface().(runtime.Object)
	return object, json.Unmarshal(stored, object)
}

func identify(object runtime.Object, namespaced bool) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if namespaced && accessor.GetNamespace() == "" {
		accessor.SetNamespace(v1.NamespaceDefault)
	}
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(accessor.GetNamespace() + "/" + accessor.GetName()))
	}
	return nil
}

// chosen returns the pending pods with the given namespace/name keys, or all pending pods if there are no keys.
func (c *cluster) chosen(keys []string) []*v1.Pod {
	if len(keys) == 0 {
		return c.pending
	}
	var pods []*v1.Pod
	for _, pod := range c.pending {
		for _, key := range keys {
			if key == pod.Namespace+"/"+pod.Name {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// NominatedPodsForNode returns the pending pods that are nominated to the node.
func (c *cluster) NominatedPodsForNode(node string) []fwk.PodInfo {
	var pods []fwk.PodInfo
	for _, pod := range c.pending {
		if pod.Status.NominatedNodeName == node {
			info, _ := framework.NewPodInfo(pod)
			pods = append(pods, info)
		}
	}
	return pods
}

// customObjects is a client that knows the custom resources of a request. All methods but Get and List panic.
type customObjects struct {
	ctrlclient.Client
	byKey map[string]json.RawMessage
}

// customKinds are the kinds of custom resources, and the names of the Go types that plugins decode them into.
var customKinds = map[string]bool{
	"AppGroup": true, "NetworkTopology": true, "NodeResourceTopology": true, "ElasticQuota": true, "SeccompProfile": true,
	"NodeLoads": true,
}

func (c *customObjects) add(raw json.RawMessage) bool {
	var object struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if json.Unmarshal(raw, &object) != nil || !customKinds[object.Kind] {
		return false
	}
	c.byKey[object.Kind+" "+object.Metadata.Namespace+"/"+object.Metadata.Name] = raw
	return true
}

// of returns the objects of a kind, ordered by namespace and name.
func (c *customObjects) of(kind string) []json.RawMessage {
	keys := []string{}
	for key := range c.byKey {
		if strings.HasPrefix(key, kind+" ") {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	objects := []json.RawMessage{}
	for _, key := range keys {
		objects = append(objects, c.byKey[key])
	}
	return objects
}

// List finds nothing. CapacityScheduling looks in this way for quotas that it does not know yet.
func (c *customObjects) List(context.Context, ctrlclient.ObjectList, ...ctrlclient.ListOption) error {
	return nil
}

func (c *customObjects) Get(_ context.Context, key ctrlclient.ObjectKey, object ctrlclient.Object, _ ...ctrlclient.GetOption) error {
	kind := reflect.TypeOf(object).Elem().Name()
	raw, ok := c.byKey[kind+" "+key.Namespace+"/"+key.Name]
	if !ok {
		return fmt.Errorf("%s %s not found", kind, key)
	}
	if err := json.Unmarshal(raw, object); err != nil {
		return err
	}
	// Some plugins ignore objects without a UID.
	object.SetUID(types.UID(key.String()))
	return nil
}

var errStatic = errors.New("the objects of this informer never change")

// staticInformer is an informer with a fixed set of objects. It is always synced, and AddEventHandler passes all objects
// to the handler before it returns.
type staticInformer struct{ indexer cache.Indexer }

var _ cache.SharedIndexInformer = &staticInformer{}

func newStaticInformer() *staticInformer {
	return &staticInformer{indexer: cache.NewIndexer(
		cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

func (s *staticInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	keys := s.indexer.ListKeys()
	sort.Strings(keys)
	for _, key := range keys {
		if object, exists, err := s.indexer.GetByKey(key); err == nil && exists {
			handler.OnAdd(object, true)
		}
	}
	return synced{}, nil
}

func (s *staticInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}

func (s *staticInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}

func (s *staticInformer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (s *staticInformer) GetStore() cache.Store                                           { return s.indexer }
func (s *staticInformer) GetController() cache.Controller                                 { return nil }
func (s *staticInformer) Run(<-chan struct{})                                             {}
func (s *staticInformer) RunWithContext(context.Context)                                  {}
func (s *staticInformer) HasSynced() bool                                                 { return true }
func (s *staticInformer) LastSyncResourceVersion() string                                 { return "" }
func (s *staticInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error              { return errStatic }
func (s *staticInformer) SetTransform(cache.TransformFunc) error                          { return errStatic }
func (s *staticInformer) IsStopped() bool                                                 { return false }
func (s *staticInformer) AddIndexers(indexers cache.Indexers) error {
	return s.indexer.AddIndexers(indexers)
}
func (s *staticInformer) GetIndexer() cache.Indexer { return s.indexer }
func (s *staticInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errStatic
}

type synced struct{}

func (synced) HasSynced() bool { return true }
