package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// request is a request to the API server, after authentication.
type request struct {
	User   string              `json:"user"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`

	Operation   admission.Operation `json:"operation"`
	Group       string              `json:"group"`
	Version     string              `json:"version"`
	Kind        string              `json:"kind"`
	Resource    string              `json:"resource"`
	Subresource string              `json:"subresource"`
	Name        string              `json:"name"`

	// Namespace of the object, empty for objects of the cluster, and the labels of the namespace.
	Namespace       string            `json:"namespace"`
	NamespaceLabels map[string]string `json:"namespaceLabels"`

	// Old is the stored object, New the one that is to be stored. Null if there is none.
	Old json.RawMessage `json:"old"`
	New json.RawMessage `json:"new"`
}

func (r *request) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// attributes are what an admission plugin is given. They hold the new object, which mutations change.
func (r *request) attributes(scheme *runtime.Scheme) (admission.Attributes, error) {
	object, err := decode(scheme, r.kind(), r.New)
	if err != nil {
		return nil, fmt.Errorf("the new object: %w", err)
	}
	old, err := decode(scheme, r.kind(), r.Old)
	if err != nil {
		return nil, fmt.Errorf("the old object: %w", err)
	}
	resource := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	who := &user.DefaultInfo{Name: r.User, Groups: r.Groups, Extra: r.Extra}
	return admission.NewAttributesRecord(
		object, old, r.kind(), r.Namespace, r.Name, resource, r.Subresource, r.Operation, nil, false, who,
	), nil
}

// decode reads an object of a built-in kind into its type, as an API server does: empty fields are dropped. An object of
// another kind stays as it is written. Null is no object.
func decode(scheme *runtime.Scheme, kind schema.GroupVersionKind, text json.RawMessage) (runtime.Object, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	if !scheme.Recognizes(kind) {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &object.Object); err != nil {
			return nil, err
		}
		object.SetGroupVersionKind(kind)
		return object, nil
	}
	object, err := scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, object); err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return object, nil
}

// newScheme has the built-in kinds in their versions of the API. An API server converts them to internal versions, which
// are not part of the packages: here an object is converted to its own version.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	for _, copies := range []func(*runtime.Scheme) error{
		copyKind[corev1.Node], copyKind[corev1.Pod], copyKind[corev1.ConfigMap], copyKind[nodev1.RuntimeClass],
	} {
		if err := copies(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

type deepCopier[T any] interface {
	*T
	DeepCopyInto(*T)
}

func copyKind[T any, P deepCopier[T]](scheme *runtime.Scheme) error {
	return scheme.AddConversionFunc(P(nil), P(nil), func(from, to any, _ conversion.Scope) error {
		from.(P).DeepCopyInto(to.(*T))
		return nil
	})
}

// newMapper knows the kinds that policies are for, and those of their parameters.
func newMapper(custom ...schema.GroupVersionKind) *meta.DefaultRESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.AddSpecific(
		nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
		nodev1.SchemeGroupVersion.WithResource("runtimeclasses"),
		nodev1.SchemeGroupVersion.WithResource("runtimeclass"),
		meta.RESTScopeRoot,
	)
	for _, kind := range custom {
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	return mapper
}
