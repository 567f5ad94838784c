package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/tools/cache"
)

// evaluator has one plugin per policy, so that each policy's rejection of a request is seen: a server reports only one.
type evaluator struct {
	scheme  *runtime.Scheme
	started map[string]*plugin
}

// plugin is the admission plugin of kube-apiserver with one policy and its binding.
type plugin struct {
	policy string
	run    func(context.Context, admission.Attributes, admission.ObjectInterfaces) error
	params cache.Indexer
	spaces cache.Indexer
}

func newEvaluator() *evaluator {
	scheme, err := newScheme()
	if err != nil {
		fail(err)
	}
	return &evaluator{scheme: scheme, started: map[string]*plugin{}}
}

// evaluate applies every policy to a request. Mutations come first, each with the object that the one before has left.
func (e *evaluator) evaluate(given *input) (output, error) {
	result := output{Rejections: []finding{}, Errors: []finding{}, Object: given.Request.New}
	pairs, err := pairsOf(given.Policies)
	if err != nil {
		return result, err
	}
	asShipped, asFail, err := e.plugins(pairs)
	if err != nil {
		return result, err
	}
	objects := admission.NewObjectInterfacesFromScheme(e.scheme)
	for i := range pairs {
		current := *given.Request
		current.New = result.Object
		// A policy that ignores errors is applied as one that fails by them: the difference is the error.
		ignored, _, err := e.apply(asFail[i], &current, given.Params, objects)
		if err != nil {
			return result, err
		}
		rejected, object, err := e.apply(asShipped[i], &current, given.Params, objects)
		if err != nil {
			return result, err
		}
		result.Object = object
		switch {
		case rejected != nil:
			result.Rejections = append(result.Rejections, *rejected)
		case ignored != nil:
			result.Errors = append(result.Errors, *ignored)
		}
	}
	return result, nil
}

// apply returns the rejection by one policy, and the object after its mutations.
func (e *evaluator) apply(
	plugin *plugin, req *request, params []unstructured.Unstructured, objects admission.ObjectInterfaces,
) (*finding, json.RawMessage, error) {
	attributes, err := req.attributes(e.scheme)
	if err != nil {
		return nil, nil, err
	}
	if err := plugin.set(req, params); err != nil {
		return nil, nil, err
	}
	object := req.New
	err = plugin.run(context.Background(), attributes, objects)
	if changed := attributes.GetObject(); err == nil && changed != nil {
		if object, err = json.Marshal(changed); err != nil {
			return nil, nil, err
		}
	}
	if err != nil {
		return &finding{Policy: plugin.policy, Message: err.Error()}, object, nil
	}
	return nil, object, nil
}

// set replaces what the cluster has: the namespace of the request, and the parameters.
func (p *plugin) set(req *request, params []unstructured.Unstructured) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Namespace, Labels: req.NamespaceLabels}}
	all := make([]any, len(params))
	for i := range params {
		all[i] = &params[i]
	}
	return errors.Join(p.params.Replace(all, ""), p.spaces.Replace([]any{namespace}, ""))
}

// pair is a policy with its binding.
type pair struct{ policy, binding unstructured.Unstructured }

func pairsOf(objects []unstructured.Unstructured) ([]pair, error) {
	var pairs []pair
	for _, policy := range objects {
		if _, isPolicy, _ := unstructured.NestedMap(policy.Object, "spec", "matchConstraints"); !isPolicy {
			continue
		}
		found := false
		for _, binding := range objects {
			name, _, _ := unstructured.NestedString(binding.Object, "spec", "policyName")
			if name == policy.GetName() {
				pairs, found = append(pairs, pair{policy, binding}), true
			}
		}
		if !found {
			return nil, fmt.Errorf("policy %s has no binding", policy.GetName())
		}
	}
	return pairs, nil
}

// plugins of the policies, as they are and with failurePolicy Fail. Those that are new start at the same time.
func (e *evaluator) plugins(pairs []pair) (asShipped, asFail []*plugin, err error) {
	var group sync.WaitGroup
	var lock sync.Mutex
	var problems []error
	get := func(one pair) *plugin {
		text, _ := json.Marshal([]any{one.policy.Object, one.binding.Object})
		if known := e.started[string(text)]; known != nil {
			return known
		}
		started := newPlugin(one.policy.GetName())
		e.started[string(text)] = started
		group.Add(1)
		go func() {
			defer group.Done()
			if err := started.start(e.scheme, one); err != nil {
				lock.Lock()
				defer lock.Unlock()
				problems = append(problems, fmt.Errorf("policy %s: %w", one.policy.GetName(), err))
			}
		}()
		return started
	}
	for _, one := range pairs {
		asShipped = append(asShipped, get(one))
		failing := pair{*one.policy.DeepCopy(), one.binding}
		if err := unstructured.SetNestedField(failing.policy.Object, "Fail", "spec", "failurePolicy"); err != nil {
			return nil, nil, err
		}
		asFail = append(asFail, get(failing))
	}
	group.Wait()
	return asShipped, asFail, errors.Join(problems...)
}

func newPlugin(policy string) *plugin {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &plugin{
		policy: policy,
		params: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace),
		spaces: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace),
	}
}

// start loads the policy as a server does, from its API, and waits until the plugin is ready.
func (p *plugin) start(scheme *runtime.Scheme, one pair) error {
	policy, err := typed(scheme, &one.policy)
	if err != nil {
		return err
	}
	binding, err := typed(scheme, &one.binding)
	if err != nil {
		return err
	}
	switch policy := policy.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		setDefaults(policy.Spec.MatchConstraints)
		plugin, err := validating.NewPlugin(nil)
		if err != nil {
			return err
		}
		p.run = plugin.Validate
		return load(plugin.Plugin, p, one, policy, binding)
	case *admissionv1.MutatingAdmissionPolicy:
		setDefaults(policy.Spec.MatchConstraints)
		plugin, err := mutating.NewPlugin(nil)
		if err != nil {
			return err
		}
		plugin.SetEnabled(true)
		p.run = plugin.Admit
		return load(plugin.Plugin, p, one, policy, binding)
	default:
		return fmt.Errorf("not a policy: %T", policy)
	}
}

// setDefaults of a policy, as the API does when it is stored: the defaults that the comments of these fields name in
// k8s.io/api/admissionregistration/v1 (types.go, 0.36).
func setDefaults(constraints *admissionv1.MatchResources) {
	if constraints.NamespaceSelector == nil {
		constraints.NamespaceSelector = &metav1.LabelSelector{}
	}
	if constraints.ObjectSelector == nil {
		constraints.ObjectSelector = &metav1.LabelSelector{}
	}
	if constraints.MatchPolicy == nil {
		constraints.MatchPolicy = new(admissionv1.Equivalent)
	}
	for i := range constraints.ResourceRules {
		if rule := &constraints.ResourceRules[i]; rule.Scope == nil {
			rule.Scope = new(admissionv1.AllScopes)
		}
	}
}

// typed reads an object strictly: a field that the version does not have is an error.
func typed(scheme *runtime.Scheme, object *unstructured.Unstructured) (runtime.Object, error) {
	kind := object.GroupVersionKind()
	result, err := scheme.New(kind)
	if err != nil {
		return nil, err
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, result, true)
	return result, err
}

func paramKinds(policy *unstructured.Unstructured) []schema.GroupVersionKind {
	kind, found, _ := unstructured.NestedStringMap(policy.Object, "spec", "paramKind")
	if !found {
		return nil
	}
	return []schema.GroupVersionKind{schema.FromAPIVersionAndKind(kind["apiVersion"], kind["kind"])}
}

// load gives the plugin a cluster in which the policy and its binding are stored, and waits until it has read them.
func load[H any](plugin *generic.Plugin[H], p *plugin, one pair, policy, binding runtime.Object) error {
	client := clientset{fake.NewClientset(policy, binding)}
	shared := factory{SharedInformerFactory: informers.NewSharedInformerFactory(client, 0), params: p.params}
	stop := make(chan struct{})
	plugin.SetMatcher(matching.NewMatcher(corelisters.NewNamespaceLister(p.spaces), client))
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(shared)
	plugin.SetRESTMapper(newMapper(paramKinds(&one.policy)...))
	plugin.SetDynamicClient(noDynamicClient{})
	plugin.SetDrainedNotification(stop)
	plugin.SetAuthorizer(noAuthorizer{})
	if err := plugin.ValidateInitialization(); err != nil {
		return err
	}
	// The plugin waits for this informer, though its matcher reads the namespaces that are set here.
	shared.Core().V1().Namespaces().Informer()
	shared.Start(stop)
	if !plugin.WaitForReady() {
		return errors.New("it did not load")
	}
	return nil
}

// factory of informers that gives the parameters, whose store is written directly: they are current at every request.
type factory struct {
	informers.SharedInformerFactory
	params cache.Indexer
}

func (f factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	return informer{lister: cache.NewGenericLister(f.params, resource.GroupResource())}, nil
}

type informer struct{ lister cache.GenericLister }

func (i informer) Informer() cache.SharedIndexInformer { return synced{} }
func (i informer) Lister() cache.GenericLister         { return i.lister }

// synced is the informer of a store that is always complete.
type synced struct{ cache.SharedIndexInformer }

func (synced) HasSynced() bool { return true }

type noDynamicClient struct{ dynamic.Interface }

type noAuthorizer struct{}

func (noAuthorizer) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "no policy checks permissions", nil
}

// clientset is a fake one that has schemas too: the mutating plugin reads that of each object, and uses it for
// patches of another type than JSONPatch only.
type clientset struct{ *fake.Clientset }

func (c clientset) Discovery() discovery.DiscoveryInterface {
	return withSchemas{c.Clientset.Discovery()}
}

type withSchemas struct{ discovery.DiscoveryInterface }

func (withSchemas) OpenAPIV3() openapi.Client { return emptySchemas{} }

type emptySchemas struct{}

func (emptySchemas) Paths() (map[string]openapi.GroupVersion, error) {
	return map[string]openapi.GroupVersion{"api/v1": emptySchemas{}}, nil
}

func (emptySchemas) Schema(string) ([]byte, error) {
	return []byte(`{"openapi": "3.0.0", "components": {"schemas": {}}}`), nil
}

func (emptySchemas) ServerRelativeURL() string { return "" }
