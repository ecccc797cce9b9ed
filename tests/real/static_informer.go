package main

import (
	"context"
	"errors"
	"sort"
	"time"

	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

var errStatic = errors.New("the objects of this informer never change")

// staticInformer is an informer with a fixed set of objects. It is always synced, and AddEventHandler passes all
// objects to the handler before it returns. A framework can therefore be built for each request without waiting for
// watches.
type staticInformer struct {
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
}

var _ cache.SharedIndexInformer = &staticInformer{}

func newStaticInformer() *staticInformer {
	return &staticInformer{indexer: cache.NewIndexer(
		cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	)}
}

func (s *staticInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, key := range sorted(s.indexer.ListKeys()) {
		if object, exists, err := s.indexer.GetByKey(key); err == nil && exists {
			handler.OnAdd(object, true)
		}
	}
	s.handlers = append(s.handlers, handler)
	return synced{}, nil
}

func sorted(keys []string) []string {
	sort.Strings(keys)
	return keys
}

// apply passes a changed claim to the handlers, and returns a function that reverts the change. In kube-scheduler, the
// cache of claims receives a change before the queue does, so hints see the new claim. The claim is deleted and added
// again rather than updated, because it may have no resource version. apply ignores changes to objects of
// other kinds.
func (s *staticInformer) apply(change event) (restore func()) {
	if change.Resource != fwk.ResourceClaim {
		return func() {}
	}
	object := change.new
	if object == nil {
		object = change.old
	}
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return func() {}
	}
	before, existed, _ := s.indexer.GetByKey(key)
	if existed {
		s.notify(before, false)
	}
	if change.new != nil {
		s.notify(change.new, true)
	}
	return func() {
		if change.new != nil {
			s.notify(change.new, false)
		}
		if existed {
			s.notify(before, true)
		}
	}
}

func (s *staticInformer) notify(object any, exists bool) {
	for _, handler := range s.handlers {
		if exists {
			handler.OnAdd(object, false)
		} else {
			handler.OnDelete(object)
		}
	}
}

func (s *staticInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *staticInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *staticInformer) AddIndexers(indexers cache.Indexers) error {
	missing := cache.Indexers{}
	present := s.indexer.GetIndexers()
	for name, index := range indexers {
		if _, ok := present[name]; !ok {
			missing[name] = index
		}
	}
	return s.indexer.AddIndexers(missing)
}

func (s *staticInformer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (s *staticInformer) GetStore() cache.Store                                           { return s.indexer }
func (s *staticInformer) GetIndexer() cache.Indexer                                       { return s.indexer }
func (s *staticInformer) GetController() cache.Controller                                 { return nil }
func (s *staticInformer) Run(stop <-chan struct{})                                        { <-stop }
func (s *staticInformer) RunWithContext(ctx context.Context)                              { <-ctx.Done() }
func (s *staticInformer) HasSynced() bool                                                 { return true }
func (s *staticInformer) HasSyncedChecker() cache.DoneChecker                             { return synced{} }
func (s *staticInformer) LastSyncResourceVersion() string                                 { return "1" }
func (s *staticInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error              { return errStatic }
func (s *staticInformer) SetTransform(cache.TransformFunc) error                          { return errStatic }
func (s *staticInformer) IsStopped() bool                                                 { return false }
func (s *staticInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errStatic
}

// synced is the registration of a handler that has received all objects.
type synced struct{}

var closed = func() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "static objects" }
func (synced) Done() <-chan struct{}               { return closed }
