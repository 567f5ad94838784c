// Command kstatus reads objects as JSON, one per line, and writes for each the status that kstatus computes. Flux and other tools wait
// for this status.
package main

import (
	"bufio"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var object unstructured.Unstructured
		if err := json.Unmarshal(line, &object.Object); err != nil {
			fail(err)
		}
		result, err := status.Compute(&object)
		if err != nil {
			fail(err)
		}
		fmt.Println(result.Status)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
