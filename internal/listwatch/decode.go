// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/sparse"
)

// Decode makes an object of the next value.
type Decode func(*jsontext.Decoder) (client.Object, error)

// ownMetadata are the fields that are read of every unstructured object.
var ownMetadata = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp",
	"metadata.labels", "metadata.annotations", "metadata.ownerReferences",
}

// Unstructured decodes of an object its metadata and the given fields, paths as in "report.artifact".
func Unstructured(kind schema.GroupVersionKind, fields []string) Decode {
	wanted := sparse.Of(slices.Concat(ownMetadata, fields)...)
	return func(d *jsontext.Decoder) (client.Object, error) {
		value, err := wanted.Decode(d)
		if err != nil {
			return nil, err
		}
		content, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("at %s: %T instead of an object", d.StackPointer(), value)
		}
		object := &unstructured.Unstructured{Object: content}
		object.SetGroupVersionKind(kind)
		return object, nil
	}
}

// Typed decodes objects of a Go type, without their managed fields.
func Typed[T any, P interface {
	*T
	client.Object
}]() Decode {
	return func(d *jsontext.Decoder) (client.Object, error) {
		object := P(new(T))
		return object, decodeValue(d, object)
	}
}

// withoutManagedFields skips them. Fields that repeat or differ in case only are taken as Kubernetes takes them.
var withoutManagedFields = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error {
	return d.SkipValue()
}))

func decodeValue(d *jsontext.Decoder, into any) error {
	return json.UnmarshalDecode(d, into, withoutManagedFields)
}
