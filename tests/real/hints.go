package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// change is an object before and after a change. Old is absent if the object is created, and New if it is deleted.
type change struct {
	Old json.RawMessage `json:"old"`
	New json.RawMessage `json:"new"`
}

// event is one of the events that a change causes, with the objects that hints receive.
type event struct {
	fwk.ClusterEvent
	old, new any
}

// eventResources are the kinds, other than pods and nodes, for whose events plugins can register.
var eventResources = map[reflect.Type]fwk.EventResource{
	reflect.TypeFor[*v1.PersistentVolume]():          fwk.PersistentVolume,
	reflect.TypeFor[*v1.PersistentVolumeClaim]():     fwk.PersistentVolumeClaim,
	reflect.TypeFor[*storagev1.StorageClass]():       fwk.StorageClass,
	reflect.TypeFor[*storagev1.CSINode]():            fwk.CSINode,
	reflect.TypeFor[*storagev1.CSIDriver]():          fwk.CSIDriver,
	reflect.TypeFor[*storagev1.CSIStorageCapacity](): fwk.CSIStorageCapacity,
	reflect.TypeFor[*storagev1.VolumeAttachment]():   fwk.VolumeAttachment,
	reflect.TypeFor[*resourcev1.ResourceClaim]():     fwk.ResourceClaim,
	reflect.TypeFor[*resourcev1.ResourceSlice]():     fwk.ResourceSlice,
	reflect.TypeFor[*resourcev1.DeviceClass]():       fwk.DeviceClass,
}

// eventsOf returns the events of each change, with the names that kube-scheduler's event handlers give them.
func eventsOf(changes []change) ([][]event, error) {
	all := make([][]event, 0, len(changes))
	for i, change := range changes {
		events, err := change.events()
		if err != nil {
			return nil, fmt.Errorf("changes[%d]: %w", i, err)
		}
		all = append(all, events)
	}
	return all, nil
}

func (c change) events() ([]event, error) {
	old, err := identified(c.Old)
	if err != nil {
		return nil, err
	}
	new, err := identified(c.New)
	if err != nil {
		return nil, err
	}
	action, object := fwk.Update, new
	switch {
	case old == nil && new == nil:
		return nil, fmt.Errorf("old and new are both missing")
	case old == nil:
		action = fwk.Add
	case new == nil:
		action, object = fwk.Delete, old
	}
	var names []fwk.ClusterEvent
	switch object.(type) {
	case *v1.Pod:
		switch action {
		case fwk.Add:
			names = append(names, framework.EventAssignedPodAdd)
		case fwk.Delete:
			names = append(names, framework.EventAssignedPodDelete)
		default:
			names = podUpdates(old.(*v1.Pod), new.(*v1.Pod))
		}
	case *v1.Node:
		if action == fwk.Update {
			names = framework.NodeSchedulingPropertiesChange(new.(*v1.Node), old.(*v1.Node))
		} else {
			names = append(names, fwk.ClusterEvent{Resource: fwk.Node, ActionType: action})
		}
	default:
		resource, ok := eventResources[reflect.TypeOf(object)]
		if !ok {
			return nil, fmt.Errorf("no plugin can register for changes of a %T", object)
		}
		names = append(names, fwk.ClusterEvent{Resource: resource, ActionType: action})
	}
	events := make([]event, 0, len(names))
	for _, name := range names {
		events = append(events, event{name, old, new})
	}
	return events, nil
}

// identified decodes an object and sets its identity. It returns nil if the object is absent, as event handlers do.
func identified(raw json.RawMessage) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	object, err := decode(raw)
	if err != nil {
		return nil, err
	}
	for _, kind := range knownKinds {
		if reflect.TypeOf(kind.object) == reflect.TypeOf(object) {
			return object, identify(object, kind.namespaced)
		}
	}
	return object, nil
}

// listener is a plugin with the events for which it is registered.
type listener struct {
	plugin     string
	registered []fwk.ClusterEventWithHint
}

// hintsFor evaluates, for each change, the queueing hints of all plugins of the profile that are registered for its
// events. The results (Queue, QueueSkip or Error) are keyed by the plugin's name and the event's label.
func hintsFor(ctx context.Context, f framework.Framework, claims *staticInformer, pod *v1.Pod, changes [][]event) ([]map[string]string, error) {
	var listeners []listener
	for _, plugin := range f.EnqueueExtensions() {
		registered, err := plugin.EventsToRegister(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin.Name(), err)
		}
		listeners = append(listeners, listener{plugin.Name(), completed(registered)})
	}
	all := make([]map[string]string, 0, len(changes))
	for _, events := range changes {
		hints := map[string]string{}
		for _, event := range events {
			restore := claims.apply(event)
			for _, listener := range listeners {
				if hint, heard := listener.hint(pod, event); heard {
					hints[listener.plugin+" "+event.Label()] = hint
				}
			}
			restore()
		}
		all = append(all, hints)
	}
	return all, nil
}

// hint returns the plugin's answer to an event, and whether the plugin is registered for the event. If several
// registrations match, the answer is Error if any of them fails; otherwise, it is Queue if any of them queues the pod.
func (l listener) hint(pod *v1.Pod, event event) (hint string, heard bool) {
	for _, one := range l.registered {
		if !framework.MatchClusterEvents(one.Event, event.ClusterEvent) {
			continue
		}
		said, err := fwk.Queue, error(nil)
		if one.QueueingHintFn != nil {
			said, err = one.QueueingHintFn(klog.Background(), pod, event.old, event.new)
		}
		switch {
		case err != nil:
			return "Error", true
		case !heard || said == fwk.Queue:
			hint, heard = said.String(), true
		}
	}
	return hint, heard
}
