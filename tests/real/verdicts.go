package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// verdictRequest describes one cluster, and names the pending pods to evaluate.
type verdictRequest struct {
	ID int64 `json:"id"`
	// Config is a KubeSchedulerConfiguration (v1); absent or null means the defaults.
	Config json.RawMessage `json:"config"`
	// Objects are Kubernetes objects, each with apiVersion and kind. They get the API server's defaults. A pod with a
	// node name is bound; all other pods are pending.
	Objects []json.RawMessage `json:"objects"`
	// Pods are the namespace/name of the pending pods to evaluate. If the list is empty, all pending pods are evaluated,
	// in the order of Objects.
	Pods []string `json:"pods"`
	// Preempt is true to evaluate preemption for the pods that fit nowhere.
	Preempt bool `json:"preempt"`
	// Changes are the changes for which the plugins' queueing hints are evaluated for every pod.
	Changes []change `json:"changes"`
}

// verdictResponse answers the request with the same ID. If the request as a whole could not be evaluated, Error is set
// and Pods is empty.
type verdictResponse struct {
	ID    int64        `json:"id"`
	Error string       `json:"error,omitempty"`
	Pods  []podVerdict `json:"pods"`
}

// podVerdict contains the verdicts of the plugins of the pod's profile. Each pod is evaluated without the other pending
// pods.
type podVerdict struct {
	Pod     string `json:"pod"`
	Profile string `json:"profile"`
	// Error is the reason why the pod could not be fully evaluated.
	Error string `json:"error,omitempty"`
	// PreEnqueue is the first rejection by PreEnqueue. Later extension points are evaluated nevertheless.
	PreEnqueue *status `json:"preEnqueue"`
	// PreFilter is the rejection of the whole pod; Nodes is then empty.
	PreFilter *status `json:"preFilter"`
	// Nodes contains the status of every node; null if the pod fits on the node.
	Nodes map[string]*status `json:"nodes"`
	// Scores contains the score of every node on which the pod fits.
	Scores map[string]nodeScore `json:"scores"`
	// Allocations contains, for every node on which the pod fits, the allocations of the pod's unallocated claims.
	Allocations map[string][]claimAllocation `json:"allocations,omitempty"`
	// PostFilter is the result of PostFilter of DynamicResources. It is set if the pod fits on no node and the profile
	// has that plugin.
	PostFilter *status `json:"postFilter,omitempty"`
	// Preemption is set if the request asks for preemption and the pod fits on no node.
	Preemption *preemptionVerdict `json:"preemption,omitempty"`
	// Hints contains the hints for each change, by plugin and event.
	Hints []map[string]string `json:"hints,omitempty"`
}

// status is a rejection or an error. Reasons are sorted, because their order is random if a plugin iterates over a Go
// map.
type status struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// nodeScore contains the normalized, weighted score of each plugin that PreScore did not skip, and their sum.
type nodeScore struct {
	Total   int64            `json:"total"`
	Plugins map[string]int64 `json:"plugins"`
}

// runVerdicts answers requests, one JSON document per line, until the input ends. The flag --feature-gates has the same
// format as kube-scheduler's.
func runVerdicts() int {
	flags := flag.NewFlagSet("verdicts", flag.ContinueOnError)
	flags.Func("feature-gates", "feature gates in kube-scheduler's format, such as A=true,B=false",
		utilfeature.DefaultMutableFeatureGate.Set)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	debug.SetGCPercent(400)
	metrics.Register()
	return serveLines("verdicts", newOracle(context.Background()).answerLine)
}

// answerLine answers one request. It never fails: the response contains any error or panic.
func (o *oracle) answerLine(line []byte) (response verdictResponse) {
	var request verdictRequest
	defer func() {
		if panicked := recover(); panicked != nil {
			response = failure(request.ID, fmt.Sprintf("panic: %v\n%s", panicked, debug.Stack()))
		}
	}()
	if err := json.Unmarshal(line, &request); err != nil {
		return failure(request.ID, fmt.Sprintf("reading the request: %v", err))
	}
	pods, err := o.answer(&request)
	if err != nil {
		return failure(request.ID, err.Error())
	}
	return verdictResponse{ID: request.ID, Pods: pods}
}

func failure(id int64, message string) verdictResponse {
	return verdictResponse{ID: id, Error: message, Pods: []podVerdict{}}
}
