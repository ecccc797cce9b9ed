package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

// evaluations is the number of times that every expression is evaluated for a device. The order of the entries of a Go
// map is random, so the result may differ from one evaluation to the next.
const evaluations = 4

// selectorRequest is an expression and the devices for which it is evaluated.
type selectorRequest struct {
	Expression string `json:"expression"`
	// New is true to compile the expression as the API server compiles a new expression, and false to compile it as
	// kube-scheduler compiles a stored one.
	New bool `json:"new"`
	// ListAttributes is the feature gate DRAListTypeAttributes.
	ListAttributes bool `json:"listAttributes"`
	// ConsumableCapacity is the feature gate DRAConsumableCapacity.
	ConsumableCapacity bool `json:"consumableCapacity"`
	// CostLimit is the limit of the cost of one evaluation; absent for the default.
	CostLimit *uint64          `json:"costLimit"`
	Devices   []selectorDevice `json:"devices"`
}

type selectorDevice struct {
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
}

// selectorResponse answers a request. If the expression cannot be compiled, CompileError is set and Results is empty.
type selectorResponse struct {
	CompileError string           `json:"compileError,omitempty"`
	Results      []selectorResult `json:"results"`
}

// selectorResult is the result for one device: a value or an error.
type selectorResult struct {
	Value bool   `json:"value"`
	Error string `json:"error,omitempty"`
	// Cost is absent if the evaluation did not begin or did not end.
	Cost *uint64 `json:"cost"`
	// Unstable is true if several evaluations gave different results.
	Unstable bool `json:"unstable,omitempty"`
}

// runSelectors answers requests, one JSON document per line, until the input ends.
func runSelectors() int {
	debug.SetGCPercent(400)
	return serveLines("selectors", answerSelector)
}

// answerSelector answers one request. A panic while the expression is compiled is reported as a compile error.
func answerSelector(line []byte) (response selectorResponse) {
	defer func() {
		if panicked := recover(); panicked != nil {
			response = selectorResponse{CompileError: fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	var request selectorRequest
	if err := json.Unmarshal(line, &request); err != nil {
		return selectorResponse{CompileError: fmt.Sprintf("reading the request: %v", err)}
	}
	options := cel.Options{DisableCostEstimation: true, CostLimit: request.CostLimit}
	if request.New {
		environmentType := environment.NewExpressions
		options.EnvType = &environmentType
	}
	compiled := cel.GetCompiler(cel.Features{
		EnableConsumableCapacity: request.ConsumableCapacity,
		EnableListTypeAttributes: request.ListAttributes,
	}).CompileCELExpression(request.Expression, options)
	if compiled.Error != nil {
		return selectorResponse{CompileError: compiled.Error.Error()}
	}
	for _, device := range request.Devices {
		result := device.evaluate(&compiled)
		for range evaluations - 1 {
			again := device.evaluate(&compiled)
			sameCost := result.Cost == nil && again.Cost == nil ||
				result.Cost != nil && again.Cost != nil && *result.Cost == *again.Cost
			if again.Value != result.Value || again.Error != result.Error || !sameCost {
				result.Unstable = true
			}
		}
		response.Results = append(response.Results, result)
	}
	return response
}

func (d selectorDevice) evaluate(compiled *cel.CompilationResult) (result selectorResult) {
	value, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   d.Driver,
		AllowMultipleAllocations: d.AllowMultipleAllocations,
		Attributes:               d.Attributes,
		Capacity:                 d.Capacity,
	})
	result.Value = value
	if err != nil {
		result.Error = err.Error()
	}
	if details != nil {
		result.Cost = details.ActualCost()
	}
	return result
}
