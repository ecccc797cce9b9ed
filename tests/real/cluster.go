package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// knownKinds are the kinds that scheduler plugins list, and whether they are namespaced.
var knownKinds = []struct {
	object     runtime.Object
	namespaced bool
}{
	{&v1.Pod{}, true},
	{&v1.Node{}, false},
	{&v1.Namespace{}, false},
	{&v1.Service{}, true},
	{&v1.ReplicationController{}, true},
	{&v1.PersistentVolume{}, false},
	{&v1.PersistentVolumeClaim{}, true},
	{&appsv1.ReplicaSet{}, true},
	{&appsv1.StatefulSet{}, true},
	{&policyv1.PodDisruptionBudget{}, true},
	{&schedulingv1.PriorityClass{}, false},
	{&storagev1.StorageClass{}, false},
	{&storagev1.CSINode{}, false},
	{&storagev1.CSIDriver{}, false},
	{&storagev1.CSIStorageCapacity{}, true},
	{&storagev1.VolumeAttachment{}, false},
	{&resourcev1.ResourceClaim{}, true},
	{&resourcev1.ResourceClaimTemplate{}, true},
	{&resourcev1.ResourceSlice{}, false},
	{&resourcev1.DeviceClass{}, false},
	{taintRule, false},
}

var decoder = kjson.NewSerializerWithOptions(
	kjson.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme, kjson.SerializerOptions{Strict: true})

// cluster is the decoded content of one request.
type cluster struct {
	nodes     []*v1.Node
	bound     []*v1.Pod
	pending   []*v1.Pod
	informers informers.SharedInformerFactory
	// claims is the informer of resource claims.
	claims *staticInformer
}

// newCluster decodes objects, sets the API server's defaults, and adds the objects to informers. Finished pods are
// ignored, as in kube-scheduler.
func newCluster(client kubernetes.Interface, objects []json.RawMessage) (*cluster, error) {
	c := &cluster{informers: informers.NewSharedInformerFactory(client, 0)}
	stores := make(map[reflect.Type]cache.Indexer, len(knownKinds))
	namespaced := make(map[reflect.Type]bool, len(knownKinds))
	for _, kind := range knownKinds {
		informer := newStaticInformer()
		c.informers.InformerFor(kind.object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return informer
		})
		if _, ok := kind.object.(*resourcev1.ResourceClaim); ok {
			c.claims = informer
		}
		stores[reflect.TypeOf(kind.object)] = informer.GetIndexer()
		namespaced[reflect.TypeOf(kind.object)] = kind.namespaced
	}
	for i, raw := range objects {
		object, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		kind := reflect.TypeOf(object)
		store, ok := stores[kind]
		if !ok {
			return nil, fmt.Errorf("objects[%d]: no scheduler plugin reads a %s", i, kind.Elem())
		}
		if err := identify(object, namespaced[kind]); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		if pod, ok := object.(*v1.Pod); ok && (pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed) {
			continue
		}
		if err := store.Add(object); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		c.sort(object)
	}
	return c, c.dropUnplaced()
}

// decode returns the object as a scheduler would receive it. The API server stores objects in canonical form (1.5Gi as
// 1536Mi, an empty list as no list), so the decoded object is encoded and decoded once more.
func decode(raw json.RawMessage) (runtime.Object, error) {
	written, _, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(written)
	if pod, ok := written.(*v1.Pod); ok {
		if err := defaultOnCreation(pod); err != nil {
			return nil, err
		}
	}
	stored, err := json.Marshal(written)
	if err != nil {
		return nil, err
	}
	object := reflect.New(reflect.TypeOf(written).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(stored, object); err != nil {
		return nil, err
	}
	return object, nil
}

// identify sets the namespace and the UID if they are missing, as the API server would.
func identify(object runtime.Object, namespaced bool) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if accessor.GetName() == "" {
		return fmt.Errorf("a %T without metadata.name", object)
	}
	if namespaced && accessor.GetNamespace() == "" {
		accessor.SetNamespace(v1.NamespaceDefault)
	}
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(accessor.GetNamespace() + "/" + accessor.GetName()))
	}
	return nil
}

func (c *cluster) sort(object runtime.Object) {
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

// dropUnplaced removes the pods that are bound to nodes that do not exist, because the scheduler's snapshot does not
// contain such nodes.
func (c *cluster) dropUnplaced() error {
	names := make(map[string]bool, len(c.nodes))
	for _, node := range c.nodes {
		if names[node.Name] {
			return fmt.Errorf("two nodes have the name %q", node.Name)
		}
		names[node.Name] = true
	}
	placed := c.bound[:0]
	for _, pod := range c.bound {
		if names[pod.Spec.NodeName] {
			placed = append(placed, pod)
		}
	}
	c.bound = placed
	return nil
}

// chosen returns the pending pods with the given namespace/name keys, or all pending pods if there are no keys.
func (c *cluster) chosen(keys []string) ([]*v1.Pod, error) {
	if len(keys) == 0 {
		return c.pending, nil
	}
	byKey := make(map[string]*v1.Pod, len(c.pending))
	for _, pod := range c.pending {
		byKey[pod.Namespace+"/"+pod.Name] = pod
	}
	pods := make([]*v1.Pod, 0, len(keys))
	for _, key := range keys {
		pod, ok := byKey[key]
		if !ok {
			return nil, fmt.Errorf("pods: no pending pod is named %q", key)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}
