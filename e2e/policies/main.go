// Command policies evaluates admission policies with the code of kube-apiserver: its plugins for validating and mutating
// policies, which select policies by resource, object and namespace, collect the parameters, compile and run the
// expressions and apply the patches.
//
// It reads one input per line from standard input, as JSON, and writes one output per line. An input that cannot be read, or
// policies that cannot be loaded, result in an output with an error.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
)

// input is either a request to evaluate under policies, or policies whose expressions are type-checked.
type input struct {
	// Policies and their bindings.
	Policies []unstructured.Unstructured `json:"policies"`
	// Params are the objects of the kind of the parameters, all of the cluster.
	Params []unstructured.Unstructured `json:"params,omitempty"`
	// Request is evaluated.
	Request *request `json:"request,omitempty"`
	// Definitions of custom resources: if set, the expressions of validating policies are type-checked.
	Definitions []unstructured.Unstructured `json:"definitions,omitempty"`
}

type output struct {
	// Rejections by policies, each with its message.
	Rejections []finding `json:"rejections"`
	// Errors of expressions that a policy with failurePolicy Ignore hides.
	Errors []finding `json:"errors"`
	// Object is that of the request after all mutations.
	Object json.RawMessage `json:"object,omitempty"`
	// Warnings of the type checker.
	Warnings []finding `json:"warnings"`
	// Error says why there is no result.
	Error string `json:"error,omitempty"`
}

type finding struct {
	Policy  string `json:"policy"`
	Message string `json:"message"`
}

func main() {
	// What the server would log belongs to no result.
	flags := flag.NewFlagSet("policies", flag.ExitOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)

	evaluator := newEvaluator()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given input
		result := output{}
		err := json.Unmarshal(lines.Bytes(), &given)
		if err == nil {
			result, err = resultOf(evaluator, &given)
		}
		if err != nil {
			result = output{Error: err.Error()}
		}
		if err := out.Encode(result); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func resultOf(evaluator *evaluator, given *input) (output, error) {
	if given.Request != nil {
		return evaluator.evaluate(given)
	}
	warnings, err := typeCheck(given.Policies, given.Definitions)
	return output{Warnings: warnings}, err
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "policies:", err)
	os.Exit(1)
}
