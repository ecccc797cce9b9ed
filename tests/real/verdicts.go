package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// verdictRequest describes one cluster and asks about some of its pending pods.
type verdictRequest struct {
	ID int64 `json:"id"`
	// Config is a KubeSchedulerConfiguration (v1); absent or null means the defaults.
	Config json.RawMessage `json:"config"`
	// Objects are Kubernetes objects, each with apiVersion and kind. They get
	// the API server's defaults. A pod with a node name is bound, others pend.
	Objects []json.RawMessage `json:"objects"`
	// Pods names the pending pods to evaluate as namespace/name; none means
	// all, in the order of Objects.
	Pods []string `json:"pods"`
	// Preempt asks about evictions for the pods that fit nowhere.
	Preempt bool `json:"preempt"`
	// Changes are what the plugins' queueing hints are asked about, for every pod.
	Changes []change `json:"changes"`
}

// verdictResponse answers the request with the same ID. Error is set, and Pods
// empty, when the request as a whole could not be understood.
type verdictResponse struct {
	ID    int64        `json:"id"`
	Error string       `json:"error,omitempty"`
	Pods  []podVerdict `json:"pods"`
}

// podVerdict is what the plugins of the pod's profile say, each pod seeing the
// bound pods only.
type podVerdict struct {
	Pod     string `json:"pod"`
	Profile string `json:"profile"`
	// Error says why the pod could not be evaluated to the end.
	Error string `json:"error,omitempty"`
	// PreEnqueue is the first rejection that would keep the pod out of the
	// queue. The later points are evaluated all the same.
	PreEnqueue *status `json:"preEnqueue"`
	// PreFilter is set when the pod was rejected as a whole; Nodes is empty then.
	PreFilter *status `json:"preFilter"`
	// Nodes has every node; null means that the pod fits there.
	Nodes map[string]*status `json:"nodes"`
	// Scores has every node where the pod fits.
	Scores map[string]nodeScore `json:"scores"`
	// Preemption is set when it was asked about and the pod fits no node.
	Preemption *preemptionVerdict `json:"preemption,omitempty"`
	// Hints are the answers to every change, by plugin and event.
	Hints []map[string]string `json:"hints,omitempty"`
}

// status is a rejection or an error. Reasons are sorted: where a plugin walks
// a Go map their order is random.
type status struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// nodeScore has the normalised and weighted score of each plugin that was not
// skipped, and their sum.
type nodeScore struct {
	Total   int64            `json:"total"`
	Plugins map[string]int64 `json:"plugins"`
}

// runVerdicts answers requests, one JSON document per line, until the input ends.
// Its flag --feature-gates is that of kube-scheduler.
func runVerdicts() int {
	flags := flag.NewFlagSet("verdicts", flag.ContinueOnError)
	flags.Func("feature-gates", "as kube-scheduler takes them", utilfeature.DefaultMutableFeatureGate.Set)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	debug.SetGCPercent(400)
	metrics.Register()
	oracle := newOracle(context.Background())
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, readErr := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(oracle.answerLine(line)); err != nil {
				fmt.Fprintln(os.Stderr, "verdicts:", err)
				return 1
			}
			// Requests that already wait share one write.
			if in.Buffered() == 0 {
				if err := out.Flush(); err != nil {
					fmt.Fprintln(os.Stderr, "verdicts:", err)
					return 1
				}
			}
		}
		if readErr != nil {
			if err := out.Flush(); err != nil || readErr != io.EOF {
				fmt.Fprintln(os.Stderr, "verdicts:", readErr, err)
				return 1
			}
			return 0
		}
	}
}

// answerLine never fails: what goes wrong is told in the response.
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
