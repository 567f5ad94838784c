package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// typeCheck returns what kube-apiserver would write to the status of validating policies: an expression that reads a field
// which its objects do not have, or that compares different types. It needs the definitions of the custom resources.
func typeCheck(policies, definitions []unstructured.Unstructured) ([]finding, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	schemas := schemaResolver{scheme: scheme, custom: map[schema.GroupVersionKind]*spec.Schema{}}
	var kinds []schema.GroupVersionKind
	for _, definition := range definitions {
		kind, err := schemas.add(&definition)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", definition.GetName(), err)
		}
		kinds = append(kinds, kind)
	}
	checker := validating.TypeChecker{SchemaResolver: schemas, RestMapper: newMapper(kinds...)}
	warnings := []finding{}
	for _, object := range policies {
		if object.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		policy, err := typed(scheme, &object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", object.GetName(), err)
		}
		for _, warning := range checker.Check(policy.(*admissionv1.ValidatingAdmissionPolicy)) {
			warnings = append(warnings, finding{object.GetName(), warning.FieldRef + ": " + warning.Warning})
		}
	}
	return warnings, nil
}

// schemaResolver has the schemas of kinds: of the built-in ones from their Go types, because the packages do not contain
// the generated OpenAPI of the server.
type schemaResolver struct {
	scheme *runtime.Scheme
	custom map[schema.GroupVersionKind]*spec.Schema
}

var _ resolver.SchemaResolver = schemaResolver{}

// add reads the only version of a CustomResourceDefinition.
func (r schemaResolver) add(definition *unstructured.Unstructured) (schema.GroupVersionKind, error) {
	var read struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema spec.Schema `json:"openAPIV3Schema"`
				}
			}
		}
	}
	text, err := definition.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || len(read.Spec.Versions) != 1 {
		return schema.GroupVersionKind{}, fmt.Errorf("not a definition with one version: %w", err)
	}
	version := &read.Spec.Versions[0]
	kind := schema.GroupVersionKind{Group: read.Spec.Group, Version: version.Name, Kind: read.Spec.Names.Kind}
	known := version.Schema.OpenAPIV3Schema
	// A server adds these to every object.
	for _, of := range []reflect.Type{reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}]()} {
		addFields(of, known.Properties)
	}
	r.custom[kind] = &known
	return kind, nil
}

// ResolveSchema implements resolver.SchemaResolver.
func (r schemaResolver) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	if known := r.custom[kind]; known != nil {
		return known, nil
	}
	object, err := r.scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", resolver.ErrSchemaNotFound, err)
	}
	result := schemaOf(reflect.TypeOf(object).Elem())
	return &result, nil
}

// scalars are the types whose JSON differs from their fields.
var scalars = map[reflect.Type]*spec.Schema{
	reflect.TypeFor[metav1.Time]():          spec.DateTimeProperty(),
	reflect.TypeFor[metav1.MicroTime]():     spec.DateTimeProperty(),
	reflect.TypeFor[resource.Quantity]():    spec.StringProperty(),
	reflect.TypeFor[intstr.IntOrString]():   {VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-int-or-string": true}}},
	reflect.TypeFor[metav1.FieldsV1]():      {SchemaProps: spec.SchemaProps{Type: []string{"object"}}},
	reflect.TypeFor[runtime.RawExtension](): {SchemaProps: spec.SchemaProps{Type: []string{"object"}}},
}

// schemaOf is the schema of the JSON of a Go type of the API.
func schemaOf(of reflect.Type) spec.Schema {
	if known := scalars[of]; known != nil {
		return *known
	}
	switch of.Kind() {
	case reflect.Pointer:
		return schemaOf(of.Elem())
	case reflect.Bool:
		return *spec.BooleanProperty()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return *spec.Int64Property()
	case reflect.Float32, reflect.Float64:
		return *spec.Float64Property()
	case reflect.String:
		return *spec.StringProperty()
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return *spec.StrFmtProperty("byte")
		}
		items := schemaOf(of.Elem())
		return *spec.ArrayProperty(&items)
	case reflect.Map:
		values := schemaOf(of.Elem())
		return *spec.MapProperty(&values)
	case reflect.Struct:
		result := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{}}}
		addFields(of, result.Properties)
		return result
	default:
		panic(fmt.Sprintf("no schema for %s", of))
	}
}

func addFields(of reflect.Type, properties map[string]spec.Schema) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			addFields(field.Type, properties)
		default:
			properties[name] = schemaOf(field.Type)
		}
	}
}
