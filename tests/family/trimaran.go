package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/peaks"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"
)

// loadWatcher is load-watcher's service. It answers with the report of the current request.
type loadWatcher struct {
	sync.Mutex
	server *httptest.Server
	report json.RawMessage
}

var watcher loadWatcher

// serve makes the service answer with the report in the request, if there is one, and returns the service's address.
// A plugin fetches the report when it is made.
func (w *loadWatcher) serve(c *cluster) string {
	w.Lock()
	defer w.Unlock()
	w.report = nil
	for key, raw := range c.custom.byKey {
		if strings.HasPrefix(key, "NodeLoads ") {
			w.report = raw
		}
	}
	if w.server == nil {
		w.server = httptest.NewServer(http.HandlerFunc(w.answer))
	}
	return w.server.URL
}

func (w *loadWatcher) answer(response http.ResponseWriter, _ *http.Request) {
	w.Lock()
	defer w.Unlock()
	if w.report == nil {
		http.Error(response, "no metrics", http.StatusNotFound)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	_, _ = response.Write(w.report)
}

// fromWatcher returns a factory of plugins that get their measurements from the service. The plugins keep fetching after
// the request has been answered, as they do in a scheduler.
func fromWatcher[A runtime.Object](c *cluster, make frameworkruntime.PluginFactory, set func(A, string)) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		given, ok := args.DeepCopyObject().(A)
		if !ok {
			return nil, fmt.Errorf("unexpected arguments: %T", args)
		}
		set(given, watcher.serve(c))
		return make(ctx, given, handle)
	}
}

func newTargetLoadPacking(c *cluster) frameworkruntime.PluginFactory {
	return fromWatcher(c, targetloadpacking.New, func(args *config.TargetLoadPackingArgs, address string) {
		args.WatcherAddress = address
	})
}

func newLoadVariation(c *cluster) frameworkruntime.PluginFactory {
	return fromWatcher(c, loadvariationriskbalancing.New, func(args *config.LoadVariationRiskBalancingArgs, address string) {
		args.WatcherAddress = address
	})
}

func newLowRisk(c *cluster) frameworkruntime.PluginFactory {
	return fromWatcher(c, lowriskovercommitment.New, func(args *config.LowRiskOverCommitmentArgs, address string) {
		args.WatcherAddress = address
	})
}

func newPeaks(c *cluster) frameworkruntime.PluginFactory {
	return fromWatcher(c, peaks.New, func(args *config.PeaksArgs, address string) {
		args.WatcherAddress = address
	})
}
