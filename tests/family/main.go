// Command family answers questions about the plugins of kubernetes-sigs/scheduler-plugins: what a plugin says about every
// node of a cluster, and in which order it tries pods. It reads one request per line and writes one response per line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// request describes a cluster.
type request struct {
	ID int64 `json:"id"`
	// Config is a KubeSchedulerConfiguration (v1) that enables plugins of scheduler-plugins only.
	Config json.RawMessage `json:"config"`
	// Objects are Kubernetes objects and custom resources, each with apiVersion and kind. A pod with a node name is
	// bound; all other pods are pending.
	Objects []json.RawMessage `json:"objects"`
	// Pods are the namespace/name of the pending pods to evaluate; empty for all.
	Pods []string `json:"pods"`
}

// response answers the request with the same ID. If the request could not be answered, Error is set.
type response struct {
	ID    int64        `json:"id"`
	Error string       `json:"error,omitempty"`
	Pods  []podVerdict `json:"pods"`
}

// podVerdict contains the verdicts of the plugins of the pod's profile.
type podVerdict struct {
	Pod     string `json:"pod"`
	Profile string `json:"profile"`
	Error   string `json:"error,omitempty"`
	// PreFilter is the rejection of the whole pod; Nodes is then empty.
	PreFilter *status `json:"preFilter"`
	// Nodes contains the status of every node; null if the pod fits on the node.
	Nodes map[string]*status `json:"nodes"`
	// Scores contains the score of every node on which the pod fits.
	Scores map[string]nodeScore `json:"scores"`
	// Before are the namespace/name of the pending pods before which the QueueSort plugin puts the pod.
	Before []string `json:"before"`
	// Preemption is the result of the PostFilter plugin for a pod that fits nowhere.
	Preemption *preemptionVerdict `json:"preemption,omitempty"`
}

type status struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

type nodeScore struct {
	Total   int64            `json:"total"`
	Plugins map[string]int64 `json:"plugins"`
}

type preemptionVerdict struct {
	// Node is empty: the choice between candidates is not compared.
	Node string `json:"node"`
	// Candidates are the nodes on which evictions make the pod fit, by name.
	Candidates map[string]candidate `json:"candidates"`
}

type candidate struct {
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

func main() {
	debug.SetGCPercent(400)
	metrics.Register()
	judge := newJudge(context.Background())
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	// Some plugins print to the standard output, and log a line for every node.
	os.Stdout = os.Stderr
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(judge.answerLine(line)); err != nil {
				fmt.Fprintln(os.Stderr, "family:", err)
				os.Exit(1)
			}
			if in.Buffered() == 0 {
				_ = out.Flush()
			}
		}
		if err != nil {
			_ = out.Flush()
			if err != io.EOF {
				fmt.Fprintln(os.Stderr, "family:", err)
				os.Exit(1)
			}
			return
		}
	}
}

// answerLine answers one request. It never fails: the response contains any error or panic.
func (j *judge) answerLine(line []byte) (answer response) {
	var request request
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = failure(request.ID, fmt.Sprintf("panic: %v\n%s", panicked, debug.Stack()))
		}
	}()
	if err := json.Unmarshal(line, &request); err != nil {
		return failure(request.ID, fmt.Sprintf("reading the request: %v", err))
	}
	pods, err := j.answer(&request)
	if err != nil {
		return failure(request.ID, err.Error())
	}
	return response{ID: request.ID, Pods: pods}
}

func failure(id int64, message string) response {
	return response{ID: id, Error: message, Pods: []podVerdict{}}
}
